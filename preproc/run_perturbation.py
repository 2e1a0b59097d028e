"""Make public tests wrong, so that no right program can pass them all."""

from cobalt.cli import run_main
from cobalt.tasks.perturb import main

if __name__ == "__main__":
    run_main(main)
