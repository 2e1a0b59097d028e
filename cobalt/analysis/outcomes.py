"""What statistics need of evaluated rows: right or wrong by sample and turn, and the labels of the task.

All rates are fractions in [0, 1].
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from cobalt.errors import InputError
from cobalt.rows import Row, require, row_id

NO_CODE, INFRA_ERROR = "no_code", "infra_error"
FUNCTIONAL, STDIN = "functional", "stdin"


@dataclass(frozen=True)
class Outcomes:
    """What statistics need of one evaluated row.

    `rates` and `public` are shares of hidden and public tests passed, [samples][turns], None for a program
    without a verdict or not there; `status` is the suite status, same axes. `lengths` [samples]: turns
    there were before trajectories that stopped at success were carried forward. `subset` is `functional`
    (a function is asked for) or `stdin`.
    """

    id: str | int
    group: Hashable
    difficulty: str
    subset: str
    rates: list[list[float | None]]
    public: list[list[float | None]] | None
    status: list[list[str | None]]
    lengths: list[int]
    carried: int
    infra_errors: int
    tokens: dict[str, int]

    @classmethod
    def of(cls, row: Row, where: str) -> Outcomes:
        """Read an evaluated row. Raises InputError for rates of the wrong shape or outside [0, 1]."""
        rates = [_list(sample, where) for sample in require(row, "all_pass_rates", list, where)]
        if not rates:
            raise InputError(f"{where}: all_pass_rates holds no samples")
        status = [
            list(sample) for sample in row.get("exec_status") or [[None] * len(sample) for sample in rates]
        ]
        for sample in rates:
            for rate in sample:
                number = isinstance(rate, int | float) and not isinstance(rate, bool)
                if rate is not None and not (number and 0 <= rate <= 1):
                    raise InputError(f"{where}: all_pass_rates must hold shares in [0, 1], found {rate!r}")
        if [len(sample) for sample in status] != [len(sample) for sample in rates]:
            raise InputError(f"{where}: exec_status and all_pass_rates have different shapes")
        lengths = [len(sample) for sample in rates]
        public = _by_sample(row.get("public_pass_rates"), lengths)
        stopped = row.get("stopped_when_passed") or [False] * len(rates)
        longest, carried = max(lengths, default=0), 0
        infra_errors = sum(entry == INFRA_ERROR for sample in status for entry in sample)
        for index, ended in enumerate(stopped):
            while ended and 0 < len(rates[index]) < longest:
                for table in (rates, status, *([public] if public else [])):
                    table[index].append(table[index][-1])
                carried += 1
        return cls(
            row_id(row, where), _hashable(row.get("group")), str(row.get("difficulty", "")), subset_of(row),
            rates, public, status, lengths, carried, infra_errors, _tokens(row.get("usage")),
        )  # fmt: skip

    def right(self, turn: int) -> list[bool]:
        """Whether each program of a turn passed every hidden test; those without a verdict are left out."""
        rates = (sample[turn] for sample in self.rates if turn < len(sample))
        return [rate == 1 for rate in rates if rate is not None]


def subset_of(row: Row) -> str:
    """`functional` if the task asks for a function (`is_functional`, `fn_name` of the tests, LiveCodeBench's
    `starter_code` or `func_name` in its `metadata`), else `stdin`.
    """
    if isinstance(row.get("is_functional"), bool):
        return FUNCTIONAL if row["is_functional"] else STDIN
    if str(row.get("starter_code") or "").strip():
        return FUNCTIONAL
    for name, key in (("metadata", "func_name"), ("hidden_test_cases", "fn_name"), ("test_cases", "fn_name")):
        value = row.get(name)
        if isinstance(value, str) and key in value:
            try:
                value = json.loads(value)
            except ValueError:
                continue
        if isinstance(value, dict) and value.get(key):
            return FUNCTIONAL
    return STDIN


def task_rates(outcomes: Iterable[Outcomes], turn: int) -> dict[str | int, float]:
    """Share of right programs of each task at a turn, for paired comparisons; tasks without a verdict are
    left out.
    """
    return {each.id: sum(right) / len(right) for each in outcomes if (right := each.right(turn))}


def _list(sample: Any, where: str) -> list[Any]:
    if not isinstance(sample, list) or not sample:
        raise InputError(f"{where}: all_pass_rates must hold a list of rates per sample, found {sample!r}")
    return list(sample)


def _by_sample(table: Any, lengths: list[int]) -> list[list[float | None]] | None:
    """A [turn][sample] array as [sample][turn], if it is there and covers every program."""
    if not isinstance(table, list) or len(table) < max(lengths, default=0):
        return None
    if any(not isinstance(turn, list) or len(turn) != len(lengths) for turn in table):
        return None
    return [[table[turn][sample] for turn in range(length)] for sample, length in enumerate(lengths)]


def _tokens(used: Any) -> dict[str, int]:
    """Prompt and completion tokens of a row's [turn][sample] usage; entries that are not known count as 0."""
    total = {"prompt": 0, "completion": 0}
    for turn in used if isinstance(used, list) else []:
        for entry in turn if isinstance(turn, list) else [turn]:
            for name in total:
                if isinstance(entry, dict):
                    total[name] += int(entry.get(f"{name}_tokens") or 0)
    return total


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else repr(value)
