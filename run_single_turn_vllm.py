"""Sample programs for every task in one turn and run them on all tests."""

from cobalt.cli import run_main
from cobalt.rollouts.single_turn import main

if __name__ == "__main__":
    run_main(main)
