"""Rows that fall out: those that cannot be used (`OUTPUT.rejects.jsonl`), and those that were given up after
retries (`OUTPUT.failures.jsonl`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from cobalt.cli import Parser
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.output import Id, JsonlWriter, write_jsonl
from cobalt.rows import Raw, Row, Rows, parsed, read_rows, row_id

T = TypeVar("T")

ON_BAD_ROW = ("fail", "skip")
_TEXT_OF_REJECT = 2000


class Rejects:
    """What to do with rows that cannot be used: stop at the first (`fail`) or leave them out (`skip`).

    Those left out are listed in `OUTPUT.rejects.jsonl` by `close`: `where`, `id` if there is one, `error`,
    and the beginning of the `text`.
    """

    def __init__(self, output: StrPath, policy: str = "fail") -> None:
        if policy not in ON_BAD_ROW:
            raise InputError(f"--on_bad_row must be one of {', '.join(ON_BAD_ROW)}, got {policy!r}")
        self.path = rejects_path(output)
        self.policy = policy
        self.rows: dict[str, Row] = {}

    def add(self, where: str, error: InputError, raw: Raw) -> None:
        """Take note of a bad row, or raise `error` with advice."""
        if self.policy == "fail":
            raise type(error)(f"{error}; correct it, or leave such rows out: --on_bad_row skip") from None
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else json.dumps(raw)
        noted: Row = {"where": where, "error": str(error), "text": text[:_TEXT_OF_REJECT].rstrip("\n")}
        with contextlib.suppress(InputError):
            noted["id"] = row_id(parsed(raw, where), where)
        self.rows[where] = noted

    def __len__(self) -> int:
        return len(self.rows)

    def close(self) -> None:
        """Replace the list beside the output, or delete it if every row was good."""
        if self.rows:
            write_jsonl(self.path, self.rows.values())
        else:
            self.path.unlink(missing_ok=True)


def rejects_path(output: StrPath) -> Path:
    """Where the rows that were left out are listed."""
    return Path(os.fspath(output) + ".rejects.jsonl")


def rejected(count: int, output: StrPath) -> list[str]:
    """What to tell of rows left out, if there are any."""
    return [f"{count} bad rows left out, see {rejects_path(output)}"] if count else []


def bad_row_flag(flags: Parser) -> None:
    """Add `--on_bad_row`."""
    flags.add_argument(
        "--on_bad_row", choices=ON_BAD_ROW, default="fail",
        help="what a row that cannot be used does: end the run, or be listed in OUTPUT.rejects.jsonl",
    )  # fmt: skip


def checked(source: Rows, rejects: Rejects, convert: Callable[[Row, str], T]) -> Iterator[tuple[str, T]]:
    """(where, `convert(row, where)`) of every good row: one is bad if it is no JSON object or `convert`
    raises InputError. Rows rejected before are left out, so a second pass gives the same rows.
    """
    for where, raw in source.raw():
        if where in rejects.rows:
            continue
        try:
            item = convert(parsed(raw, where), where)
        except InputError as error:
            rejects.add(where, error, raw)
        else:
            yield where, item


def failures_path(output: StrPath) -> Path:
    """Where the rows that were given up are recorded: id, error, attempts, traceback."""
    return Path(os.fspath(output) + ".failures.jsonl")


class Failures:
    """The file of rows given up: opened when the first one comes, at the end only what is still missing."""

    def __init__(self, output: Path, key: str) -> None:
        self._path = failures_path(output)
        self._key = key
        self._writer: JsonlWriter | None = None

    async def write(self, key: Id, error: Exception, attempts: int) -> None:
        self._writer = self._writer or JsonlWriter(self._path)
        row: dict[str, Any] = {
            self._key: key,
            "error": f"{type(error).__name__}: {error}",
            "attempts": attempts,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "traceback": "".join(traceback.format_exception(error)),
        }
        await self._writer.write(row)

    def close(self, done: set[Id]) -> None:
        if self._writer is not None:
            self._writer.close()
        if not self._path.exists():
            return
        latest = {row[self._key]: row for _, row in read_rows(self._path, repair=True)}
        left = [row for key, row in latest.items() if key not in done]
        if left:
            write_jsonl(self._path, left)
        else:
            self._path.unlink()
