"""Evaluate every program of every turn on the hidden tests."""

from cobalt.cli import run_main
from cobalt.evaluation.evaluate import main

if __name__ == "__main__":
    run_main(main)
