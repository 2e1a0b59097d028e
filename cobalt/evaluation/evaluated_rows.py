"""Evaluated rows: right or wrong by sample and turn, the labels of a task, and runs about the same tasks.

All rates are fractions in [0, 1].
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.files import settings_hash
from cobalt.rows import Row, read_rows, require, row_id
from cobalt.stats import Interval

TaskId = str | int
NO_CODE, INFRA_ERROR = "no_code", "infra_error"
FUNCTIONAL, STDIN = "functional", "stdin"


@dataclass(frozen=True)
class Outcomes:
    """What statistics need of one evaluated row.

    `rates` and `public` are shares of hidden and public tests passed, [samples][turns], None for a program
    without a verdict or not there; `status` is the suite status, same axes. `lengths` [samples]: turns
    there were before trajectories that stopped at success were carried forward. `subset` is `functional`
    (a function is asked for) or `stdin`; `slots` what the statement leaves vague. `tests`
    and `statement`: hashes of the hidden tests and of `question`, None where the row has none.
    """

    id: TaskId
    group: Hashable
    difficulty: str
    subset: str
    slots: frozenset[str]
    rates: list[list[float | None]]
    public: list[list[float | None]] | None
    status: list[list[str | None]]
    lengths: list[int]
    carried: int
    infra_errors: int
    tokens: dict[str, int]
    tests: str | None
    statement: str | None

    @classmethod
    def of(cls, row: Row, where: str) -> Outcomes:
        """Read an evaluated row. Raises InputError for rates of the wrong shape or outside [0, 1]."""
        rates = _checked(require(row, "all_pass_rates", list, where), where)
        lengths = [len(sample) for sample in rates]
        given = row.get("exec_status") or [[None] * length for length in lengths]
        status = [list(sample) for sample in given]
        if [len(sample) for sample in status] != lengths:
            raise InputError(f"{where}: exec_status and all_pass_rates have different shapes")
        infra_errors = sum(entry == INFRA_ERROR for sample in status for entry in sample)
        public = _by_sample(row.get("public_pass_rates"), lengths)
        carried = 0
        for index, stopped in enumerate(row.get("stopped_when_passed") or ()):
            missing = max(lengths) - lengths[index] if stopped else 0
            for table in (rates, status, *([public] if public else [])):
                table[index].extend(table[index][-1:] * missing)
            carried += missing
        group = row.get("group")
        return cls(
            row_id(row, where), group if isinstance(group, Hashable) else repr(group),
            str(row.get("difficulty", "")), _subset(row), frozenset(row.get("slots") or ()),
            rates, public, status, lengths, carried, infra_errors, _tokens(row.get("usage")),
            _hash(parsed(row.get("hidden_test_cases"))), _hash(row.get("question")),
        )  # fmt: skip

    def right(self, turn: int) -> list[bool]:
        """Whether each program of a turn passed every hidden test; those without a verdict are left out."""
        rates = (sample[turn] for sample in self.rates if turn < len(sample))
        return [rate == 1 for rate in rates if rate is not None]


def _checked(table: list[Any], where: str) -> list[list[float | None]]:
    if not table:
        raise InputError(f"{where}: all_pass_rates holds no samples")
    for sample in table:
        if not isinstance(sample, list) or not sample:
            what = "must hold a list of rates per sample"
            raise InputError(f"{where}: all_pass_rates {what}, found {sample!r}")
        for rate in sample:
            number = isinstance(rate, int | float) and not isinstance(rate, bool)
            if rate is not None and not (number and 0 <= rate <= 1):
                raise InputError(f"{where}: all_pass_rates must hold shares in [0, 1], found {rate!r}")
    return [list(sample) for sample in table]


def _by_sample(table: Any, lengths: list[int]) -> list[list[float | None]] | None:
    """A [turn][sample] array as [sample][turn], if it is there and covers every program."""
    if not isinstance(table, list) or len(table) < max(lengths):
        return None
    if any(not isinstance(turn, list) or len(turn) != len(lengths) for turn in table):
        return None
    return [[table[turn][sample] for turn in range(length)] for sample, length in enumerate(lengths)]


def _subset(row: Row) -> str:
    """By `is_functional`, the tests' `fn_name`, or LiveCodeBench's `starter_code` and `metadata`."""
    if isinstance(row.get("is_functional"), bool):
        return FUNCTIONAL if row["is_functional"] else STDIN
    if str(row.get("starter_code") or "").strip():
        return FUNCTIONAL
    for name, key in (("metadata", "func_name"), ("hidden_test_cases", "fn_name"), ("test_cases", "fn_name")):
        value = row.get(name)
        if isinstance(value, str) and key in value:  # else not worth the parsing
            value = parsed(value)
        if isinstance(value, dict) and value.get(key):
            return FUNCTIONAL
    return STDIN


def parsed(value: Any) -> Any:
    """JSON text as what it says; anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


def _hash(value: Any) -> str | None:
    return None if value is None else settings_hash(value)


def _tokens(used: Any) -> dict[str, int]:
    """Prompt and completion tokens of a row's [turn][sample] usage; entries that are not known count as 0."""
    turns = used if isinstance(used, list) else []
    entries = [entry for turn in turns for entry in (turn if isinstance(turn, list) else [turn])]
    known = [entry for entry in entries if isinstance(entry, dict)]
    return {
        name: sum(int(entry.get(f"{name}_tokens") or 0) for entry in known)
        for name in ("prompt", "completion")
    }


def task_rates(outcomes: Iterable[Outcomes], turn: int) -> dict[TaskId, float]:
    """Share of right programs of each task at a turn; tasks without a verdict are left out."""
    return {each.id: sum(right) / len(right) for each in outcomes if (right := each.right(turn))}


