"""Rows of a source to rows of tasks, one at a time: what the command lines of sources share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobalt.cli import Progress
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.manifest import write_manifest
from cobalt.output import refuse_overwriting, write_jsonl
from cobalt.rejects import Rejects, checked
from cobalt.rows import Row, Rows


@dataclass
class Converted:
    """Rows read, bad, written, and dropped by reason."""

    read: int = 0
    bad_rows: int = 0
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


def convert_rows(
    source: Rows,
    output: StrPath,
    make: Callable[[Row, str], Row | str],
    *,
    unit: str,
    on_bad_row: str,
    progress: Progress | None,
) -> Converted:
    """Replace `output`, atomically, by what `make(row, where)` gives: a row, or why there is none.

    Rejects are written beside it. Raises InputError for an input that is the output, or cannot be used;
    nothing has been changed then.
    """
    refuse_overwriting(source.paths, output)
    rejects, counts = Rejects(output, on_bad_row), Converted()

    def rows() -> Iterator[Row]:
        for _, made in checked(source, rejects, make):
            counts.read += 1
            if isinstance(made, str):
                counts.dropped[made] = counts.dropped.get(made, 0) + 1
            if progress is not None:
                progress.advance(unit, counts.read, None, dropped=sum(counts.dropped.values()))
            if not isinstance(made, str):
                counts.written += 1
                yield made
        counts.bad_rows = len(rejects)
        if not counts.read:
            raise InputError(f"{source.name} holds no rows that can be used")

    write_jsonl(output, rows())
    rejects.close()
    return counts


def record(
    output: StrPath,
    source: Rows,
    settings: Mapping[str, Any],
    counts: Mapping[str, Any],
    **more: Any,
) -> None:
    """Write the manifest of an output that was made from one source."""
    write_manifest(
        output,
        settings={**settings, "input_sha256": source.sha256},
        inputs={"input_file": source} if source.path is not None else {},
        counts=counts,
        extra={"input": source.facts(), **more},
    )
