"""Find the turns of evaluated dialogues that accepted a perturbed test."""

from cobalt.cli import run_main
from cobalt.evaluation.turn_errors import main

if __name__ == "__main__":
    run_main(main)
