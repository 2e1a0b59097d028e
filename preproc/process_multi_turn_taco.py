"""Select trajectories and cut them into bandit contexts."""

from cobalt.contexts.build import main
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main)
