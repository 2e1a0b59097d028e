"""Repair programs of a provider's model over several turns on the feedback of their public tests."""

from functools import partial

from cobalt.cli import run_main
from cobalt.rollouts.multi_turn import main

if __name__ == "__main__":
    run_main(partial(main, default_engine="litellm"))
