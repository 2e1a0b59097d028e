"""The door from LiveCodeBench to tasks (``preproc/preproc_lcb_test6.py``)."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.flags import parser, positive_int
from cobalt.inputs import INPUT_HELP, Input, open_input
from cobalt.progress import Progress
from cobalt.prompts import load
from cobalt.records import Row
from cobalt.rejects import Rejects, UniqueIds, checked
from cobalt.store import write_jsonl, write_manifest
from cobalt.tasks.doors import bad_row_flag, shown, tell
from cobalt.tasks.livecodebench import FUNCTIONAL, LcbSettings, convert
from cobalt.tasks.pickled import MAX_BYTES

DEFAULT_INPUT = "test6.jsonl"
DEFAULT_OUTPUT = "data/lcb_v6.jsonl"
HUB_NAME = "livecodebench/code_generation_lite"


@dataclass
class LcbSummary:
    """Problems read, outside the window of dates, bad, written, and how many of these are functional."""

    read: int = 0
    outside: int = 0
    bad_rows: int = 0
    written: int = 0
    functional: int = 0


def build_lcb(
    source: Input | StrPath,
    output: StrPath,
    settings: LcbSettings | None = None,
    *,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> LcbSummary:
    """Replace ``output`` by the tasks of a release file, atomically. One problem is in memory at a time.

    Raises InputError for an input that cannot be used (``file:line``, field); nothing has been changed then.
    """
    source = source if isinstance(source, Input) else open_input(source)
    settings = settings or LcbSettings()
    target = Path(output)
    if any(target.exists() and target.samefile(path) for path in source.paths):
        raise InputError(f"{target} is the input file; give another --output_file")
    rejects, summary, ids = Rejects(output, on_bad_row), LcbSummary(), UniqueIds("question_id")

    def made(row: Row, where: str) -> Row | None:
        task = convert(row, where, settings)
        ids(row, where)
        return task

    def tasks() -> Iterator[Row]:
        for _, task in checked(source, rejects, made):
            summary.read += 1
            if progress is not None:
                progress.advance("problems", summary.read, None, outside=summary.outside)
            if task is None:
                summary.outside += 1
                continue
            summary.written += 1
            summary.functional += task["is_functional"]
            yield task
        summary.bad_rows = len(rejects)
        if not summary.read:
            raise InputError(f"{source.name} holds no rows that can be used")

    write_jsonl(output, tasks())
    rejects.close()
    write_manifest(
        output,
        settings={
            "stage": "tasks from LiveCodeBench",
            "input_sha256": source.sha256,
            "start": None if settings.start is None else settings.start.isoformat(),
            "end": None if settings.end is None else settings.end.isoformat(),
            "functional": settings.functional,
            "prompts": settings.prompts.sha256,
            "on_bad_row": on_bad_row,
        },
        inputs={"input_file": source.path} if source.path is not None else {},
        counts=asdict(summary),
        extra={"input": source.facts()},
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
    with shown() as progress:
        summary = build_lcb(
            open_input(locate(args.input_file)), args.output_file, settings,
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
