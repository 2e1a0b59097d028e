"""Files: JSON lines that survive a kill, atomic writes, and the manifest beside every output.

Atomic writes and hashes live in `cobalt.files`, manifests in `cobalt.manifest`; both are importable from
here. An output file is only ever appended to by whole lines or replaced as a whole. A process that is killed
can leave one torn line at the end; it is cut off when the file is opened again.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType

from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.files import StrPath, atomic_write, file_sha256, replacing, settings_hash, writing
from cobalt.manifest import check_resume, manifest_path, read_manifest, write_manifest
from cobalt.records import Row, row_id

__all__ = [
    "JsonlWriter",
    "atomic_write",
    "check_resume",
    "done_ids",
    "encode_row",
    "file_sha256",
    "manifest_path",
    "parse_line",
    "read_jsonl",
    "read_manifest",
    "repair_tail",
    "row_ids",
    "settings_hash",
    "write_jsonl",
    "write_manifest",
]

_BOM = b"\xef\xbb\xbf"


def read_jsonl(path: StrPath, *, repair: bool = False) -> Iterator[tuple[int, Row]]:
    """Yield (line number from 1, row) for every line that is not blank.

    With `repair`, a last line that a killed writer left incomplete is left out (the file is not changed).
    Raises InputError: at the call if the file cannot be read, while iterating at a line (`file:line`) that
    is not UTF-8 or not a JSON object.
    """
    try:
        handle = open(path, "rb")  # noqa: SIM115 - opened here to fail early, closed by the generator
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    return _rows(handle, os.fspath(path), repair)


def _rows(handle: BufferedReader, name: str, repair: bool) -> Iterator[tuple[int, Row]]:
    with handle:
        for number, line in enumerate(handle, start=1):
            if number == 1:
                line = line.removeprefix(_BOM)
            if not line.strip():
                continue
            try:
                row = parse_line(line, f"{name}:{number}")
            except InputError:
                if repair and not line.endswith(b"\n"):
                    return
                raise
            yield number, row


def parse_line(line: bytes, where: str) -> Row:
    """One line of a JSONL file. Raises InputError, beginning with `where`, unless it is a JSON object."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, got {type(row).__name__}")
    except (ValueError, RecursionError) as error:
        torn = "" if line.endswith(b"\n") else " (the line looks cut off)"
        raise InputError(f"{where}: not a JSON object: {error}{torn}") from None
    return row


def encode_row(row: Row) -> bytes:
    """A row as one UTF-8 line. Lone surrogates, which UTF-8 cannot hold, are written as escapes."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


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
    start = _last_line_start(handle, handle.seek(0, os.SEEK_END))
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


def _last_line_start(handle: FileIO, size: int) -> int:
    """Offset after the last newline, found from the end."""
    position = size
    while position > 0:
        begin = max(0, position - 65536)
        handle.seek(begin)
        found = handle.read(position - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        position = begin
    return 0


def row_ids(path: StrPath, field: str = "id") -> set[str | int]:
    """Ids of the rows in a file; 0 and "0" are different ids. Raises InputError as `read_jsonl` does."""
    return {row_id(row, f"{os.fspath(path)}:{number}", field) for number, row in read_jsonl(path)}


def done_ids(path: StrPath, field: str = "id") -> set[str | int]:
    """Ids of the rows already in an output, after repair of its tail; empty if there is no such file.

    Raises InputError for a broken line other than a torn last one, or if another process is writing.
    """
    if not os.path.exists(path):
        return set()
    repair_tail(path)
    return row_ids(path, field)


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
        _release_in_children(self)

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

    def __enter__(self) -> "JsonlWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_jsonl(path: StrPath, rows: Iterable[Row]) -> int:
    """Replace a file by these rows, atomically; the number of rows written."""
    count = 0
    with replacing(path) as handle:
        for row in rows:
            handle.write(encode_row(row))
            count += 1
    return count


_writers: "weakref.WeakSet[JsonlWriter]" = weakref.WeakSet()
_hooked = False


def _release_in_children(writer: JsonlWriter) -> None:
    """Forked children must not hold the lock: one that outlives a killed parent would block the resume."""
    global _hooked
    _writers.add(writer)
    if not _hooked:
        _hooked = True
        os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for writer in list(_writers):
        with contextlib.suppress(OSError):
            writer._file.close()
