"""Evaluated files as things to compare: outcomes by task, and whether two files are about the same tasks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.analysis.outcomes import Outcomes
from cobalt.errors import InputError
from cobalt.files import settings_hash
from cobalt.rows import Row, read_rows

TaskId = str | int
_NAMED = 3  # tasks named in a refusal


@dataclass
class EvaluatedRun:
    """One evaluated file. `tests`: hash of the hidden tests of each task, None where the row has none;
    `statements`: hash of `question`, likewise.
    """

    name: str
    path: Path
    outcomes: dict[TaskId, Outcomes] = field(default_factory=dict)
    tests: dict[TaskId, str | None] = field(default_factory=dict)
    statements: dict[TaskId, str | None] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, path: Path) -> EvaluatedRun:
        """Read a file that `eval_multi_turn.py` wrote. Raises InputError, with file:line, for rows of another
        stage, rates that are no shares, a task that occurs twice, a torn line or no row at all.
        """
        run = cls(name, path)
        for where, row in read_rows(path):
            run.add(row, where)
        if not run.outcomes:
            raise InputError(f"{path}: there are no evaluated rows")
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
        self.tests[outcome.id] = _tests_hash(row)
        question = row.get("question")
        self.statements[outcome.id] = settings_hash(question) if isinstance(question, str) else None
        return outcome

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
    def grouped(self) -> bool:
        """Whether every task names its group, and there is more than one."""
        groups = {each.group for each in self.outcomes.values()}
        return None not in groups and len(groups) > 1


def refuse_unlike(runs: Sequence[EvaluatedRun]) -> list[str]:
    """Raise InputError, saying what differs, unless all runs are about the same tasks and hidden tests.

    Returns what could not be checked or is worth knowing: rows without tests, other numbers of samples or
    turns.
    """
    first, notes = runs[0], list[str]()
    for run in runs[1:]:
        only = [[key for key in a.outcomes if key not in b.outcomes] for a, b in ((first, run), (run, first))]
        if any(only):
            parts = [
                f"{len(keys)} only in {each.name} ({_some(keys)})"
                for keys, each in zip(only, (first, run), strict=True) if keys
            ]  # fmt: skip
            raise InputError(
                f"{first.name} ({first.path}) and {run.name} ({run.path}) are not about the same tasks: "
                f"{', '.join(parts)}; {len(set(first.outcomes) & set(run.outcomes))} in both"
            )
        for what, a, b in (
            ("hidden tests", first.tests, run.tests),
            ("statements", first.statements, run.statements),
        ):
            other = [key for key in a if a[key] is not None and b[key] is not None and a[key] != b[key]]
            if other:
                raise InputError(
                    f"{first.name} ({first.path}) and {run.name} ({run.path}) have the same ids but other "
                    f"{what} in {len(other)} of {len(a)} tasks ({_some(other)})"
                )
        unknown = sum(first.tests[key] is None or run.tests[key] is None for key in first.tests)
        if unknown:
            notes.append(f"{unknown} tasks have no hidden tests in a row: whether they agree is not known")
        for what, mine, others in (
            ("turns", first.turns, run.turns),
            ("samples per task", first.samples, run.samples),
        ):
            if mine != others:
                notes.append(f"{first.name} has {mine} {what}, {run.name} {others}")
    return notes


def _some(keys: Sequence[TaskId]) -> str:
    shown = ", ".join(repr(key) for key in keys[:_NAMED])
    return shown + (", ..." if len(keys) > _NAMED else "")


def _tests_hash(row: Row) -> str | None:
    tests: Any = row.get("hidden_test_cases")
    if isinstance(tests, str):
        with contextlib.suppress(ValueError):  # else compared as the text it is
            tests = json.loads(tests)
    return None if tests is None else settings_hash(tests)


def named_paths(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(name, path) of arguments `PATH` or `NAME=PATH`. A name that is not given is the file's, without
    `_eval`; names that meet get their folder's in front. Raises InputError for a name given twice.
    """
    given: list[tuple[str | None, Path]] = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if equals and "/" not in name and name and not Path(argument).exists():
            given.append((name, Path(path)))
        else:
            given.append((None, Path(argument)))
    short = [name or path.stem.removesuffix("_eval") for name, path in given]
    found = [
        f"{path.absolute().parent.name}/{label}" if name is None and short.count(label) > 1 else label
        for (name, path), label in zip(given, short, strict=True)
    ]
    for label in found:
        if found.count(label) > 1:
            raise InputError(f"the name {label!r} is given twice; name runs as NAME=PATH")
    return [(label, path) for label, (_, path) in zip(found, given, strict=True)]
