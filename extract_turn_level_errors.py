"""Find the turns of evaluated dialogues that accepted a perturbed test."""

from cobalt.analysis.turn_errors import main
from cobalt.cli import run_main

if __name__ == "__main__":
    run_main(main)
