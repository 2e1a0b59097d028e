"""Turn a LiveCodeBench release file into tasks."""

from cobalt.cli import run_main
from cobalt.tasks.livecodebench import main

if __name__ == "__main__":
    run_main(main)
