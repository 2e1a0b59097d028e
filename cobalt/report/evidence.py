"""Evaluated rows as the report compares them: one arm per model or control, paired by task."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.analysis.outcomes import Outcomes, task_rates
from cobalt.analysis.summary import summarize
from cobalt.errors import InfraError, InputError
from cobalt.rows import Row, read_rows, row_id
from cobalt.stats import Interval, clustered_mean, paired_bootstrap

TaskId = str | int


@dataclass(frozen=True)
class Arm:
    """One evaluation: outcomes in the order of the file, vague slots by task, the rows' path."""

    path: Path
    outcomes: list[Outcomes]
    slots: dict[TaskId, frozenset[str]]

    @classmethod
    def read(cls, path: Path) -> Arm:
        """Read evaluated rows (`all_pass_rates`, optionally `group` and `slots`).

        Raises InputError for rows of another stage, InfraError if a program has no verdict: such a file is
        not a result yet.
        """
        outcomes, slots = [], {}
        for where, row in read_rows(path):
            outcome = Outcomes.of(row, where)
            if outcome.infra_errors:
                raise InfraError(f"{where}: {outcome.infra_errors} programs have no verdict; evaluate again")
            outcomes.append(outcome)
            slots[row_id(row, where)] = frozenset(row.get("slots") or ())
        if not outcomes:
            raise InputError(f"{path}: there are no evaluated rows")
        return cls(path, outcomes, slots)

    @property
    def turns(self) -> int:
        return max(max(each.lengths) for each in self.outcomes)

    @property
    def samples(self) -> int:
        return max(len(each.rates) for each in self.outcomes)

    @property
    def ids(self) -> list[TaskId]:
        return [each.id for each in self.outcomes]

    @property
    def groups(self) -> dict[TaskId, Hashable]:
        """Structure of each task; a task without one is its own."""
        return {each.id: each.id if each.group is None else each.group for each in self.outcomes}

    def rates(self, turn: int, ids: Iterable[TaskId] | None = None) -> list[float]:
        """Share of right programs per task at a turn (from 0; -1 is the last), in the order of `ids`."""
        by_task = task_rates(self.outcomes, turn % self.turns)
        return [by_task[key] for key in (self.ids if ids is None else ids)]

    def mean(self, turn: int, *, by_structure: bool = False) -> Interval:
        """Pass@1 at a turn; the interval is clustered by task, or by structure."""
        clusters = [self.groups[key] for key in self.ids] if by_structure else None
        return clustered_mean([[rate] for rate in self.rates(turn)], clusters)

    def pass_at_1(self) -> dict[str, Any]:
        """By turn: `pass_at_1` with `ci95` clustered by task and `ci95_by_structure`, as fractions."""
        by_task = [self.mean(turn) for turn in range(self.turns)]
        by_structure = [self.mean(turn, by_structure=True) for turn in range(self.turns)]
        return {
            "pass_at_1": [each.mean for each in by_task],
            "ci95": [bounds(each) for each in by_task],
            "ci95_by_structure": [bounds(each) for each in by_structure],
        }

    def behaviour(self) -> dict[str, Any]:
        """Rates over all pairs of consecutive programs, and the share of programs without code by turn."""
        summary = summarize(self.outcomes)
        return {
            name: _pooled([each[name] for each in summary["transitions"]])
            for name in ("right_to_wrong", "wrong_to_right")
        } | {"no_code": summary["no_code"], "public_minus_hidden": (summary["public"] or {}).get("gap")}


def paired(arms: Sequence[Arm]) -> None:
    """Raise InputError unless all arms hold the same tasks."""
    first = arms[0]
    for arm in arms[1:]:
        if set(arm.ids) != set(first.ids):
            odd = sorted(map(str, set(arm.ids) ^ set(first.ids)))
            raise InputError(
                f"{arm.path} and {first.path} cannot be compared: {len(odd)} tasks are in one of them only "
                f"({', '.join(odd[:3])}, ...)"
            )


def gain(
    new: Sequence[float], old: Sequence[float], groups: Sequence[Hashable], *, seed: int
) -> dict[str, Any]:
    """Mean of new - old over paired tasks in percentage points, with both 95 % intervals.

    A percentile bootstrap that resamples tasks (`ci95`) or structures (`ci95_by_structure`, None for a bound
    where there is one structure only). `n` is the number of tasks.
    """
    by_task = paired_bootstrap(new, old, seed=seed)
    by_structure = paired_bootstrap(new, old, groups, seed=seed)
    return {
        "points": 100 * by_task.mean,
        "ci95": bounds(by_task, 100),
        "ci95_by_structure": bounds(by_structure, 100),
        "n": len(new),
    }


def arm_gain(new: Arm, old: Arm, *, turn: int = -1, old_turn: int | None = None, seed: int) -> dict[str, Any]:
    """`gain` of one arm over another at a turn (of `old` at `old_turn`, if it is another)."""
    ids = old.ids
    groups = [old.groups[key] for key in ids]
    before = old.rates(turn if old_turn is None else old_turn, ids)
    return gain(new.rates(turn, ids), before, groups, seed=seed)


def by_slot(new: Arm, old: Arm, names: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Last-turn gain by what the statement leaves vague.

    Two rows per slot: `also` (vague in the task, perhaps with others) and `only` (nothing else is), then the
    tasks in which nothing is vague. Each: `slot`, `kind`, `n`, `before`, `after` (fractions), `points`,
    `ci95`, `ci95_by_structure`; a kind without tasks is left out.
    """
    kinds: list[tuple[str, str, list[TaskId]]] = []
    for name in names:
        kinds.append((name, "also", [key for key in old.ids if name in old.slots[key]]))
        kinds.append((name, "only", [key for key in old.ids if old.slots[key] == {name}]))
    kinds.append(("nothing", "only", [key for key in old.ids if not old.slots[key]]))
    rows = []
    for slot, kind, ids in kinds:
        if not ids:
            continue
        before, after = old.rates(-1, ids), new.rates(-1, ids)
        facts = {"before": sum(before) / len(ids), "after": sum(after) / len(ids)}
        difference = gain(after, before, [old.groups[key] for key in ids], seed=seed)
        rows.append({"slot": slot, "kind": kind, **facts, **difference})
    return rows


def bounds(interval: Interval, scale: float = 1.0) -> list[float | None]:
    """[lo, hi] of an interval; None for a bound that is not defined."""
    return [None if value != value else scale * value for value in (interval.lo, interval.hi)]


def _pooled(transitions: Sequence[Row]) -> dict[str, Any]:
    count, of = (sum(each[name] for each in transitions) for name in ("count", "of"))
    return {"count": count, "of": of, "rate": count / of if of else None}
