"""Contexts and tasks as rows of verl's training data (arXiv 2602.03806, released data scripts).

A column of the input keeps its type where all its values are texts, true or false, whole numbers, numbers, or
lists of texts; any other is stored as JSON text, and the schema's metadata says which are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO, Literal

from cobalt.contexts.tokens import encodable
from cobalt.contexts.trajectories import check_conversation
from cobalt.errors import InputError
from cobalt.prompts import Prompts
from cobalt.rows import Row, require, row_id
from cobalt.schema import Message
from cobalt.testcases import TestCases

DATA_SOURCE = "code_taco_verified"
ABILITY = "code"
NO_ID = -1
VERL_COLUMNS = ("data_source", "prompt", "ability", "reward_model", "extra_info")
METADATA_KEY = b"cobalt.json_columns"
BATCH_ROWS = 256

Kind = Literal["multi_turn", "single_turn"]


@dataclass
class VerlRows:
    """How input rows of one kind become verl's rows.

    ``multi_turn`` rows are contexts, ``single_turn`` rows are tasks, whose prompts open with the system
    message of ``prompts``; ``drop`` leaves out the input's columns and the copies of the prompt. Call `check`
    with every row of all files and `observe` with those that are written, before `write`: types depend on
    them all.
    """

    kind: Kind
    prompts: Prompts
    drop: bool
    numbers: int = 0
    texts: int = 0
    columns: dict[str, dict[str, None]] = field(default_factory=dict)  # by file, in order of appearance
    types: dict[str, str] = field(default_factory=dict)  # of the input's columns, as `_type_of` names them

    @property
    def id_field(self) -> str:
        return "example_id" if self.kind == "multi_turn" else "id"

    @property
    def text_field(self) -> str:
        return "conversation" if self.kind == "multi_turn" else "instruction"

    @property
    def ids_differ(self) -> bool:
        return bool(self.numbers and self.texts)

    @property
    def json_columns(self) -> list[str]:
        """Columns of the input that are stored as JSON text."""
        return [name for name, kind in self.types.items() if kind == "json"]

    def check(self, row: Row, where: str) -> None:
        """Raise InputError, beginning with ``where``, for a row that cannot be used."""
        if self.kind == "multi_turn":
            if "conversation" not in row and "instruction" in row:
                raise InputError(
                    f"{where}: field 'conversation' is missing; tasks go through verl_preproc_single_turn.py"
                )
            require(row, "conversation", list, where)
            check_conversation(row["conversation"], f"{where}: field 'conversation'")
            best = row.get("prev_best_pass_rate", 0.0)
            if isinstance(best, bool) or not isinstance(best, int | float) or not 0 <= best <= 1:
                raise InputError(f"{where}: 'prev_best_pass_rate' must be a rate in [0, 1], got {best!r}")
        else:
            if "instruction" not in row and "conversation" in row:
                raise InputError(
                    f"{where}: field 'instruction' is missing; contexts go through verl_preproc_multi_turn.py"
                )
            require(row, "instruction", str, where)
        tests = require(row, "test_cases", (str, dict), where)
        if not len(TestCases.parse(tests, where=f"{where}: field 'test_cases'")):
            raise InputError(f"{where}: field 'test_cases' holds no tests")
        key = row_id(row, where, self.id_field) if self.id_field in row else NO_ID
        # An integer beyond 64 bits is an id all the same, but only as a text.
        is_number = isinstance(key, int) and _type_of(key) == "int64"
        self.numbers += is_number
        self.texts += not is_number

    def observe(self, file: str, row: Row) -> None:
        """Take the columns of a row into account."""
        names = self.columns.setdefault(file, {})
        known = (*VERL_COLUMNS, self.id_field, self.text_field, "test_cases")
        for name, value in {} if self.drop else row.items():
            if name not in VERL_COLUMNS:
                names[name] = None
            found, before = None if name in known else _type_of(value), self.types.get(name)
            if found is None or found == before:
                continue
            numbers = {found, before} == {"int64", "double"}
            self.types[name] = found if before is None else "double" if numbers else "json"

    def prompt(self, row: Row) -> list[Message]:
        """The messages that the policy will answer."""
        if self.kind == "multi_turn":
            messages: list[Message] = row["conversation"]
        else:
            messages = self.prompts.messages(row["instruction"])
        return [{"role": m["role"], "content": encodable(m["content"])} for m in messages]

    def extra_columns(self, row: Row) -> Row:
        """The input columns to keep, those that are also read here as UTF-8 can hold them."""
        if self.drop:
            return {}
        kept = {name: row[name] for name in row if name not in VERL_COLUMNS}
        kept["test_cases"] = _tests_text(row)
        kept[self.text_field] = self.copied(row)
        return kept

    def copied(self, row: Row) -> Any:
        """What the prompt was made of, as UTF-8 can hold it."""
        return self.prompt(row) if self.kind == "multi_turn" else encodable(row["instruction"])

    def convert(self, row: Row, split: str) -> Row:
        """The row to write."""
        key = row.get(self.id_field, NO_ID)
        index = str(key) if self.texts else key
        info: Row = {"split": split, "index": index}
        if self.kind == "multi_turn":
            info["prev_best_pass_rate"] = float(row.get("prev_best_pass_rate", 0.0))
        if not self.drop:
            info[self.text_field] = self.copied(row)
        kept = self.extra_columns(row)
        if self.id_field in kept:
            kept[self.id_field] = index
        for name in self.json_columns:
            if kept.get(name) is not None:
                kept[name] = json.dumps(kept[name])
        return kept | {
            "data_source": DATA_SOURCE,
            "prompt": self.prompt(row),
            "ability": ABILITY,
            "reward_model": {"style": "rule", "ground_truth": _tests_text(row)},
            "extra_info": info,
        }

    def write(self, handle: BinaryIO, rows: Iterable[Row], split: str) -> int:
        """Write rows in groups of `BATCH_ROWS`; the number of rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, count = self.schema(split), 0
        converted: Iterator[Row] = (self.convert(row, split) for row in rows)
        with pq.ParquetWriter(handle, schema) as writer:
            while batch := list(islice(converted, BATCH_ROWS)):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                count += len(batch)
        return count

    def schema(self, file: str) -> Any:
        """The Arrow schema of a file: the columns of its rows, then those made here."""
        import pyarrow as pa

        text = pa.string()
        messages = pa.list_(pa.struct([("role", text), ("content", text)]))
        index = text if self.texts else pa.int64()
        info = [("split", text), ("index", index)]
        if self.kind == "multi_turn":
            info.append(("prev_best_pass_rate", pa.float64()))
        if not self.drop:
            info.append((self.text_field, messages if self.kind == "multi_turn" else text))
        known = {"string": text, "bool": pa.bool_(), "int64": pa.int64(), "double": pa.float64()}
        known["texts"] = pa.list_(text)
        names = self.columns.get(file, {})
        fields = {name: known.get(self.types.get(name, "string"), text) for name in names}
        fixed = {self.id_field: index, self.text_field: messages if self.kind == "multi_turn" else text}
        fields |= {name: kind for name, kind in fixed.items() if name in names}
        fields |= {
            "data_source": text,
            "prompt": messages,
            "ability": text,
            "reward_model": pa.struct([("style", text), ("ground_truth", text)]),
            "extra_info": pa.struct(info),
        }
        marked = [name for name in names if name in self.json_columns]
        return pa.schema(list(fields.items()), metadata={METADATA_KEY: json.dumps(marked).encode()})


def _type_of(value: Any) -> str | None:
    """Name of the column type that holds a value; None for null, `json` if none does."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -(2**63) <= value < 2**63 else "json"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list) and all(isinstance(item, str) and encodable(item) == item for item in value):
        return "texts"
    return "string" if isinstance(value, str) and encodable(value) == value else "json"


def _tests_text(row: Row) -> str:
    tests = row["test_cases"]
    if isinstance(tests, str) and encodable(tests) == tests:
        return tests
    return TestCases.parse(tests).to_json()  # escapes what UTF-8 cannot hold
