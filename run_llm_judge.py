"""Let a model sort turn errors into kinds of hacking."""

from cobalt.analysis.judge_door import main
from cobalt.cli import run_main

if __name__ == "__main__":
    run_main(main)
