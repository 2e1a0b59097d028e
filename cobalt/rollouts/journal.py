"""Finished turns of rows that are not complete yet: `OUT.journal`. A kill costs nothing that was paid for.

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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath, replacing
from cobalt.output import repair_tail
from cobalt.rows import Row, encode_row, row_id

COMPACT_BYTES = 128 << 20
SPENT = ("programs", "prompt_tokens", "completion_tokens", "cost")
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

Id = str | int
Line = tuple[int, int, Counter[str]]  # offset, length, what the completion has cost


def journal_path(output: StrPath) -> Path:
    """Where the unfinished trajectories of `output` are."""
    return Path(os.fspath(output) + ".journal")


@dataclass
class Journal:
    """The journal of one run; the run holds the lock of the output, so nobody else writes here.

    `open` first, `close` last; all calls from one event loop. `add` never waits: a thread commits what has
    gathered, and `failed` is called if it cannot. `spent` counts every completion ever journalled for this
    output (SPENT: programs, tokens, cost in US dollars).
    """

    path: Path
    failed: Callable[[Exception], None]
    spent: Counter[str] = field(default_factory=Counter)
    _live: dict[Id, list[Line]] = field(default_factory=dict)
    _gone: Counter[str] = field(default_factory=Counter)  # what the lines of finished rows have cost
    _done: set[Id] = field(default_factory=set)
    _buffer: list[tuple[Id, Counter[str], bytes]] = field(default_factory=list)
    _size: int = 0
    _needed: int = 0  # bytes of the lines in _live
    _descriptor: int = -1
    _task: asyncio.Task[None] | None = None
    _broken: bool = False

    def open(self, done: Iterable[Id], before: Mapping[str, float] | None = None) -> None:
        """Read what an earlier run left, without the rows in `done`.

        `before`: what rows of finished runs have cost, counted if there is no journal that knows.
        Raises InputError for a damaged file.
        """
        self._done.update(done)
        if self.path.exists():
            repair_tail(self.path)
            self._scan()
        else:
            self._gone = Counter(before or {})
        self.spent.update(self._gone)
        for lines in self._live.values():
            for *_, cost in lines:
                self.spent.update(cost)
        if self._gone:
            self._live, self._size = _rewritten(self.path, self._live, self._gone)
        self._descriptor = os.open(self.path, _FLAGS, 0o644)

    def _scan(self) -> None:
        with open(self.path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                where = f"{self.path}:{number}"
                try:
                    entry = json.loads(line)
                    key = None if "spent" in entry else row_id(entry, where)
                    self._note(key, _cost(entry), len(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InputError(
                        f"{where}: no entry of a journal ({error}); delete the file to sample its turns anew"
                    ) from None

    def _note(self, key: Id | None, cost: Counter[str], length: int) -> None:
        """A line is in the file."""
        if key is None or key in self._done:
            self._gone.update(cost)
        else:
            self._live.setdefault(key, []).append((self._size, length, cost))
            self._needed += length
        self._size += length

    def turns(self, key: Id) -> dict[tuple[int, int], Row]:
        """What an earlier run left of a row, by (sample, turn): a completion, with or without its verdict."""
        found: dict[tuple[int, int], Row] = {}
        for start, length, _ in self._live.get(key, ()):
            entry = json.loads(os.pread(self._descriptor, length, start))
            place = entry["sample"], entry["turn"]
            if "dropped" in entry:
                found.pop(place, None)
            else:
                found[place] = entry | found.get(place, {})
        return found

    def add(self, key: Id, sample: int, turn: int, **what: Any) -> None:
        """Note a completion or a verdict; it is on disk after one or two commits, some milliseconds."""
        entry = {"id": key, "sample": sample, "turn": turn, **what}
        cost = _cost(entry)
        self.spent.update(cost)
        self._buffer.append((key, cost, encode_row(entry)))
        if (self._task is None or self._task.done()) and not self._broken:
            self._task = asyncio.get_running_loop().create_task(self._commit())

    def forget(self, key: Id) -> None:
        """The row is in the output: its entries are no longer needed."""
        self._done.add(key)
        for _, length, cost in self._live.pop(key, ()):
            self._gone.update(cost)
            self._needed -= length

    async def _commit(self) -> None:
        """Write what has gathered, again until nothing has; drop dead lines when they are many."""
        try:
            while self._buffer:
                batch, self._buffer = self._buffer, []
                await asyncio.to_thread(_append, self._descriptor, b"".join(line for _, _, line in batch))
                for key, cost, line in batch:
                    self._note(key, cost, len(line))
                if self._size - self._needed > COMPACT_BYTES and self._size > 2 * self._needed:
                    await self._compact()
        except Exception as error:
            self._broken = True
            self.failed(InfraError(f"cannot write {self.path}: {error}"))

    async def _compact(self) -> None:
        live, gone = dict(self._live), Counter(self._gone)
        live, self._size = await asyncio.to_thread(_rewritten, self.path, live, gone)
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, _FLAGS, 0o644)
        self._live = {key: live[key] for key in self._live}  # without what is done by now

    async def close(self, *, complete: bool) -> None:
        """Commit what is left. `complete`: every row is in the output, so the file is deleted."""
        if self._descriptor < 0:
            return  # the run ended before it was opened
        if self._task is not None:
            await self._task
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


def _rewritten(
    path: Path, live: dict[Id, list[Line]], gone: Counter[str]
) -> tuple[dict[Id, list[Line]], int]:
    """Replace the file by a line with what finished rows have cost, and these; returns them and its size."""
    moved: dict[Id, list[Line]] = {key: [] for key in live}
    kept = sorted((line[0], key, line) for key, lines in live.items() for line in lines)
    path.touch()
    with open(path, "rb") as source, replacing(path) as target:
        head = encode_row({"spent": {name: gone[name] for name in SPENT}})
        target.write(head)
        size = len(head)
        for start, key, (_, length, cost) in kept:
            source.seek(start)
            target.write(source.read(length))
            moved[key].append((size, length, cost))
            size += length
    return moved, size


def _cost(entry: Row) -> Counter[str]:
    """What the completions of an entry have cost, by the names in SPENT."""
    if "spent" in entry:
        return Counter({name: entry["spent"][name] for name in SPENT})
    if "raw" not in entry:
        return Counter()
    used = entry.get("usage") or {}
    tokens = {name: used.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
    return Counter({"programs": 1, "cost": entry.get("cost") or 0.0, **tokens})
