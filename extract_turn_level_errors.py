"""Find the turns of evaluated dialogues that accepted a perturbed test."""

from cobalt.evaluation.turn_errors import main
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main)
