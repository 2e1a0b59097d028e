"""Read the published prompts out of your clone of the original repository, for `--prompts FILE`."""

from cobalt.cli import run_main
from cobalt.commands.import_prompts import main

if __name__ == "__main__":
    run_main(main)
