"""Rows from wherever they are: JSON lines, Parquet, a folder of either, or a data set of the hub.

Every command names its input as `NAME[:split]`. Rows are plain dictionaries, so that keys nobody here knows
pass through every stage unchanged. JSON lines and Parquet are streamed; in tables a missing key and a null
are the same, so nulls are left out there.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from cobalt.errors import InputError
from cobalt.files import StrPath, file_sha256
from cobalt.hub import DATA_SUFFIXES, folder_table, hub_file, hub_table, is_hub_name
from cobalt.own import absolute, rows_of

Row = dict[str, Any]
Raw = bytes | Row  # a line that is not parsed yet, or a row of a table
_T = TypeVar("_T")

INPUT_HELP = "JSONL or Parquet file, folder, data set of the hub (owner/name[:split]), or FILE.py:NAME"
_OWN_SPLITS = ("train", "dev", "heldout")
_BOM = b"\xef\xbb\xbf"
_SPLIT = re.compile(r"[\w.+/\-\[\]%]+")
_BATCH_ROWS = 64


class Rows:
    """Rows of `NAME[:split]`, in order, as often as wanted.

    `name` is as given, `path` the file if it is one plain file (else None), `paths` all local files; `table`
    holds rows that are in no file of their own: a list as they are, a `datasets.Dataset` without its nulls.
    """

    def __init__(
        self, name: str, paths: Sequence[Path] = (), table: Iterable[Row] = (), revision: str | None = None
    ) -> None:
        self.name, self.paths, self.table, self.revision = name, list(paths), table, revision
        self._sha256: str | None = None

    @property
    def path(self) -> Path | None:
        return self.paths[0] if len(self.paths) == 1 else None

    def raw(self) -> Iterator[tuple[str, Raw]]:
        """(`file:line` or `file: row n`, line or row) without parsing lines; blank lines are left out."""
        for path in self.paths:
            yield from _parquet_rows(path) if _is_parquet(path) else _lines(path)
        for number, row in enumerate(self.table, start=1):
            yield f"{self.name}: row {number}", row if isinstance(self.table, list) else _plain(row)

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        """(where, row). Raises InputError at a line that is not a JSON object."""
        return ((where, parsed(raw, where)) for where, raw in self.raw())

    @property
    def sha256(self) -> str:
        """Identity of the content: of the file's bytes, else of the rows' JSON text."""
        if self._sha256 is None:
            if self.path is not None:
                self._sha256 = file_sha256(self.path)
            else:
                digest = hashlib.sha256()
                for _, raw in self.raw():
                    digest.update(raw if isinstance(raw, bytes) else encode_row(raw))
                self._sha256 = digest.hexdigest()
        return self._sha256

    def facts(self) -> dict[str, Any]:
        """For a manifest, where the input is no plain file: name, revision of the hub, content."""
        return {"name": self.name, "revision": self.revision, "sha256": self.sha256}


def open_rows(spec: StrPath, prefer: Sequence[str] = ("train",)) -> Rows:
    """Open `NAME[:split]`: a file, a folder, or a data set of the hub (`owner/name`, `owner/name:split`,
    `owner/name:file.jsonl`), or `FILE.py:NAME`, a class of the user's own with `tasks(split)`, for split
    train, dev or heldout.

    Without a split, a set with one split gives that one, one with several the first that it has of `prefer`.
    Raises InputError for a name that is none of these, an unknown split (with the list of splits), and a hub
    that cannot be reached.
    """
    text = os.fspath(spec)
    name, split = text, None
    if not os.path.exists(text) and ":" in text:
        head, _, tail = text.rpartition(":")
        if head.endswith(".py") and os.path.exists(head):
            splits = [each for each in prefer if each in _OWN_SPLITS]
            return Rows(text, table=rows_of(absolute(text, Path.cwd()), (splits or ["train"])[0]))
        if head and _SPLIT.fullmatch(tail):
            name, split = head, tail

    def choose(splits: list[str]) -> str:
        known = splits if len(splits) == 1 else [each for each in prefer if each in splits]
        chosen = split or (known[0] if known else prefer[0])
        if chosen not in splits:
            raise InputError(
                f"{name} has no split {chosen!r}: give one of them as {name}:SPLIT ({', '.join(splits)})"
            )
        return chosen

    if os.path.isdir(name):
        return Rows(text, *folder_table(Path(name), choose))
    if os.path.exists(name):
        if split is not None and split != "train":
            raise InputError(f"{name} is a file and has no split {split!r}")
        _check_readable(name)
        return Rows(text, [Path(name)])
    if not is_hub_name(name):
        raise InputError(
            f"cannot read {name}: there is no such file or folder, "
            "and it is no name of a data set (owner/name)"
        )
    if split is not None and split.endswith(DATA_SUFFIXES):
        path, revision = hub_file(name, split)
        return Rows(text, [path], revision=revision)
    table, revision = hub_table(name, choose)
    return Rows(text, table=table, revision=revision)


def as_rows(source: Rows | StrPath | Iterable[Row], name: str = "the input") -> Rows:
    """What a function was given to read: rows as they are, those of a file, or a list of them."""
    if isinstance(source, Rows):
        return source
    return open_rows(source) if isinstance(source, str | os.PathLike) else Rows(name, table=list(source))


def read_rows(path: StrPath, *, repair: bool = False) -> Iterator[tuple[str, Row]]:
    """(`file:line`, row) for every line of one JSONL file that is not blank.

    With `repair`, a last line that a killed writer left incomplete is left out (the file is not changed).
    Raises InputError: at the call if the file cannot be read, while iterating at a line that is not UTF-8 or
    not a JSON object.
    """
    _check_readable(path)

    def rows() -> Iterator[tuple[str, Row]]:
        for where, line in _lines(Path(path)):
            try:
                yield where, parsed(line, where)
            except InputError:
                if repair and not line.endswith(b"\n"):
                    return
                raise

    return rows()


def parsed(raw: Raw, where: str) -> Row:
    """The row of a line. Raises InputError, beginning with `where`, unless it is a JSON object."""
    if isinstance(raw, dict):
        return raw
    try:
        row = json.loads(raw)
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, got {type(row).__name__}")
    except (ValueError, RecursionError) as error:
        torn = "" if raw.endswith(b"\n") else " (the line looks cut off)"
        raise InputError(f"{where}: not a JSON object: {error}{torn}") from None
    return row


def encode_row(row: Row) -> bytes:
    """A row as one UTF-8 line. Lone surrogates, which UTF-8 cannot hold, are written as escapes."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


