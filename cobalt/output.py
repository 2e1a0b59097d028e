"""Outputs: JSON lines that survive a kill, and what stands beside them.

An output is only ever appended to by whole lines (`JsonlWriter`) or replaced as a whole (`write_jsonl`). A
process that is killed can leave one torn line at the end; it is cut off when the file is opened again. Rows
given up after retries stand in `OUTPUT.failures.jsonl`; how an output was made says `cobalt.manifest`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import time
import traceback
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.files import StrPath, replacing, writing
from cobalt.rows import Row, encode_row, parsed, read_rows, row_id

Id = str | int


class JsonlWriter:
    """Appends rows to one file; a row is on disk (fsync) when `append` or `await write` returns.

    Concurrent `write` calls are committed together: one flush and fsync, in a thread of the writer's own,
    covers all rows that arrived during the previous one. The file is created, its torn tail repaired and
    an advisory lock taken at construction. If a commit fails (disk full), the file is cut back to the
    last good row and every waiting `write` raises InfraError.

    Raises InputError if the file cannot be opened or another process is writing it.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._pending: list[tuple[bytes, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jsonl")
        with writing(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
            try:
                _lock(self._file, path)
                _repair(self._file)
            except BaseException:
                self._file.close()
                raise
        _writers.add(self)

    def append(self, row: Row) -> None:
        """Write one row and wait until it is on disk."""
        self._commit(encode_row(row))

    async def write(self, row: Row) -> None:
        """Write one row; returns when it is on disk. The event loop is never blocked."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._pending.append((encode_row(row), future))
        if self._flusher is None or self._flusher.done():
            self._flusher = loop.create_task(self._flush())
        await future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            batch, self._pending = self._pending, []
            error: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self._commit, b"".join(data for data, _ in batch))
            except Exception as failure:  # whatever it is, those who wait must hear of it
                error = InfraError(str(failure)) if isinstance(failure, CobaltError) else failure
            for _, future in batch:
                if future.done():  # the writer was cancelled; its row is on disk all the same
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    def _commit(self, data: bytes) -> None:
        descriptor = self._file.fileno()
        before = os.fstat(descriptor).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
            os.fsync(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise InfraError(f"cannot write {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. Rows of `write` calls still waiting are lost; `aclose` waits for them."""
        self._thread.shutdown()
        if not self._file.closed:
            with contextlib.suppress(OSError):  # explicitly: a child forked just now may still hold the file
                fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)
            self._file.close()

    async def aclose(self) -> None:
        """Wait for pending rows, then close the file."""
        if self._flusher is not None:
            await self._flusher
        self.close()

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_writers: weakref.WeakSet[JsonlWriter] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_writers):
        with contextlib.suppress(OSError):
            writer._file.close()


# Forked children must not hold the lock: one that outlives a killed parent would block the resume.
os.register_at_fork(after_in_child=_close_all)


def write_jsonl(path: StrPath, rows: Iterable[Row]) -> int:
    """Replace a file by these rows, atomically; the number of rows written."""
    count = 0
    with replacing(path) as handle:
        for row in rows:
            handle.write(encode_row(row))
            count += 1
    return count


def refuse_overwriting(inputs: Sequence[Path], *outputs: StrPath) -> None:
    """Raise InputError if one of the outputs is one of the files that are read."""
    for target in map(Path, outputs):
        if target.exists() and any(map(target.samefile, inputs)):
            raise InputError(f"{target} is the input file; give another --output_file")


def repair_tail(path: StrPath) -> bool:
    """Cut off an incomplete last line, or end a complete one with its newline. True if the file changed.

    Raises InputError if another process is writing the file.
    """
    with writing(path), open(path, "r+b", buffering=0) as handle:
        _lock(handle, path)
        return _repair(handle)


def _lock(handle: FileIO, path: StrPath) -> None:
    """An advisory lock that goes when the process dies, however it dies."""
    try:
        fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{os.fspath(path)} is being written by another run; wait for it or stop it"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise  # some network file systems have no locks: go on without


def _repair(handle: FileIO) -> bool:
    position, start = handle.seek(0, os.SEEK_END), 0
    while position > 0:  # the offset after the last newline, found from the end
        begin = max(0, position - 65536)
        handle.seek(begin)
        found = handle.read(position - begin).rfind(b"\n")
        if found >= 0:
            start = begin + found + 1
            break
        position = begin
    handle.seek(start)
    tail = handle.readall()
    if not tail:
        return False
    try:
        complete = isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        complete = False
    if complete:
        handle.write(b"\n")
    else:
        handle.truncate(start)
    os.fsync(handle.fileno())
    return True


def row_ids(path: StrPath, key: str = "id") -> dict[Id, tuple[int, int]]:
    """Ids of the rows of an output, each with the offset and length of its line.

    Raises InputError, with file:line, for a line that is no row.
    """
    spans: dict[Id, tuple[int, int]] = {}
    offset = 0
    with open(path, "rb") as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip():
                where = f"{os.fspath(path)}:{number}"
                spans[row_id(parsed(line, where), where, key)] = offset, len(line)
            offset += len(line)
    return spans


def put_in_order(path: Path, order: list[Id], key: str) -> None:
    """Rewrite a file, atomically, with its lines in this order of ids (others after them)."""
    spans = row_ids(path, key)
    known = set(order)
    wanted = [each for each in order if each in spans] + [each for each in spans if each not in known]
    if wanted == list(spans):
        return
    with open(path, "rb") as handle, replacing(path) as target:
        for each in wanted:
            offset, length = spans[each]
            handle.seek(offset)
            target.write(handle.read(length))


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
        row: Row = {
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
