"""Rows from wherever they are: JSON lines, Parquet, a folder of either, or a data set of the hub.

Every door names its input as `NAME[:split]`. JSON lines and Parquet are streamed; data sets of the hub are
fetched once by the `datasets` library into its cache and read from disk. Missing keys and nulls are the
same in tables,
so nulls are left out there.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.files import StrPath, file_sha256
from cobalt.hub import DATA_SUFFIXES, hub_files, hub_table, is_hub_name, quiet
from cobalt.records import Row
from cobalt.store import encode_row, parse_line

Raw = bytes | Row  # a line that is not parsed yet, or a row of a table

INPUT_HELP = "JSONL or Parquet file, folder, or data set of the hub (owner/name[:split])"
_BOM = b"\xef\xbb\xbf"
_SPLIT = re.compile(r"[\w.+/\-\[\]%]+")
_BATCH_ROWS = 64
_BESIDE = (
    ".manifest.json",
    ".summary.json",
    ".failures.jsonl",
    ".rejects.jsonl",
    ".verdicts.jsonl",
)  # no data


@dataclass(frozen=True)
class Part:
    """One file: `kind` is jsonl or parquet."""

    path: Path
    kind: str


class Input:
    """Rows of `NAME[:split]`, in order, as often as wanted.

    `name` is as given, `path` the file if it is one plain file (else None), `paths` all local files. Raises
    InputError where there is nothing to read, with what there is instead.
    """

    def __init__(self, name: str, parts: list[Part], table: Any = None, revision: str | None = None) -> None:
        self.name = name
        self.parts = parts
        self.revision = revision
        self._table = table
        self._sha256: str | None = None

    @property
    def paths(self) -> list[Path]:
        return [part.path for part in self.parts]

    @property
    def path(self) -> Path | None:
        return self.parts[0].path if len(self.parts) == 1 and self._table is None else None

    def raw(self) -> Iterator[tuple[str, Raw]]:
        """(`file:line` or `file: row n`, line or row) without parsing lines; blank lines are left out."""
        for part in self.parts:
            read = _lines if part.kind == "jsonl" else _parquet_rows
            yield from read(part.path)
        if self._table is not None:
            for number, row in enumerate(self._table, start=1):
                yield f"{self.name}: row {number}", plain_row(row)

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


class RowList(Input):
    """Rows that are in memory already."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        super().__init__(name, [])
        self._rows = rows

    def raw(self) -> Iterator[tuple[str, Raw]]:
        return ((f"{self.name}: row {number}", row) for number, row in enumerate(self._rows, start=1))


def parsed(raw: Raw, where: str) -> Row:
    """The row of a line. Raises InputError, beginning with `where`."""
    return parse_line(raw, where) if isinstance(raw, bytes) else raw


def open_input(spec: StrPath, prefer: Sequence[str] = ("train",)) -> Input:
    """Open `NAME[:split]`: a file, a folder, or a data set of the hub (`owner/name`, `owner/name:split`,
    `owner/name:file.jsonl`).

    Without a split, a set with one split gives that one, one with several the first that it has of `prefer`.
    Raises InputError for a name that is none of these, an unknown split (with the list of splits), and a hub
    that cannot be reached.
    """
    text = os.fspath(spec)
    name, split = text, None
    if not os.path.exists(text) and ":" in text:
        head, _, tail = text.rpartition(":")
        if head and _SPLIT.fullmatch(tail):
            name, split = head, tail
    if os.path.isdir(name):
        return _open_folder(text, Path(name), split, prefer)
    if os.path.exists(name):
        if split is not None and split != "train":
            raise InputError(f"{name} is a file and has no split {split!r}")
        return _open_file(text, Path(name))
    if is_hub_name(name):
        return _open_hub(text, name, split, prefer)
    raise InputError(
        f"cannot read {name}: there is no such file or folder, and it is no name of a data set (owner/name)"
    )


def _open_file(text: str, path: Path) -> Input:
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {path}: permission denied")
    return Input(text, [Part(path, _kind(path))])


def _kind(path: Path) -> str:
    with open(path, "rb") as handle:
        return "parquet" if handle.read(4) == b"PAR1" else "jsonl"


def _open_folder(text: str, folder: Path, split: str | None, prefer: Sequence[str]) -> Input:
    if (folder / "dataset_info.json").exists() or (folder / "dataset_dict.json").exists():
        from datasets import Dataset, load_from_disk

        saved = load_from_disk(str(folder))
        if not isinstance(saved, Dataset):
            saved = saved[_choose(split, list(saved), str(folder), prefer)]
        return Input(text, [], saved)
    from datasets import load_dataset_builder

    try:
        with quiet():
            files = load_dataset_builder(str(folder)).config.data_files
    except Exception as error:  # the library raises many kinds; all mean that it found no data here
        raise InputError(f"{folder}: no data set found ({_first_line(error)})") from None
    chosen = _choose(split, [str(each) for each in files], str(folder), prefer)
    paths = [Path(each) for each in files[chosen] if not str(each).endswith(_BESIDE)]
    other = next((path for path in paths if not path.name.endswith(DATA_SUFFIXES)), None)
    if other is not None:
        raise InputError(f"{other}: JSON lines ({', '.join(DATA_SUFFIXES[:-1])}) or Parquet files are needed")
    return Input(text, [Part(path, _kind(path)) for path in paths])


def _choose(split: str | None, splits: list[str], name: str, prefer: Sequence[str]) -> str:
    if split is None:
        known = splits if len(splits) == 1 else [each for each in prefer if each in splits]
        split = known[0] if known else prefer[0]
    if split not in splits:
        raise InputError(
            f"{name} has no split {split!r}: give one of them as {name}:SPLIT ({', '.join(splits)})"
        )
    return split


def _open_hub(text: str, name: str, split: str | None, prefer: Sequence[str]) -> Input:
    if split is not None and split.endswith(DATA_SUFFIXES):
        paths, revision = hub_files(name, [split])
        return Input(text, [Part(path, _kind(path)) for path in paths], revision=revision)
    table, revision = hub_table(name, lambda splits: _choose(split, splits, name, prefer))
    return Input(text, [], table, revision)


def _lines(path: Path) -> Iterator[tuple[str, Raw]]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                if number == 1:
                    line = line.removeprefix(_BOM)
                    if line.lstrip()[:1] == b"[" and path.name.endswith((".json", ".json.gz")):
                        yield from _array(path, line + handle.read())
                        return
                if line.strip():
                    yield f"{path}:{number}", line
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from None


def _array(path: Path, text: bytes) -> Iterator[tuple[str, Row]]:
    """The objects of one JSON array."""
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {number}: must be an object")
        yield f"{path}: row {number}", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", plain_row(row)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({_first_line(error)})") from None


def plain_row(row: Row) -> Row:
    """A row of a table as JSON would hold it: no nulls at the top, dates as ISO text."""
    return {
        name: value.isoformat() if isinstance(value, datetime.date) else value
        for name, value in row.items()
        if value is not None
    }


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
