"""Repair programs over several turns on the feedback of their public tests."""

from cobalt.cli import run_main
from cobalt.rollouts.multi_turn import main

if __name__ == "__main__":
    run_main(main)