def groups_of(outcomes: Iterable[Outcomes]) -> int | None:
    """How many groups of tasks there are; None unless every task names its group and there are several."""
    groups = {each.group for each in outcomes}
    return len(groups) if None not in groups and len(groups) > 1 else None


def bounds(found: Interval | None, scale: float = 1.0) -> list[float | None]:
    """[lo, hi] of an interval; None for what is not defined."""
    return [None, None] if found is None or found.lo != found.lo else [scale * found.lo, scale * found.hi]


@dataclass
class EvaluatedRun:
    """One evaluated file: outcomes by task, in the order of the file."""

    name: str
    path: Path
    outcomes: dict[TaskId, Outcomes] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, path: Path) -> EvaluatedRun:
        """Read a file that `eval_multi_turn.py` wrote. Raises InputError, with file:line, for rows of another
        stage, rates that are no shares, a task that occurs twice, a torn line or no row at all.
        """
        run = cls(name, path)
        for where, row in read_rows(path):
            run.add(row, where)
        run.refuse_empty()
        return run

    def add(self, row: Row, where: str) -> Outcomes:
        """Take a row in; returns what was read of it."""
        if "all_pass_rates" not in row:
            raise InputError(
                f"{where}: field 'all_pass_rates' is missing: not a row of eval_multi_turn.py, "
                "which has to be run first"
            )
        outcome = Outcomes.of(row, where)
        if outcome.id in self.outcomes:
            raise InputError(f"{where}: id {outcome.id!r} occurs twice in this file")
        self.outcomes[outcome.id] = outcome
        return outcome

    def refuse_empty(self) -> None:
        """Raise InputError if no row was taken in."""
        if not self.outcomes:
            raise InputError(f"{self.path}: there are no evaluated rows")

    @property
    def turns(self) -> int:
        return max(len(sample) for each in self.outcomes.values() for sample in each.rates)

    @property
    def samples(self) -> int:
        return max(len(each.rates) for each in self.outcomes.values())

    @property
    def infra_errors(self) -> int:
        return sum(each.infra_errors for each in self.outcomes.values())

    @property
    def groups(self) -> int | None:
        return groups_of(self.outcomes.values())


def refuse_unlike(runs: Sequence[EvaluatedRun]) -> list[str]:
    """Raise InputError, saying what differs, unless all runs are about the same tasks and hidden tests.

    Returns what could not be checked or is worth knowing: rows without tests, other numbers of samples or
    turns.
    """
    first, notes = runs[0], list[str]()
    for run in runs[1:]:
        pair = f"{first.name} ({first.path}) and {run.name} ({run.path})"
        only = [[key for key in a.outcomes if key not in b.outcomes] for a, b in ((first, run), (run, first))]
        if any(only):
            parts = [
                f"{len(keys)} only in {each.name} ({_some(keys)})"
                for keys, each in zip(only, (first, run), strict=True) if keys
            ]  # fmt: skip
            raise InputError(
                f"{pair} are not about the same tasks: {', '.join(parts)}; "
                f"{len(set(first.outcomes) & set(run.outcomes))} in both"
            )
        both = [(each, run.outcomes[key]) for key, each in first.outcomes.items()]
        for what, pairs in (
            ("hidden tests", [(a.id, {a.tests, b.tests}) for a, b in both]),
            ("statements", [(a.id, {a.statement, b.statement}) for a, b in both]),
        ):
            other = [key for key, found in pairs if len(found - {None}) > 1]
            if other:
                raise InputError(
                    f"{pair} have the same ids but other {what} in {len(other)} of {len(both)} tasks "
                    f"({_some(other)})"
                )
        if unknown := sum(None in (a.tests, b.tests) for a, b in both):
            notes.append(f"{unknown} tasks have no hidden tests in a row: whether they agree is not known")
        for what, mine, others in (
            ("turns", first.turns, run.turns),
            ("samples per task", first.samples, run.samples),
        ):
            if mine != others:
                notes.append(f"{first.name} has {mine} {what}, {run.name} {others}")
    return notes


def _some(keys: Sequence[TaskId]) -> str:
    return ", ".join(repr(key) for key in keys[:3]) + (", ..." if len(keys) > 3 else "")


def named_paths(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(name, path) of arguments `PATH` or `NAME=PATH`. A name that is not given is the file's, without
    `_eval`; names that meet get that of the nearest folder in front that tells them apart. Raises InputError
    for a name given twice.
    """
    given: list[tuple[str, Path]] = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        named = equals and "/" not in name and not Path(argument).exists()
        given.append((name, Path(path)) if named else ("", Path(argument)))
    short = [name or path.stem.removesuffix("_eval") for name, path in given]
    alike: dict[str, list[Path]] = {}
    for (name, unnamed), label in zip(given, short, strict=True):
        if not name:
            alike.setdefault(label, []).append(unnamed)
    found = [
        label if name or short.count(label) == 1 else f"{_folder_apart(path, alike[label])}/{label}"
        for (name, path), label in zip(given, short, strict=True)
    ]
    for label in found:
        if found.count(label) > 1:
            raise InputError(f"the name {label!r} is given twice; name runs as NAME=PATH")
    return [(label, path) for label, (_, path) in zip(found, given, strict=True)]


def _folder_apart(path: Path, others: Sequence[Path]) -> str:
    """The name of the nearest folder above `path` at a height at which all `others` have different ones."""
    above = [each.absolute().parents for each in others]
    for height in range(min(map(len, above))):
        if len({folders[height].name for folders in above}) == len(above):
            return path.absolute().parents[height].name
    return path.absolute().parent.name
