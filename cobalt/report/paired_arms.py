"""`results.json`: every figure of a run in one file. Arms are models and controls, paired by task."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun, TaskId, bounds, refuse_unlike, task_rates
from cobalt.evaluation.summary import pooled_steps, summarize
from cobalt.report.examples import examples
from cobalt.stats import clustered_mean, paired_bootstrap

SCHEMA = 1


@dataclass(frozen=True)
class Evaluations:
    """Evaluated files of a run.

    `reference` and `cobalt` are the two models compared; `controls` further evaluations of the same tasks by
    name (single_turn_training, blank_feedback, other_feedback), `best_of_turns` per task the share of right
    choices of the reference among as many independent programs as there are turns.
    """

    reference: Path
    cobalt: Path
    controls: Mapping[str, Path] = field(default_factory=dict)
    best_of_turns: Mapping[TaskId, float] | None = None


class Arm:
    """One evaluation, with every task's structure (a task without a `group` is its own)."""

    def __init__(self, path: Path) -> None:
        """Read evaluated rows. Raises InputError for rows of another stage, InfraError if a program has no
        verdict: such a file is not a result yet.
        """
        self.run = EvaluatedRun.read(path.stem, path)
        if self.run.infra_errors:
            raise InfraError(f"{path}: {self.run.infra_errors} programs have no verdict; evaluate again")
        outcomes = self.run.outcomes.values()
        self.groups = {each.id: each.id if each.group is None else each.group for each in outcomes}
        self.summary = summarize(list(outcomes))

    def rates(self, turn: int, ids: Iterable[TaskId]) -> list[float]:
        """Share of right programs per task at a turn (from 0; -1 is the last), in the order of `ids`."""
        by_task = task_rates(self.run.outcomes.values(), turn % self.run.turns)
        return [by_task[key] for key in ids]

    def pass_at_1(self) -> dict[str, Any]:
        """By turn: `pass_at_1` with `ci95` clustered by task and `ci95_by_structure`, as fractions."""
        rates, groups = self.summary["pass_at_1"], list(self.groups.values())
        by_structure = [
            clustered_mean([[rate] for rate in self.rates(turn, self.groups)], groups)
            for turn in range(len(rates))
        ]
        return {
            "pass_at_1": rates,
            "ci95": self.summary["ci95"],
            "ci95_by_structure": [bounds(found) for found in by_structure],
        }

    def behaviour(self) -> dict[str, Any]:
        """Rates over all pairs of consecutive programs, and the share of programs without code by turn."""
        gap = (self.summary["public"] or {}).get("gap")
        return {**pooled_steps(self.summary), "no_code": self.summary["no_code"], "public_minus_hidden": gap}


def gain(
    new: Sequence[float], old: Sequence[float], groups: Sequence[Hashable], *, seed: int
) -> dict[str, Any]:
    """Mean of new - old over paired tasks in percentage points, with both 95 % intervals.

    A percentile bootstrap, as in `cobalt compare`, that resamples tasks (`ci95`) or structures
    (`ci95_by_structure`, None for a bound where there is one structure only). `n` is the number of tasks.
    """
    by_task, by_structure = (paired_bootstrap(new, old, each, seed=seed) for each in (None, groups))
    return {
        "points": 100 * by_task.mean,
        "ci95": bounds(by_task, 100),
        "ci95_by_structure": bounds(by_structure, 100),
        "n": len(new),
    }


def arm_gain(
    new: Arm, old: Arm, *, turn: int = -1, old_turn: int | None = None, ids: Sequence[TaskId] = (), seed: int
) -> dict[str, Any]:
    """`gain` of one arm over another at a turn (of `old` at `old_turn`, if it is another), on `ids` or all
    tasks.
    """
    ids = ids or list(old.groups)
    before = old.rates(turn if old_turn is None else old_turn, ids)
    return gain(new.rates(turn, ids), before, [old.groups[key] for key in ids], seed=seed)


