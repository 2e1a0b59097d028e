"""`python -m cobalt.run CONFIG --out FOLDER`."""

from cobalt.cli import run_main
from cobalt.run.cli import main

if __name__ == "__main__":
    run_main(main)
