"""Let a model sort turn errors into kinds of hacking."""

from cobalt.evaluation.judge import main
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main)
