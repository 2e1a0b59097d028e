"""Rows and tests that a stage reads: checked once, in full, before anything is sampled, run or written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.output import refuse_overwriting
from cobalt.rows import Row, UniqueIds, as_rows
from cobalt.rows import Rows as OpenRows
from cobalt.testcases import FIELDS, TestCases

Rows = StrPath | Sequence[Row] | OpenRows


class Source:
    """Rows of a file, folder or data set (read on every pass, never held) or of a list; the first `limit`.

    `check(row, where)` is called for every row when the source is opened. `ids` are in order, as are
    `samples`, the numbers of stored responses; `sha256` is of the file or of the rows' JSON text. `path` is
    None unless they come from one file. Raises InputError, with file:line, for a file that cannot be read, a
    broken line, no row at all, an id that is missing or occurs twice (1 and "1" are two), or by `check`.
    """

    def __init__(self, rows: Rows, check: Callable[[Row, str], None], limit: int | None = None) -> None:
        self._rows, self._limit = as_rows(rows, "the list of rows"), limit
        self.ids: list[str | int] = []
        self.samples: list[int] = []
        unique = UniqueIds()
        for where, row in self.located():
            self.ids.append(unique(row, where))
            check(row, where)
            for name in FIELDS:  # also those of later stages, before hours are spent
                if row.get(name) is not None:
                    TestCases.parse(row[name], where=f"{where}: field '{name}'")
            self.samples.append(len(row.get("responses") or ()))
        if not self.ids:
            raise InputError(f"{self._rows.name}: there are no rows")
        self.path, self.paths, self.sha256 = self._rows.path, self._rows.paths, self._rows.sha256

    def located(self) -> Iterator[tuple[str, Row]]:
        """(file:line, row) for every row up to the limit."""
        return islice(self._rows, self._limit)

    def __iter__(self) -> Iterator[Row]:
        return (row for _, row in self.located())

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self) -> dict[str, Path]:
        """For a manifest: the file, if there is one."""
        return {} if self.path is None else {"input_file": self.path}


def check_output(inputs: Sequence[Path], output: StrPath) -> None:
    """Raise InputError if the output is an input, or lies in a folder that cannot be written or is none."""
    target = Path(output)
    refuse_overwriting(inputs, target)
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file")
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {target}: {folder} is not a folder that can be written")


def tests_of(row: Row, field: str, where: str) -> TestCases:
    """The tests in `row[field]`. Raises InputError if they are missing, malformed or none at all."""
    if row.get(field) is None:
        raise InputError(f"{where}: field '{field}' is missing")
    tests = TestCases.parse(row[field], where=f"{where}: field '{field}'")
    if not len(tests):
        raise InputError(f"{where}: field '{field}' holds no tests")
    return tests


def shown_tests(row: Row, which: str, where: str) -> TestCases:
    """The tests whose outcome the model is shown: `public_test_cases` or `perturbed_public_test_cases`.

    `which` is `public`, `perturbed` or `auto`, which takes the one set there is; if a row carries both and
    they differ, it is refused, since either choice would be a silent guess.
    """
    if which == "perturbed":
        return tests_of(row, "perturbed_public_test_cases", where)
    public = tests_of(row, "public_test_cases", where)
    undecided = which == "auto" and row.get("perturbed_public_test_cases") is not None
    if undecided and tests_of(row, "perturbed_public_test_cases", where) != public:
        raise InputError(
            f"{where}: 'public_test_cases' and 'perturbed_public_test_cases' differ; "
            "say which to run: --tests public or --tests perturbed"
        )
    return public
