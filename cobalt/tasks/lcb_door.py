"""The door from LiveCodeBench to tasks (``preproc/preproc_lcb_test6.py``)."""

from __future__ import annotations

import argparse
import datetime
import os
from dataclasses import dataclass
from typing import Any

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.files import StrPath
from cobalt.prompts import load
from cobalt.rows import INPUT_HELP, Row, Rows, UniqueIds, open_rows
from cobalt.tasks.doors import Converted, bad_row_flag, convert_rows
from cobalt.tasks.livecodebench import FUNCTIONAL, LcbSettings, convert
from cobalt.tasks.pickled import MAX_BYTES

DEFAULT_INPUT = "test6.jsonl"
DEFAULT_OUTPUT = "data/lcb_v6.jsonl"
HUB_NAME = "livecodebench/code_generation_lite"


@dataclass
class LcbSummary(Converted):
    """Problems read, bad, written; outside the window of dates, and how many written are functional."""

    outside: int = 0
    functional: int = 0

    def take(self, made: Row | None) -> Row | None:
        if made is None:
            self.outside += 1
        else:
            self.functional += made["is_functional"]
        return made

    def shown(self) -> dict[str, int]:
        return {"outside": self.outside}


def build_lcb(
    source: Rows | StrPath,
    output: StrPath,
    settings: LcbSettings | None = None,
    *,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> LcbSummary:
    """Replace ``output`` by the tasks of a release file, atomically. One problem is in memory at a time.

    Raises InputError for an input that cannot be used (``file:line``, field); nothing has been changed then.
    """
    source = source if isinstance(source, Rows) else open_rows(source)
    settings = settings or LcbSettings()
    summary, ids = LcbSummary(), UniqueIds("question_id")

    def made(row: Row, where: str) -> Row | None:
        task = convert(row, where, settings)
        ids(row, where)
        return task

    facts = {
        "stage": "tasks from LiveCodeBench",
        "start": None if settings.start is None else settings.start.isoformat(),
        "end": None if settings.end is None else settings.end.isoformat(),
        "functional": settings.functional,
        "prompts": settings.prompts.sha256,
    }
    convert_rows(
        source, output, made, summary, facts, unit="problems", on_bad_row=on_bad_row, progress=progress
    )
    return summary


def locate(spec: str) -> str:
    """The file that a name means: for the data set itself, its newest release file."""
    return f"{HUB_NAME}:{DEFAULT_INPUT}" if spec == HUB_NAME and not os.path.exists(spec) else spec


def main(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/preproc_lcb_test6.py``; returns the exit code."""
    flags = parser("Turn a LiveCodeBench release file into tasks.")
    flags.add_argument(
        "-i", "--input_file", default=DEFAULT_INPUT,
        help=f"release file, or {HUB_NAME}[:FILE]; any {INPUT_HELP}",
    )  # fmt: skip
    flags.add_argument("-o", "--output_file", default=DEFAULT_OUTPUT, help="JSONL of tasks to write")
    flags.add_argument("--start", type=_day, metavar="YYYY-MM-DD", help="first day of the contest")
    flags.add_argument("--end", type=_day, metavar="YYYY-MM-DD", help="last day of the contest")
    flags.add_argument(
        "--functional", choices=FUNCTIONAL, default="stdin",
        help="problems that ask for a function: as programs that read JSON arguments (published), or called",
    )  # fmt: skip
    flags.add_argument(
        "--max_tests_mib", type=positive_int, default=MAX_BYTES >> 20, help="largest unpacked test list"
    )
    flags.add_argument("--prompts", default="default", metavar="default|tiny|FILE", help="whose wrapper")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    settings = LcbSettings(
        args.start, args.end, args.functional, args.max_tests_mib << 20, prompts=load(args.prompts)
    )
    with make_progress() as progress:
        summary = build_lcb(
            open_rows(locate(args.input_file)), args.output_file, settings,
            on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    tell(_report(summary, args))
    return 0


def _report(summary: LcbSummary, args: argparse.Namespace) -> list[str]:
    lines = [f"{args.output_file}: {summary.written} problems, {summary.functional} of them functional"]
    if summary.outside:
        lines.append(f"{summary.outside} problems outside the dates left out")
    if summary.bad_rows:
        lines.append(f"{summary.bad_rows} bad rows left out, see {args.output_file}.rejects.jsonl")
    return lines


def _day(text: str) -> Any:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day like 2025-01-31") from None
