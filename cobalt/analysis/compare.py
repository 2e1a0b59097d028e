"""Paired comparison of evaluated runs: differences per task with intervals, tests and their power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cobalt.analysis.outcomes import task_rates
from cobalt.analysis.runs import EvaluatedRun, TaskId, refuse_unlike
from cobalt.errors import InputError
from cobalt.stats import detectable_difference, holm, paired_bootstrap, paired_permutation

SCHEMA = 1
RESAMPLES, PERMUTATIONS, POWER = 10_000, 20_000, 0.8


def compare(
    runs: Sequence[EvaluatedRun],
    *,
    turns: Sequence[int] | None = None,
    all_pairs: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
) -> dict[str, Any]:
    """Every run against the first (or, with `all_pairs`, every pair), at each turn that all have.

    Returns `runs`, `tasks`, `turns`, `samples`, `tests` (how many tests Holm's correction is over), `notes`
    and `comparisons`, each with `a`, `b`, `turn` (from 0), `pass_at_1` of both (fractions), `points` (b - a,
    percentage points: the mean over tasks of the difference of a task's shares of right programs), `se` and
    `ci95` (percentile bootstrap over tasks), `p` (sign-flip permutation over tasks), `p_holm`,
    `detectable_points` (true difference found with 80 % power at 5 %), `better`, `worse`, `equal` (tasks) and
    `n`; where rows have a `group`, `ci95_group`, `p_group`, `p_group_holm` and `detectable_points_group`
    resample and flip whole groups. Tasks in which a run has no verdict are left out of a turn, and counted.

    `turns` picks turns (from 0). Raises InputError for fewer than two runs, runs whose tasks or tests
    differ, or a turn that is not there.
    """
    if len(runs) < 2:
        raise InputError("a comparison needs at least two runs")
    notes = refuse_unlike(runs)
    common = min(run.turns for run in runs)
    chosen = list(range(common)) if turns is None else list(turns)
    missing = [turn for turn in chosen if not 0 <= turn < common]
    if missing:
        raise InputError(f"turn {missing[0]} is not in all runs: they have turns 0 to {common - 1}")
    pairs = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :] if all_pairs or i == 0]
    faults = sum(run.infra_errors for run in runs)
    if faults:
        notes.append(f"{faults} programs have no verdict (masked)")
    rows = [
        _row(a, b, turn, seed=seed, resamples=resamples, permutations=permutations)
        for a, b in pairs
        for turn in chosen
    ]
    for name in ("p", "p_group"):
        known = [row for row in rows if row.get(name) is not None]
        for row, adjusted in zip(known, holm([row[name] for row in known]), strict=True):
            row[f"{name}_holm"] = adjusted
    return {
        "schema": SCHEMA,
        "runs": [{"name": run.name, "path": str(run.path), "samples": run.samples} for run in runs],
        "tasks": len(runs[0].outcomes),
        "groups": len({each.group for each in runs[0].outcomes.values()}) if runs[0].grouped else None,
        "turns": chosen,
        "tests": len(rows),
        "power": POWER,
        "seed": seed,
        "resamples": resamples,
        "permutations": permutations,
        "notes": notes,
        "comparisons": rows,
    }


def _row(a: EvaluatedRun, b: EvaluatedRun, turn: int, **how: int) -> dict[str, Any]:
    rates = [task_rates(run.outcomes.values(), turn) for run in (a, b)]
    both: list[TaskId] = [key for key in rates[0] if key in rates[1]]
    row: dict[str, Any] = {"a": a.name, "b": b.name, "turn": turn, "n": len(both)}
    row["left_out"] = len(a.outcomes) - len(both)
    if not both:
        return row | {"pass_at_1": [None, None], "points": None, "ci95": [None, None], "p": None}
    old, new = ([each[key] for key in both] for each in rates)
    differences = [y - x for x, y in zip(old, new, strict=True)]
    row |= {
        "pass_at_1": [sum(old) / len(old), sum(new) / len(new)],
        "better": sum(d > 0 for d in differences),
        "worse": sum(d < 0 for d in differences),
        "equal": sum(d == 0 for d in differences),
    }
    row |= _tested(old, new, None, "", **how)
    if a.grouped:
        row |= _tested(old, new, [a.outcomes[key].group for key in both], "_group", **how)
    return row


def _tested(
    old: list[float], new: list[float], groups: list[Any] | None, suffix: str,
    *, seed: int, resamples: int, permutations: int,
) -> dict[str, Any]:  # fmt: skip
    interval = paired_bootstrap(new, old, groups, n=resamples, seed=seed)
    clusters = len(old) if groups is None else len(set(groups))
    enough = clusters > 1
    found = {
        f"se{suffix}": 100 * interval.se if enough else None,
        f"ci95{suffix}": [100 * interval.lo, 100 * interval.hi] if enough else [None, None],
        f"p{suffix}": paired_permutation(new, old, groups, n=permutations, seed=seed) if enough else None,
        f"detectable_points{suffix}": _number(100 * detectable_difference(interval.se, clusters, POWER)),
    }
    return found if groups is not None else {"points": 100 * interval.mean} | found


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
