"""Sample programs for every task in one turn and run them on all tests."""

from functools import partial

from cobalt.cli import run_main
from cobalt.evaluation.terminal import score_lines
from cobalt.rollouts.single_turn import main

if __name__ == "__main__":
    run_main(partial(main, score=score_lines))
