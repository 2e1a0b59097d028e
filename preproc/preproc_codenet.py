"""Build groups of stored programs from Project CodeNet, for offline training."""

from cobalt.cli import run_main
from cobalt.tasks.codenet import main

if __name__ == "__main__":
    run_main(main)
