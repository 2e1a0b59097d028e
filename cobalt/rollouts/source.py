"""The rows a stage reads: checked once, in full, before anything is sampled, run or written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cobalt.errors import InputError
from cobalt.output import refuse_overwriting
from cobalt.rows import Row, encode_row, open_rows, row_id

Rows = str | os.PathLike[str] | Sequence[Row]


class Source:
    """Rows of a file, folder or data set (read on every pass, never held) or of a list; the first `limit`.

    `check(row, where)` is called for every row when the source is opened. `ids` are in order, as are
    `sizes`, what `size` says of each row; `sha256` is of the file or of the rows' JSON text. `path` is None
    unless they come from one file. Raises InputError, with file:line, for a file that cannot be read, a
    broken line, no row at all, an id that is missing or occurs twice (1 and "1" are two), or by `check`.
    """

    def __init__(
        self,
        rows: Rows,
        check: Callable[[Row, str], None],
        limit: int | None = None,
        size: Callable[[Row], int] = lambda row: 0,
    ) -> None:
        self._located: Iterable[tuple[str, Row]]
        if isinstance(rows, str | os.PathLike):
            self._located = opened = open_rows(os.fspath(rows))
            name, self.path = opened.name, opened.path
        else:
            self._located = [(f"row {number}", row) for number, row in enumerate(rows, start=1)]
            name, self.path = "the list of rows", None
        self._limit = limit
        self.sizes: list[int] = []
        first: dict[str | int, str] = {}
        for where, row in islice(self._located, limit):
            key = row_id(row, where)
            if key in first:
                raise InputError(f"{where}: id {key!r} was used before, in {first[key]}; ids must be unique")
            first[key] = where
            check(row, where)
            self.sizes.append(size(row))
        if not first:
            raise InputError(f"{name}: there are no rows")
        self.ids = list(first)
        if isinstance(self._located, list):
            self.sha256 = hashlib.sha256(b"".join(encode_row(row) for _, row in self._located)).hexdigest()
        else:
            self.sha256 = opened.sha256

    def located(self) -> Iterator[tuple[str, Row]]:
        """(file:line, row) for every row up to the limit."""
        return islice(self._located, self._limit)

    def __iter__(self) -> Iterator[Row]:
        return (row for _, row in self.located())

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self) -> dict[str, Path]:
        """For a manifest: the file, if there is one."""
        return {} if self.path is None else {"input_file": self.path}


def check_output(source: Source, output: os.PathLike[str] | str) -> None:
    """Raise InputError if the output is the input, or lies in a folder that cannot be written or is none."""
    target = Path(output)
    refuse_overwriting([] if source.path is None else [source.path], target)
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file")
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {target}: {folder} is not a folder that can be written")
