"""The `cobalt` command: one word per job, each a module's `main(argv)`, imported only when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

from cobalt import __version__
from cobalt.cli import run_main
from cobalt.errors import InputError

# word of the command line -> (module, what it does)
COMMANDS = {
    "run": ("cobalt.run.cli", "run the stages of a configuration (what `make demo` does)"),
    "eval": ("cobalt.run.evaluate", "Pass@1 by turn of one model, named or served, on a file of tasks"),
    "train": ("cobalt.training.cli", "train by a recipe"),
    "plan": ("cobalt.plan.cli", "what a run takes: tokens, hours, disk, money, with the arithmetic"),
    "stored_groups": ("cobalt.training.offline_data", "groups of stored completions, for offline recipes"),
    "samples": ("cobalt.evaluation.samples", "programs as EvalPlus, BigCodeBench, LiveCodeBench read them"),
    "data": ("cobalt.data", "check FILE: its kind and first bad rows; fields: table of all fields"),
    "doctor": ("cobalt.doctor", "what this machine gives: isolation, limits, versions"),
    "compare": ("cobalt.evaluation.compare", "paired differences of runs, with intervals and tests"),
    "inspect": ("cobalt.integrations.inspect", "evaluated rows as a log that inspect_ai's viewer opens"),
    "push": ("cobalt.integrations.push", "a folder for the Hugging Face hub, with its card"),
    "bench": ("cobalt.bench.cli", "methods compared at equal samples and at equal seconds"),
    "report": ("cobalt.report.build", "one static folder with charts, tables and every trajectory"),
}
# words that people try -> where the thing is
ELSEWHERE = {
    "study": "cobalt bench methods",
    "picture": "python scripts/picture.py",
    "judge": "python run_llm_judge.py",
}


def usage() -> str:
    """The list of commands."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {word:<{width}}  {what}" for word, (_, what) in COMMANDS.items())
    return (
        f"cobalt {__version__}: contextual bandit learning for multi-turn code generation\n\n"
        f"usage: cobalt COMMAND [--help] ...\n\n{rows}"
    )


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns its exit code. Raises InputError for an unknown one."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if given[0] == "--version":
        print(__version__)
        return 0
    word, *arguments = given
    if word in COMMANDS:
        sys.argv[0] = f"cobalt {word}"  # what `--help` and errors call the program
        code: int | None = importlib.import_module(COMMANDS[word][0]).main(arguments)
        return code or 0
    if word in ELSEWHERE:
        raise InputError(f"there is no command 'cobalt {word}'; use {ELSEWHERE[word]}")
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.4)
    advice = f"; did you mean 'cobalt {near[0]}'?" if near else ""
    raise InputError(f"there is no command 'cobalt {word}'{advice} (cobalt --help lists all)")


def entry() -> NoReturn:
    """The installed script `cobalt`."""
    run_main(main)


if __name__ == "__main__":
    entry()
