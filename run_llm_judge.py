"""Let a model sort turn errors into kinds of hacking."""

from cobalt.cli import run_main
from cobalt.evaluation.judge import main

if __name__ == "__main__":
    run_main(main)