def row_id(row: Mapping[str, Any], where: str, field: str = "id") -> str | int:
    """The key of a row: a non-empty string or an integer (0 is one; 0 and "0" differ). Raises InputError."""
    value = row.get(field)
    if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value):
        return value
    given = f"got {value!r}" if field in row else "it is missing"
    raise InputError(f"{where}: '{field}' must be a non-empty string or a whole number, {given}")


class UniqueIds:
    """Refuses an id that was used before; 1 and "1" are two."""

    def __init__(self, field: str = "id") -> None:
        self._field = field
        self._seen: set[str | int] = set()

    def __call__(self, row: Row, where: str) -> str | int:
        """The id of a row. Raises InputError if it is missing, of a wrong type or used before."""
        key = row_id(row, where, self._field)
        if key in self._seen:
            raise InputError(f"{where}: '{self._field}' {key!r} occurs twice; ids must be unique")
        self._seen.add(key)
        return key


@overload
def require(row: Mapping[str, Any], field: str, kind: type[_T], where: str) -> _T: ...
@overload
def require(row: Mapping[str, Any], field: str, kind: tuple[type[Any], ...], where: str) -> Any: ...
def require(row: Mapping[str, Any], field: str, kind: Any, where: str) -> Any:
    """`row[field]`, checked to be of `kind` (a type or a tuple of types; true and false are not numbers).

    Raises InputError that names `where` (`file:line`) and the field.
    """
    kinds: tuple[type[Any], ...] = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join(_NAMES.get(each, each.__name__) for each in kinds)
    if field not in row:
        raise InputError(f"{where}: field '{field}' is missing (expected {names})")
    value = row[field]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"{where}: field '{field}' must be {names}, got {type_name(value)}")
    return value


_NAMES: dict[type[Any], str] = {
    str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip


def type_name(value: Any) -> str:
    """What a JSON value is, in words."""
    return _NAMES.get(type(value), type(value).__name__)


def _check_readable(path: StrPath) -> None:
    try:
        open(path, "rb").close()
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror}") from None


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as handle:
        return handle.read(4) == b"PAR1"


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                line = line.removeprefix(_BOM) if number == 1 else line
                if number == 1 and line[:1] == b"[" and path.name.endswith((".json", ".json.gz")):
                    yield from (
                        (f"{path}: row {n}", row) for n, row in enumerate(_array(path, handle), start=1)
                    )
                    return
                if line.strip():
                    yield f"{path}:{number}", line
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from None


def _array(path: Path, handle: Any) -> list[bytes]:
    """The lines that the elements of one JSON array would be."""
    handle.seek(0)
    try:
        return [json.dumps(row).encode() + b"\n" for row in json.loads(handle.read().removeprefix(_BOM))]
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", _plain(row)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: not a Parquet file that can be read ({reason})") from None


def _plain(row: Row) -> Row:
    """A row of a table as JSON would hold it: no nulls at the top, dates as ISO text."""
    return {
        name: value.isoformat() if isinstance(value, datetime.date) else value
        for name, value in row.items()
        if value is not None
    }
