"""Contexts and tasks as rows of verl's training data (arXiv 2602.03806, released data scripts).

The columns of the input stay beside verl's, as texts: what is none is stored as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Literal

from cobalt.contexts.trajectories import check_conversation, rate
from cobalt.errors import InputError
from cobalt.prompts import Prompts
from cobalt.rows import Row, require, row_id
from cobalt.schema import Message
from cobalt.testcases import TestCases
from cobalt.text import encodable

DATA_SOURCE = "code_taco_verified"
NO_ID = -1
VERL_COLUMNS = ("data_source", "prompt", "ability", "reward_model", "extra_info")
BATCH_ROWS = 256

Kind = Literal["multi_turn", "single_turn"]


@dataclass
class VerlRows:
    """How input rows of one kind become verl's rows.

    ``multi_turn`` rows are contexts, ``single_turn`` rows are tasks, whose prompts open with the system
    message of ``prompts``; ``drop`` leaves out the input's columns and the copies of the prompt. `check`
    every row of all files before `write`: ids have one type in both.
    """

    kind: Kind
    prompts: Prompts
    drop: bool
    numbers: int = 0  # ids that are
    texts: int = 0

    def __post_init__(self) -> None:
        fields = {"multi_turn": ("example_id", "conversation"), "single_turn": ("id", "instruction")}
        self.id_field, self.text_field = fields[self.kind]

    def check(self, row: Row, where: str) -> None:
        """Raise InputError, beginning with ``where``, for a row that cannot be used."""
        if self.text_field not in row and {"conversation", "instruction"} & row.keys():
            other = "single" if self.kind == "multi_turn" else "multi"
            raise InputError(
                f"{where}: field '{self.text_field}' is missing; these rows go through "
                f"verl_preproc_{other}_turn.py"
            )
        if self.kind == "multi_turn":
            place = f"{where}: field 'conversation'"
            check_conversation(require(row, "conversation", list, where), place)
            rate(row.get("prev_best_pass_rate", 0.0), f"{where}: field 'prev_best_pass_rate'")
        else:
            require(row, "instruction", str, where)
        tests = require(row, "test_cases", (str, dict), where)
        if not len(TestCases.parse(tests, where=f"{where}: field 'test_cases'")):
            raise InputError(f"{where}: field 'test_cases' holds no tests")
        key = row_id(row, where, self.id_field) if self.id_field in row else NO_ID
        # An integer beyond 64 bits is an id all the same, but only as a text.
        is_number = isinstance(key, int) and -(2**63) <= key < 2**63
        self.numbers += is_number
        self.texts += not is_number

    def prompt(self, row: Row) -> list[Message]:
        """The messages that the policy will answer."""
        if self.kind == "multi_turn":
            messages: list[Message] = row["conversation"]
        else:
            messages = self.prompts.messages(row["instruction"])
        return [{"role": m["role"], "content": encodable(m["content"])} for m in messages]

    def convert(self, row: Row, split: str) -> Row:
        """The row to write."""
        key = row.get(self.id_field, NO_ID)
        index = str(key) if self.texts else key
        prompt = self.prompt(row)
        copied = prompt if self.kind == "multi_turn" else encodable(row["instruction"])
        tests = row["test_cases"]
        if not isinstance(tests, str) or encodable(tests) != tests:
            tests = TestCases.parse(tests).to_json()  # escapes what UTF-8 cannot hold
        known = {self.id_field: index, self.text_field: copied, "test_cases": tests}
        info: Row = {"split": split, "index": index}
        if self.kind == "multi_turn":
            known["prev_best_pass_rate"] = info["prev_best_pass_rate"] = row.get("prev_best_pass_rate", 0.0)
        if not self.drop:
            info[self.text_field] = copied
        kept = {name: known[name] if name in known else _text(row[name]) for name in self.columns(row)}
        return kept | {
            "data_source": DATA_SOURCE,
            "prompt": prompt,
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": tests},
            "extra_info": info,
        }

    def columns(self, row: Row) -> list[str]:
        """The input's columns to keep."""
        return [] if self.drop else [name for name in row if name not in VERL_COLUMNS]

    def write(self, handle: BinaryIO, rows: Iterable[Row], columns: Iterable[str], split: str) -> int:
        """Write rows in groups of `BATCH_ROWS`; the number of rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, count = self._schema(columns), 0
        converted = (self.convert(row, split) for row in rows)
        with pq.ParquetWriter(handle, schema) as writer:
            while batch := list(islice(converted, BATCH_ROWS)):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                count += len(batch)
        return count

    def _schema(self, columns: Iterable[str]) -> Any:
        import pyarrow as pa

        text = pa.string()
        messages = pa.list_(pa.struct([("role", text), ("content", text)]))
        index = text if self.texts else pa.int64()
        copied = messages if self.kind == "multi_turn" else text
        known = {self.id_field: index, self.text_field: copied}
        info = [("split", text), ("index", index)]
        if self.kind == "multi_turn":
            known["prev_best_pass_rate"] = pa.float64()
            info.append(("prev_best_pass_rate", pa.float64()))
        made = {
            "data_source": text,
            "prompt": messages,
            "ability": text,
            "reward_model": pa.struct([("style", text), ("ground_truth", text)]),
            "extra_info": pa.struct(info if self.drop else [*info, (self.text_field, copied)]),
        }
        return pa.schema(list(({name: known.get(name, text) for name in columns} | made).items()))


def _text(value: Any) -> str | None:
    """A text as it is, null as null, anything else as JSON text."""
    if value is None or (isinstance(value, str) and encodable(value) == value):
        return value
    return json.dumps(value)
