"""Contexts and tasks as rows of verl's training data (arXiv 2602.03806, released data scripts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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

Kind = Literal["multi_turn", "single_turn"]


@dataclass
class VerlRows:
    """How input rows of one kind become verl's rows.

    Call `check` with every row of all files first: the type of the ids depends on them all.

    Attributes:
        kind: ``multi_turn`` rows are contexts, ``single_turn`` rows are tasks.
        prompts: whose system message opens the prompt of a task.
        drop: leave out the input's columns and the copies of the prompt.
    """

    kind: Kind
    prompts: Prompts
    drop: bool
    numbers: int = 0
    texts: int = 0

    @property
    def id_field(self) -> str:
        return "example_id" if self.kind == "multi_turn" else "id"

    @property
    def ids_differ(self) -> bool:
        return bool(self.numbers and self.texts)

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

    def extra_columns(self, row: Row) -> Row:
        """The input columns to keep, those that are also read here as UTF-8 can hold them."""
        if self.drop:
            return {}
        kept = {name: row[name] for name in row if name not in VERL_COLUMNS}
        kept["test_cases"] = _tests_text(row)
        if self.kind == "multi_turn":
            kept["conversation"] = [{**m, "content": encodable(m["content"])} for m in row["conversation"]]
        else:
            kept["instruction"] = encodable(row["instruction"])
        return kept

    def convert(self, row: Row, split: str) -> Row:
        """The row to write."""
        key = row.get(self.id_field, NO_ID)
        index = str(key) if self.texts else key
        info: Row = {"split": split, "index": index}
        if self.kind == "multi_turn":
            info["prev_best_pass_rate"] = float(row.get("prev_best_pass_rate", 0.0))
        prompt = self.prompt(row)
        if not self.drop and self.kind == "multi_turn":
            info["conversation"] = prompt
        elif not self.drop:
            info["instruction"] = encodable(row["instruction"])
        kept = self.extra_columns(row)
        if self.id_field in kept:
            kept[self.id_field] = index
        return kept | {
            "data_source": DATA_SOURCE,
            "prompt": prompt,
            "ability": ABILITY,
            "reward_model": {"style": "rule", "ground_truth": _tests_text(row)},
            "extra_info": info,
        }

    @property
    def index_type(self) -> Any:
        """Arrow type of the ids."""
        import pyarrow as pa

        return pa.string() if self.texts else pa.int64()

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns that are made here."""
        import pyarrow as pa

        text = pa.string()
        messages = pa.list_(pa.struct([("role", text), ("content", text)]))
        info = [("split", text), ("index", self.index_type)]
        if self.kind == "multi_turn":
            info.append(("prev_best_pass_rate", pa.float64()))
        if not self.drop:
            info.append(("conversation", messages) if self.kind == "multi_turn" else ("instruction", text))
        return {
            "data_source": text,
            "prompt": messages,
            "ability": text,
            "reward_model": pa.struct([("style", text), ("ground_truth", text)]),
            "extra_info": pa.struct(info),
        }


def _tests_text(row: Row) -> str:
    tests = row["test_cases"]
    if isinstance(tests, str) and encodable(tests) == tests:
        return tests
    return TestCases.parse(tests).to_json()  # escapes what UTF-8 cannot hold
