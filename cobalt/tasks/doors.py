"""What the data doors share: flags, and how a run is shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cobalt.cli import Parser, Progress
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.manifest import write_manifest
from cobalt.output import write_jsonl
from cobalt.rejects import ON_BAD_ROW, Rejects, checked
from cobalt.rows import Row, Rows


@dataclass
class Converted:
    """Rows read, bad, written. A door's own counts and reasons stand in a subclass."""

    read: int = 0
    bad_rows: int = 0
    written: int = 0

    def take(self, made: Any) -> Row | None:
        """The row to write, or None, after counting what was made of a row."""
        raise NotImplementedError

    def shown(self) -> dict[str, Any]:
        """What the progress display says beside the number of rows."""
        raise NotImplementedError


def convert_rows(
    source: Rows,
    output: StrPath,
    make: Callable[[Row, str], Any],
    summary: Converted,
    settings: Mapping[str, Any],
    *,
    unit: str,
    on_bad_row: str,
    progress: Progress | None,
) -> None:
    """Replace ``output``, atomically, by what ``summary`` takes of ``make(row, where)``; one row in memory.

    Rejects and the manifest (``settings``) are written beside it. Raises InputError for an input that is the
    output, or cannot be used; nothing has been changed then.
    """
    target = Path(output)
    if any(target.exists() and target.samefile(path) for path in source.paths):
        raise InputError(f"{target} is the input file; give another --output_file")
    rejects = Rejects(output, on_bad_row)

    def rows() -> Iterator[Row]:
        for _, made in checked(source, rejects, make):
            summary.read += 1
            row = summary.take(made)
            if progress is not None:
                progress.advance(unit, summary.read, None, **summary.shown())
            if row is not None:
                summary.written += 1
                yield row
        summary.bad_rows = len(rejects)
        if not summary.read:
            raise InputError(f"{source.name} holds no rows that can be used")

    write_jsonl(output, rows())
    rejects.close()
    write_manifest(
        output,
        settings={**settings, "input_sha256": source.sha256, "on_bad_row": on_bad_row},
        inputs={"input_file": source.path} if source.path is not None else {},
        counts=asdict(summary),
        extra={"input": source.facts()},
    )


def bad_row_flag(flags: Parser) -> None:
    flags.add_argument(
        "--on_bad_row", choices=ON_BAD_ROW, default="fail",
        help="what a row that cannot be used does: end the run, or be listed in OUTPUT.rejects.jsonl",
    )  # fmt: skip


def cores() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))
