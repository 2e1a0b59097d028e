"""Finished turns of rows that are not complete yet: `OUT.journal`. A kill costs nothing that was paid for.

One JSON line for every completion when it arrives (`raw`, `finish_reason`, `usage`) and one for its verdict
when the tests are done (`result`, `feedback`), each with `id`, `sample` and `turn`. Lines are committed in
groups by a thread: one write and fsync for all that came during the one before. What belongs to rows that
are in the output is dropped from time to time, but for what it cost (a line with `spent`); the file is
deleted when nothing is left to continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath, replacing
from cobalt.manifest import read_manifest
from cobalt.output import Id, repair_tail
from cobalt.rows import Row, encode_row, row_id

COMPACT_BYTES = 128 << 20
SPENT = {"programs": "programs", "prompt_tokens": "prompt", "completion_tokens": "completion",
         "cost": "cost_usd"}  # what is counted, and its name in a manifest  # fmt: skip
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

Lines = dict[Id, list[tuple[int, int]]]  # offset and length of each row's lines


def journal_path(output: StrPath) -> Path:
    """Where the unfinished trajectories of `output` are."""
    return Path(os.fspath(output) + ".journal")


@dataclass
class Journal:
    """The journal of one run on `output`, whose lock the run holds, so nobody else writes here.

    `open` first, `close` last; all calls from one event loop. `add` never waits: a thread commits what has
    gathered, and `failed` is called if it cannot. `spent` counts every completion ever journalled for this
    output (SPENT: programs, tokens, cost in US dollars).
    """

    output: Path
    failed: Callable[[Exception], None]
    spent: Counter[str] = field(default_factory=Counter)
    _written: Counter[str] = field(default_factory=Counter)  # what all lines of the file have cost
    _live: Lines = field(default_factory=dict)
    _done: set[Id] = field(default_factory=set)
    _buffer: list[tuple[Id, Row, bytes]] = field(default_factory=list)
    _size: int = 0
    _descriptor: int = -1
    _task: asyncio.Task[None] | None = None
    _broken: bool = False

    @property
    def path(self) -> Path:
        return journal_path(self.output)

    def open(self, done: Iterable[Id]) -> None:
        """Read what an earlier run left, without the rows in `done`; where there is no journal, what the rows
        of finished runs have cost is in the manifest. Raises InputError for a damaged file.
        """
        self._done.update(done)
        if self.path.exists():
            repair_tail(self.path)
            self._scan()
        elif self.output.exists() and self.output.stat().st_size:
            told = (read_manifest(self.output) or {}).get("tokens") or {}
            self._written.update({name: told.get(other, 0) for name, other in SPENT.items()})
        self.spent.update(self._written)
        if self._done and self._written:
            self._live, self._size = _rewritten(self.path, self._live, self._written)
        self._descriptor = os.open(self.path, _FLAGS, 0o644)

    def _scan(self) -> None:
        with open(self.path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                where = f"{self.path}:{number}"
                try:
                    entry = json.loads(line)
                    self._note(None if "spent" in entry else row_id(entry, where), entry, len(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InputError(
                        f"{where}: no entry of a journal ({error}); delete the file to sample its turns anew"
                    ) from None

    def _note(self, key: Id | None, entry: Row, length: int) -> None:
        """A line is in the file."""
        self._written.update(_cost(entry))
        if key is not None and key not in self._done:
            self._live.setdefault(key, []).append((self._size, length))
        self._size += length

    def turns(self, key: Id) -> dict[tuple[int, int], Row]:
        """What an earlier run left of a row, by (sample, turn): a completion, with or without its verdict."""
        found: dict[tuple[int, int], Row] = {}
        for start, length in self._live.get(key, ()):
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
        self.spent.update(_cost(entry))
        self._buffer.append((key, entry, encode_row(entry)))
        if (self._task is None or self._task.done()) and not self._broken:
            self._task = asyncio.get_running_loop().create_task(self._commit())

    def forget(self, key: Id) -> None:
        """The row is in the output: its entries are no longer needed."""
        self._done.add(key)
        self._live.pop(key, None)

    async def _commit(self) -> None:
        """Write what has gathered, again until nothing has; drop dead lines when they are many."""
        try:
            while self._buffer:
                batch, self._buffer = self._buffer, []
                await asyncio.to_thread(_append, self._descriptor, b"".join(line for _, _, line in batch))
                for key, entry, line in batch:
                    self._note(key, entry, len(line))
                needed = (length for lines in self._live.values() for _, length in lines)
                if self._size > COMPACT_BYTES and self._size > 2 * sum(needed):
                    await self._compact()
        except Exception as error:
            self._broken = True
            self.failed(InfraError(f"cannot write {self.path}: {error}"))

    async def _compact(self) -> None:
        live, self._size = await asyncio.to_thread(
            _rewritten, self.path, dict(self._live), Counter(self._written)
        )
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


def _rewritten(path: Path, live: Lines, written: Counter[str]) -> tuple[Lines, int]:
    """Replace the file by these lines and one with what all others have cost; returns them and its size."""
    moved: Lines = {key: [] for key in live}
    gone = Counter(written)
    path.touch()
    with open(path, "rb") as source, replacing(path) as target:
        kept = [(*place, key) for key, places in live.items() for place in places]
        for start, length, key in sorted(kept, key=itemgetter(0)):
            source.seek(start)
            line = source.read(length)
            gone.subtract(_cost(json.loads(line)))
            moved[key].append((target.tell(), length))
            target.write(line)
        target.write(encode_row({"spent": {name: gone[name] for name in SPENT}}))
        return moved, target.tell()


def _cost(entry: Row) -> Counter[str]:
    """What the completions of an entry have cost, by the names in SPENT."""
    if "spent" in entry:
        return Counter({name: entry["spent"][name] for name in SPENT})
    if "raw" not in entry:
        return Counter()
    used = entry.get("usage") or {}
    tokens = {name: used.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
    return Counter({"programs": 1, "cost": entry.get("cost") or 0.0, **tokens})
