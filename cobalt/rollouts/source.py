"""The rows a stage reads: checked once, in full, before anything is sampled, run or written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cobalt.errors import InputError
from cobalt.rows import Row, encode_row, open_rows, row_id

Rows = str | os.PathLike[str] | Sequence[Row]


class Source:
    """Rows of a file, folder or data set (`cobalt.rows`; read on every pass, never held) or of a list.

    `check(row, where)` is called for every row when the source is opened. `limit` keeps the first rows only.
    `ids` are in order, as are `sizes`, what `size` says of each row; `sha256` is of the file or of the rows'
    JSON text. `path` is None unless they come from one file. Raises InputError, with file:line, for a file
    that cannot be read, a broken line, no row at all, an id that is missing or occurs twice (1 and "1" are
    two), or by `check`.
    """

    def __init__(
        self,
        rows: Rows,
        check: Callable[[Row, str], None],
        limit: int | None = None,
        size: Callable[[Row], int] | None = None,
    ) -> None:
        self._rows = rows
        self._limit = limit
        in_memory = isinstance(rows, Sequence) and not isinstance(rows, str)
        self._input = None if in_memory else open_rows(os.fspath(rows))  # type: ignore[arg-type]
        self.path = None if self._input is None else self._input.path
        self.ids: list[str | int] = []
        self.sizes: list[int] = []
        seen: dict[str | int, str] = {}
        for where, row in self.located():
            key = row_id(row, where)
            if key in seen:
                raise InputError(f"{where}: id {key!r} was used before, in {seen[key]}; ids must be unique")
            seen[key] = where
            self.ids.append(key)
            check(row, where)
            self.sizes.append(0 if size is None else size(row))
        if not self.ids:
            name = "the list of rows" if self._input is None else self._input.name
            raise InputError(f"{name}: there are no rows")
        self.sha256 = self._sha256()

    def located(self) -> Iterator[tuple[str, Row]]:
        """(file:line, row) for every row up to the limit."""
        if self._input is not None:
            return islice(self._input, self._limit)
        return islice(((f"row {n}", row) for n, row in enumerate(self._as_list(), start=1)), self._limit)

    def __iter__(self) -> Iterator[Row]:
        return (row for _, row in self.located())

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self) -> dict[str, os.PathLike[str]]:
        """For a manifest: the file, if there is one."""
        return {} if self.path is None else {"input_file": self.path}

    def _as_list(self) -> Sequence[Row]:
        assert isinstance(self._rows, Sequence) and not isinstance(self._rows, str)
        return self._rows

    def _sha256(self) -> str:
        if self._input is not None:
            return self._input.sha256
        digest = hashlib.sha256()
        for row in self._as_list():
            digest.update(encode_row(row))
        return digest.hexdigest()


def refuse_overwriting(source: Source, output: os.PathLike[str] | str) -> None:
    """Raise InputError if the output is the input, or lies in a folder that cannot be written or is none."""
    target = Path(output)
    if source.path is not None and target.exists() and target.samefile(source.path):
        raise InputError(f"{target} is the input file; give another output file")
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file")
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {target}: {folder} is not a folder that can be written")
