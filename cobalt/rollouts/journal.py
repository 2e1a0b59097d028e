"""Finished work of rows that are not complete yet: `OUT.journal`. A kill costs nothing that was paid for.

One JSON line for every completion when it arrives (`raw`, `finish_reason`, `usage`) and one for its verdict
when the tests are done (`result`, `feedback`), each with `id`, `sample` and `turn`. Lines are committed in
groups by a thread: one write and fsync for all that came during the one before. What belongs to rows that
are in the output is dropped from time to time; the file is deleted when nothing is left to continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath, replacing
from cobalt.output import repair_tail, write_jsonl
from cobalt.rows import Row, encode_row, read_rows, row_id

COMPACT_BYTES = 128 << 20
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_SPENT = ("programs", "prompt_tokens", "completion_tokens", "cost")

Id = str | int
Span = tuple[int, int]


def journal_path(output: StrPath) -> Path:
    """Where the unfinished trajectories of `output` are."""
    return Path(os.fspath(output) + ".journal")


@dataclass
class Journal:
    """The journal of one run; the run holds the lock of the output, so nobody else writes here.

    `open` first, `close` last; all calls from one event loop. `add` never waits: a thread commits what has
    gathered, and `failed` is called if it cannot. `spent` counts every completion ever journalled for this
    output: programs, tokens, cost.
    """

    path: Path
    failed: Callable[[Exception], None]
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0.0))
    _spans: dict[Id, list[Span]] = field(default_factory=dict)
    _buffer: list[tuple[Id, bytes]] = field(default_factory=list)
    _size: int = 0
    _live: int = 0
    _descriptor: int = -1
    _task: asyncio.Task[None] | None = None
    _broken: bool = False
    _done: set[Id] = field(default_factory=set)

    def open(self, done: Iterable[Id], before: Mapping[str, float] | None = None) -> None:
        """Read what an earlier run left, without the rows in `done`.

        `before`: what rows of finished runs have cost, counted if there is no journal that knows.
        Raises InputError for a damaged file.
        """
        self._done.update(done)
        if self.path.exists():
            repair_tail(self.path)
            self._scan(self._done)
        elif before:
            _add(self.spent, {"spent": {name: before.get(name) or 0 for name in _SPENT}})
            write_jsonl(self.path, [{"spent": self.spent}])
            self._size = self.path.stat().st_size
        if self._size > self._live:
            self._spans, self._size, self._live = _compacted(self.path, self._spans, self.spent)
        self._descriptor = os.open(self.path, _FLAGS | os.O_CREAT, 0o644)

    def _scan(self, finished: set[Id]) -> None:
        with open(self.path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                where = f"{self.path}:{number}"
                start, self._size = self._size, self._size + len(line)
                try:
                    entry = json.loads(line)
                    _add(self.spent, entry)
                    key = None if "spent" in entry else row_id(entry, where)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InputError(
                        f"{where}: no entry of a journal ({error}); delete the file to sample its turns anew"
                    ) from None
                if key is not None and key not in finished:
                    self._spans.setdefault(key, []).append((start, len(line)))
                    self._live += len(line)

    def entries(self, key: Id) -> list[Row]:
        """What an earlier run left of a row, in the order in which it was added."""
        return [
            json.loads(os.pread(self._descriptor, length, start))
            for start, length in self._spans.get(key, ())
        ]

    def add(self, key: Id, sample: int, turn: int, **what: Any) -> None:
        """Note a completion or a verdict; it is on disk after one or two commits, some milliseconds."""
        entry = {"id": key, "sample": sample, "turn": turn, **what}
        _add(self.spent, entry)
        self._buffer.append((key, encode_row(entry)))
        if (self._task is None or self._task.done()) and not self._broken:
            self._task = asyncio.get_running_loop().create_task(self._commit_soon())

    def forget(self, key: Id) -> None:
        """The row is in the output: its entries are no longer needed."""
        self._done.add(key)
        self._live -= sum(length for _, length in self._spans.pop(key, ()))

    async def _commit_soon(self) -> None:
        while self._buffer and not self._broken:
            try:
                await self._commit()
            except Exception as error:
                self._broken = True
                self.failed(InfraError(f"cannot write {self.path}: {error}"))

    async def _commit(self) -> None:
        """Write what has gathered; drop dead entries when there are many."""
        batch, self._buffer = self._buffer, []
        await asyncio.to_thread(_append, self._descriptor, b"".join(line for _, line in batch))
        for key, line in batch:
            if key not in self._done:
                self._spans.setdefault(key, []).append((self._size, len(line)))
                self._live += len(line)
            self._size += len(line)
        if self._size - self._live > COMPACT_BYTES and self._size > 2 * self._live:
            await self._compact()

    async def _compact(self) -> None:
        later = [json.loads(line) for _, line in self._buffer]
        spent = dict(self.spent)
        for entry in later:
            _add(spent, entry, -1)
        snapshot = {key: list(spans) for key, spans in self._spans.items()}
        spans, self._size, _ = await asyncio.to_thread(_compacted, self.path, snapshot, spent)
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, _FLAGS)
        self._spans = {key: spans[key] for key in self._spans if key in spans}  # some are done by now
        self._live = sum(length for each in self._spans.values() for _, length in each)

    async def close(self, *, complete: bool) -> None:
        """Commit what is left. `complete`: every row is in the output, so the file is deleted."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            if self._buffer and not self._broken:
                await self._commit()
        finally:
            os.close(self._descriptor)
        if complete or not self._size:
            self.path.unlink(missing_ok=True)


def _append(descriptor: int, data: bytes) -> None:
    before = os.fstat(descriptor).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def _compacted(
    path: Path, spans: dict[Id, list[Span]], spent: dict[str, float]
) -> tuple[dict[Id, list[Span]], int, int]:
    """Replace the file by these entries, behind a line with what all the others have cost."""
    rest = dict(spent)
    kept = [(start, length, key) for key, each in spans.items() for start, length in each]
    kept.sort(key=lambda each: each[0])
    with open(path, "rb") as source, replacing(path) as target:
        for start, length, _ in kept:
            source.seek(start)
            _add(rest, json.loads(source.read(length)), -1)
        head = encode_row({"spent": rest})
        target.write(head)
        size, moved = len(head), dict[Id, list[Span]]()
        for start, length, key in kept:
            source.seek(start)
            target.write(source.read(length))
            moved.setdefault(key, []).append((size, length))
            size += length
    return moved, size, size - len(head)


def _add(spent: dict[str, float], entry: Row, sign: int = 1) -> None:
    """Count what an entry has cost."""
    if "spent" in entry:
        more = entry["spent"]
    elif "raw" in entry:
        used = entry.get("usage") or {}
        more = {"programs": 1, "cost": entry.get("cost") or 0.0}
        more |= {name: used.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
    else:
        return
    for name in _SPENT:
        spent[name] += sign * more[name]


def read_journal(path: StrPath) -> list[Row]:
    """All entries of a journal, for people and tests."""
    return [row for _, row in read_rows(path, repair=True)]
