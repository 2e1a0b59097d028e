"""Sample programs from a provider's model and run them on all tests."""

from functools import partial

from cobalt.cli import run_main
from cobalt.evaluation.terminal import score_lines
from cobalt.rollouts.single_turn import main

if __name__ == "__main__":
    run_main(partial(main, default_engine="litellm", score=score_lines))