def statistics(found: Evaluations, slots: Sequence[str], *, seed: int) -> dict[str, Any]:
    """The part of `results.json` that evaluated files determine; docs/data.md lists its fields.

    `seed` is that of the bootstrap. Raises InputError if the files do not hold the same tasks, samples and
    turns.
    """
    reference, cobalt = Arm(found.reference), Arm(found.cobalt)
    controls = {name: Arm(path) for name, path in found.controls.items()}
    arms = {"reference": reference, "cobalt": cobalt} | controls
    refuse_unlike([arm.run for arm in arms.values()])
    shapes = {(arm.run.samples, arm.run.turns) for arm in arms.values()}
    if len(shapes) > 1:
        raise InputError(f"the evaluations differ in samples or turns: {sorted(shapes)}")
    by_turn = {name: arms[name].pass_at_1() for name in ("reference", "cobalt")}
    gains = [arm_gain(cobalt, reference, turn=turn, seed=seed) for turn in range(reference.run.turns)]
    last = gains[-1]
    rows = {name: _control(arm, reference, cobalt, seed) for name, arm in controls.items()}
    if found.best_of_turns is not None:
        rows["best_of_turns"] = _best_of(found.best_of_turns, reference, cobalt, seed)
    return {
        "tasks": len(reference.groups),
        "n_structures": len(set(reference.groups.values())),
        "samples_per_task": reference.run.samples,
        "turns": reference.run.turns,
        **{key: {name: each[key] for name, each in by_turn.items()} for key in by_turn["cobalt"]},
        "final_turn_gain": {"points": last["points"], "ci95": last["ci95"], "paired_by": "task"},
        "final_turn_gain_by_structure": {
            "points": last["points"],
            "ci95": last["ci95_by_structure"],
            "paired_by": "task",
            "resampled_by": "structure",
        },
        "gain_by_turn": gains,
        "slots": by_slot(cobalt, reference, slots, seed=seed),
        "controls": rows,
        "behaviour": {name: arm.behaviour() for name, arm in arms.items()},
        "examples": examples(found.reference, found.cobalt),
    }


def by_slot(new: Arm, old: Arm, names: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Last-turn gain by what the statement leaves vague.

    Two rows per slot: `also` (vague in the task, perhaps with others) and `only` (nothing else is), then the
    tasks in which nothing is vague. Each: `slot`, `kind`, `n`, `before`, `after` (fractions), `points`,
    `ci95`, `ci95_by_structure`; a kind without tasks is left out.
    """
    vague = {key: each.slots for key, each in old.run.outcomes.items()}
    kinds: list[tuple[str, str, list[TaskId]]] = []
    for name in names:
        kinds.append((name, "also", [key for key in vague if name in vague[key]]))
        kinds.append((name, "only", [key for key in vague if vague[key] == {name}]))
    kinds.append(("nothing", "only", [key for key in vague if not vague[key]]))
    rows = []
    for slot, kind, ids in kinds:
        if ids:
            before, after = (sum(arm.rates(-1, ids)) / len(ids) for arm in (old, new))
            row = {"slot": slot, "kind": kind, "before": before, "after": after}
            rows.append(row | arm_gain(new, old, ids=ids, seed=seed))
    return rows


def _control(arm: Arm, reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    """Pass@1 by turn, last turn minus the reference's, what Cobalt has more, gain since its own turn 1."""
    return arm.pass_at_1() | {
        "minus_reference": arm_gain(arm, reference, seed=seed),
        "cobalt_minus": arm_gain(cobalt, arm, seed=seed),
        "since_turn_1": arm_gain(arm, arm, old_turn=0, seed=seed),
    }


def _best_of(rates: Mapping[TaskId, float], reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    ids, groups = list(reference.groups), list(reference.groups.values())
    missing = set(ids) ^ set(rates)
    if missing:
        raise InputError(f"best of turns: {len(missing)} tasks are not those of {reference.run.path}")
    mine = [rates[key] for key in ids]
    by_task, by_structure = (clustered_mean([[rate] for rate in mine], each) for each in (None, groups))
    return {
        "pass_at_1": [by_task.mean],
        "ci95": [bounds(by_task)],
        "ci95_by_structure": [bounds(by_structure)],
        "minus_reference": gain(mine, reference.rates(-1, ids), groups, seed=seed),
        "cobalt_minus": gain(cobalt.rates(-1, ids), mine, groups, seed=seed),
    }


def read_results(path: Path) -> dict[str, Any]:
    """Read a `results.json`. Raises InputError if it cannot be read or has another schema."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read results from {path}: {error}") from None
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a results file of schema {SCHEMA}")
    return results
