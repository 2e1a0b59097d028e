"""What the data doors share: flags, and how a run is shown."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator

from cobalt.flags import Parser
from cobalt.progress import Progress, TerminalProgress, make_progress
from cobalt.rejects import ON_BAD_ROW


def bad_row_flag(flags: Parser) -> None:
    flags.add_argument(
        "--on_bad_row", choices=ON_BAD_ROW, default="fail",
        help="what a row that cannot be used does: end the run, or be listed in OUTPUT.rejects.jsonl",
    )  # fmt: skip


def cores() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def shown() -> Iterator[Progress]:
    """A progress display for the length of a block."""
    progress = make_progress()
    try:
        yield progress
    finally:
        if isinstance(progress, TerminalProgress):
            progress.close()


def tell(lines: Iterable[str], warnings: Iterable[str] = ()) -> None:
    """Warnings to stderr, the report to stdout."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for line in lines:
        print(line)
