"""Read the published prompts out of your clone of the original repository, for `--prompts FILE`."""

from cobalt.commands.import_prompts import main
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main)
