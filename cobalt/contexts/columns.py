"""Rows of any shape as Parquet columns: one Arrow type per column, the same in every file of a set.

Columns are typed from all their values. Where no Arrow type fits (numbers beside texts, objects without keys,
text that UTF-8 cannot hold) the column is stored as JSON text, and the schema's metadata says so. In
Parquet a missing key and a null are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from cobalt.rows import Row

METADATA_KEY = b"cobalt.json_columns"
BATCH_ROWS = 256

# What pyarrow raises for values that have no common type.
_UNTYPABLE = (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError)


class Columns:
    """Finds the type of every column. Call `observe` with all rows of a file, then `schema`."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._seen: dict[str, dict[str, None]] = {}  # by file, in order of appearance
        self.as_json: set[str] = set()

    def observe(self, file: str, rows: Sequence[Row]) -> None:
        """Take some rows of ``file`` into account."""
        names = self._seen.setdefault(file, {})
        for row in rows:
            names.update(dict.fromkeys(row))
        for name in names:
            if name not in self.as_json:
                self._add(name, [row.get(name) for row in rows])

    def _add(self, name: str, values: list[Any]) -> None:
        try:
            found = pa.array(values).type
            if _has_empty_struct(found):
                raise TypeError("an object without keys")
            before = pa.schema([(name, self._types.get(name, pa.null()))])
            joined = pa.unify_schemas([before, pa.schema([(name, found)])], promote_options="permissive")
        except _UNTYPABLE:
            self.as_json.add(name)
        else:
            self._types[name] = joined.field(name).type

    def schema(self, file: str, added: dict[str, Any], retyped: dict[str, Any]) -> Any:
        """The Arrow schema of ``file``: its own columns, then ``added`` ones (name to type).

        ``retyped`` gives types to columns of the file's own, in place of those found.
        """
        fields: dict[str, Any] = {}
        marked = []
        for name in self._seen.get(file, ()):
            if name in retyped:
                fields[name] = retyped[name]
            elif name in self.as_json:
                marked.append(name)
                fields[name] = pa.string()
            else:
                fields[name] = _no_nulls(self._types[name])
        return pa.schema(list((fields | added).items()), metadata={METADATA_KEY: json.dumps(marked).encode()})


def write_parquet(handle: BinaryIO, rows: Iterable[Row], schema: Any) -> int:
    """Write rows in groups of `BATCH_ROWS`; the number of rows. Keys that the schema lacks are left out."""
    import pyarrow.parquet as pq

    as_json = set(json_columns(schema))
    count = 0
    with pq.ParquetWriter(handle, schema) as writer:
        for batch in batches(rows):
            arrays = []
            for field in schema:
                values = [row.get(field.name) for row in batch]
                if field.name in as_json:
                    values = [None if value is None else json.dumps(value) for value in values]
                arrays.append(pa.array(values, type=field.type))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count


def json_columns(schema: Any) -> list[str]:
    """Names of the columns stored as JSON text."""
    names: list[str] = json.loads((schema.metadata or {}).get(METADATA_KEY, b"[]"))
    return names


def batches(rows: Iterable[Row]) -> Iterable[list[Row]]:
    """Lists of at most `BATCH_ROWS` rows."""
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _has_empty_struct(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_has_empty_struct(field.type) for field in kind)
    return pa.types.is_list(kind) and _has_empty_struct(kind.value_type)


def _no_nulls(kind: Any) -> Any:
    """The type with text in place of "only nulls so far", which readers of Parquet disagree about."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _no_nulls(field.type)) for field in kind])
    return pa.list_(_no_nulls(kind.value_type)) if pa.types.is_list(kind) else kind
