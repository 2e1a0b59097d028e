"""Select trajectories and cut them into bandit contexts."""

from cobalt.cli import run_main
from cobalt.contexts.build import main

if __name__ == "__main__":
    run_main(main)
