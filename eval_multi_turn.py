"""Evaluate every program of every turn on the hidden tests."""

from cobalt.evaluation.evaluate import main
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main)
