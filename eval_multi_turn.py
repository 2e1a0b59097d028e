"""Evaluate every program of every turn on the hidden tests."""

from cobalt.analysis.hidden_tests import main
from cobalt.cli import run_main

if __name__ == "__main__":
    run_main(main)
