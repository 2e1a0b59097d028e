"""Filter TACO-verified into tasks, check them with their reference solutions, and split them."""

from cobalt.cli import run_main
from cobalt.tasks.taco import main

if __name__ == "__main__":
    run_main(main)
