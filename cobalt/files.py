"""Atomic writes, hashes and settings as plain JSON values."""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cobalt.errors import InfraError, InputError

StrPath = str | os.PathLike[str]

_USER_ERRNOS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
}


def atomic_write(path: StrPath, data: bytes | str) -> None:
    """Replace a file by `data`, so that a reader or a crash sees the old or the new content, never a part."""
    with replacing(path) as handle:
        handle.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: StrPath) -> Iterator[BinaryIO]:
    """A binary handle whose content replaces `path` when the block ends without an exception."""
    target = Path(path)
    mine = f".{target.name}.{os.uname().nodename}-"
    temporary = target.with_name(f"{mine}{os.getpid()}-{os.urandom(4).hex()}.tmp")
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(target.parent, mine)
        try:
            with open(temporary, "xb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
        # The rename itself is on disk only when the folder is.
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def existing_parent(path: StrPath) -> Path:
    """The nearest folder above a path that is there."""
    folder = Path(path).absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _remove_orphans(folder: Path, prefix: str) -> None:
    """Delete temporary files of this target whose process, on this machine, was killed."""
    for name in os.listdir(folder):
        if not (name.startswith(prefix) and name.endswith(".tmp")):
            continue
        pid = name[len(prefix) :].partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(FileNotFoundError):
                (folder / name).unlink()


@contextlib.contextmanager
def writing(path: StrPath) -> Iterator[None]:
    """Turn an OSError into InputError (no such folder, no permission) or InfraError (disk full, ...)."""
    try:
        yield
    except OSError as error:
        kind = InputError if error.errno in _USER_ERRNOS else InfraError
        raise kind(f"cannot write {os.fspath(path)}: {error.strerror or error}") from error


def file_sha256(path: StrPath) -> str:
    """Hex SHA-256 of a file's content. Raises InputError if it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror}") from None


def plain(value: Any) -> Any:
    """A value as JSON knows it: tuples as lists, dataclasses as objects, paths as strings, sets as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot stand in settings or manifests")


def settings_hash(obj: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON; equal for equal content, whatever the order of keys."""
    return hashlib.sha256(json.dumps(plain(obj), sort_keys=True).encode()).hexdigest()
