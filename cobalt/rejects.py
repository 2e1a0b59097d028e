"""Rows that cannot be used: end the run at the first, or leave them out and list them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.inputs import Input, Raw, parsed
from cobalt.records import Row, row_id
from cobalt.store import write_jsonl

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

    def line(self) -> list[str]:
        """What to tell, if anything."""
        return [f"{len(self.rows)} bad rows left out, see {self.path}"] if self.rows else []


def rejects_path(output: StrPath) -> Path:
    """Where the rows left out are listed: `<output>.rejects.jsonl`."""
    return Path(os.fspath(output) + ".rejects.jsonl")


def checked(source: Input, rejects: Rejects, convert: Callable[[Row, str], T]) -> Iterator[tuple[str, T]]:
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


class UniqueIds:
    """Refuses an id that was used before; 1 and "1" count as the same. Keeps 8 bytes of a hash of each."""

    def __init__(self, field: str = "id") -> None:
        self._field = field
        self._seen: set[int] = set()

    def __call__(self, row: Row, where: str) -> str | int:
        """The id of a row. Raises InputError if it is missing, of a wrong type or used before."""
        key = row_id(row, where, self._field)
        digest = blake2b(str(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number in self._seen:
            raise InputError(f"{where}: '{self._field}' {key!r} occurs twice; ids must be unique")
        self._seen.add(number)
        return key
