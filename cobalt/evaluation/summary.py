"""Statistics over evaluated trajectories: Pass@1 and Pass@k by turn, intervals, transitions, gaps, counts.

All rates are fractions in [0, 1]. Axes are [turn] unless said otherwise. A value that is not defined is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import (
    FUNCTIONAL,
    INFRA_ERROR,
    NO_CODE,
    STDIN,
    Outcomes,
    bounds,
    groups_of,
    task_rates,
)
from cobalt.evaluation.format import interval, percent, too_few
from cobalt.stats import SEED, Interval, clustered_mean, paired_bootstrap, pass_at_k

# Of LiveCodeBench, TACO and APPS, easiest first.
_DIFFICULTIES = (
    "introductory", "easy", "medium", "interview", "medium_hard", "hard", "competition", "very_hard",
)  # fmt: skip


def summarize(outcomes: Sequence[Outcomes], *, seed: int = SEED) -> dict[str, Any]:
    """All statistics of an evaluation, as plain JSON values.

    `pass_at_1` (mean over tasks of the share of right programs), `se` and `ci95` clustered by task and
    `ci95_group` by the rows' `group` where all have one; `pass_at_k` (unbiased, arXiv 2107.03374; None where
    a task has fewer than k samples) with `pass_at_k_ci95`; `mean_pass_rate`; `solved_by_turn` (share of
    trajectories with a right program so far); `relative_change_percent` and `gain` (paired bootstrap over
    tasks, in points) against the first turn; `transitions`; `no_code`; `public` with `gap` = public minus
    hidden share of programs that pass everything; `by_difficulty` and `by_subset` (functional and stdin
    tasks); `by_turn` (tasks and programs with a verdict, programs missing); `infra_errors` and `counts`.
    Programs without a verdict are masked everywhere. `seed` is that of the bootstrap. Raises InputError for
    no rows.
    """
    if not outcomes:
        raise InputError("there are no evaluated rows to summarise")
    samples = [sample for each in outcomes for sample in each.rates]
    turns = range(max(map(len, samples)))
    per_task = {len(each.rates) for each in outcomes}
    groups = groups_of(outcomes)
    rates = [_mean_by_task(outcomes, turn) for turn in turns]
    by_group = [_mean_by_task(outcomes, turn, grouped=True) for turn in turns] if groups else None
    at_k = _pass_at_k(outcomes, turns)
    pass_at_1 = [None if found is None else found.mean for found in rates]
    first = pass_at_1[0]
    return {
        "tasks": len(outcomes),
        "samples_per_task": max(per_task) if len(per_task) == 1 else None,
        "turns": len(turns),
        "pass_at_1": pass_at_1,
        "ci95": [bounds(found) for found in rates],
        "se": [_se(found) for found in rates],
        "ci95_group": by_group and [bounds(found) for found in by_group],
        "groups": groups,
        "pass_at_k": {k: [None if x is None else x.mean for x in row] for k, row in at_k.items()},
        "pass_at_k_ci95": {k: [bounds(found) for found in row] for k, row in at_k.items()},
        "mean_pass_rate": [_mean(_mean(_known(each.rates, turn)) for each in outcomes) for turn in turns],
        "solved_by_turn": [
            _mean(1 in sample[: turn + 1] for sample in samples if len(sample) > turn) for turn in turns
        ],
        "relative_change_percent": [
            None if rate is None or not first else 100 * (rate - first) / first for rate in pass_at_1
        ],
        "gain": [_gain(outcomes, turn, seed) for turn in turns],
        "transitions": [_transition(samples, turn) for turn in turns[:-1]],
        "no_code": [
            _mean(s == NO_CODE for each in outcomes for s in _known(each.status, turn) if s != INFRA_ERROR)
            for turn in turns
        ],
        "public": _public(outcomes, turns, pass_at_1),
        "by_difficulty": _parts(outcomes, turns, lambda each: each.difficulty, _difficulty),
        "by_subset": _parts(outcomes, turns, lambda each: each.subset, (FUNCTIONAL, STDIN).index),
        "by_turn": [_present(outcomes, turn) for turn in turns],
        "infra_errors": sum(each.infra_errors for each in outcomes),
        "tokens": {name: sum(each.tokens[name] for each in outcomes) for name in ("prompt", "completion")},
        "counts": _counts(outcomes, samples),
    }


def _counts(outcomes: Sequence[Outcomes], samples: Sequence[Sequence[Any]]) -> dict[str, int]:
    turns, most = max(map(len, samples)), max(len(each.rates) for each in outcomes)
    return {
        "programs": sum(sum(each.lengths) for each in outcomes),
        "missing_programs": sum(turns - len(sample) for sample in samples),
        "missing_samples": sum(most - len(each.rates) for each in outcomes),
        "carried_forward": sum(each.carried for each in outcomes),
        "trajectories": len(samples),
    }


def _mean_by_task(outcomes: Sequence[Outcomes], turn: int, grouped: bool = False) -> Interval | None:
    """Pass@1 of a turn over the tasks that have a verdict; None if none has. `grouped`: by `group`."""
    kept = [(right, each.group) for each in outcomes if (right := each.right(turn))]
    if not kept:
        return None
    return clustered_mean([right for right, _ in kept], [group for _, group in kept] if grouped else None)


def _pass_at_k(outcomes: Sequence[Outcomes], turns: range) -> dict[str, list[Interval | None]]:
    """For k = 1, 2, 4, ... and the number of samples."""
    most = max(len(each.rates) for each in outcomes)
    table: dict[str, list[Interval | None]] = {}
    for k in sorted({2**power for power in range(most.bit_length())} | {most}):
        row: list[Interval | None] = []
        for turn in turns:
            rights = [right for each in outcomes if (right := each.right(turn))]
            values = [pass_at_k(len(right), sum(right), k) for right in rights]
            defined = bool(values) and not any(map(math.isnan, values))
            row.append(clustered_mean([[value] for value in values]) if defined else None)
        table[str(k)] = row
    return table


def _gain(outcomes: Sequence[Outcomes], turn: int, seed: int) -> dict[str, Any] | None:
    first, now = task_rates(outcomes, 0), task_rates(outcomes, turn)
    both = [key for key in first if key in now]
    if not both:
        return None
    old, new = ([rates[key] for key in both] for rates in (first, now))
    found = paired_bootstrap(new, old, seed=seed)
    # The first turn differs from itself by nothing, which is no estimate.
    return {"points": 100 * found.mean, "ci95": bounds(found if turn else None, 100)}


def _transition(samples: Sequence[Sequence[float | None]], turn: int) -> dict[str, Any]:
    """From `turn` to the next: how many right programs became wrong, and wrong ones right."""
    steps = [sample[turn : turn + 2] for sample in samples if len(sample) > turn + 1]
    pairs = [(old == 1, new == 1) for old, new in steps if old is not None and new is not None]
    right = sum(old for old, _ in pairs)
    return {
        "from": turn,
        "to": turn + 1,
        "right_to_wrong": _share(pairs.count((True, False)), right),
        "wrong_to_right": _share(pairs.count((False, True)), len(pairs) - right),
    }


def _share(count: int, of: int) -> dict[str, Any]:
    return {"count": count, "of": of, "rate": count / of if of else None}


def pooled_steps(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`right_to_wrong` and `wrong_to_right` over all pairs of consecutive programs of a summary."""
    return {
        name: _share(*(sum(each[name][part] for each in summary["transitions"]) for part in ("count", "of")))
        for name in ("right_to_wrong", "wrong_to_right")
    }


def _public(outcomes: Sequence[Outcomes], turns: range, hidden: list[float | None]) -> dict[str, Any] | None:
    tables = [each.public for each in outcomes if each.public is not None]
    if len(tables) < len(outcomes):
        return None
    shares = [_mean(_mean(r == 1 for r in _known(table, turn)) for table in tables) for turn in turns]
    gaps = [None if a is None or b is None else a - b for a, b in zip(shares, hidden, strict=True)]
    return {"pass_at_1": shares, "gap": gaps}


def _parts(
    outcomes: Sequence[Outcomes], turns: range, label: Callable[[Outcomes], str], rank: Callable[[str], int]
) -> dict[str, Any]:
    """Pass@1 with intervals of the tasks of each label, in the order of `rank`."""
    table: dict[str, Any] = {}
    for name in sorted({label(each) for each in outcomes}, key=lambda name: (rank(name), name)):
        part = [each for each in outcomes if label(each) == name]
        means = [_mean_by_task(part, turn) for turn in turns]
        table[name] = {
            "tasks": len(part),
            "pass_at_1": [None if mean is None else mean.mean for mean in means],
            "ci95": [bounds(mean) for mean in means],
        }
    return table


def _difficulty(name: str) -> int:
    plain = name.lower().replace(" ", "_")
    return _DIFFICULTIES.index(plain) if plain in _DIFFICULTIES else len(_DIFFICULTIES)


def _present(outcomes: Sequence[Outcomes], turn: int) -> dict[str, int]:
    judged = [len(each.right(turn)) for each in outcomes]
    return {
        "tasks": sum(count > 0 for count in judged),
        "programs": sum(judged),
        "missing": sum(len(sample) <= turn for each in outcomes for sample in each.rates),
    }


def _known(table: Iterable[Sequence[Any]], turn: int) -> list[Any]:
    """What is known at a turn, over the samples of a task."""
    return [sample[turn] for sample in table if turn < len(sample) and sample[turn] is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _se(found: Interval | None) -> float | None:
    return None if found is None or math.isnan(found.se) else found.se


def report_lines(summary: dict[str, Any]) -> list[str]:
    """The two published lines, which people parse; the same in words, intervals, Pass@k and counts."""
    rates = summary["pass_at_1"]
    change = ["n/a" if value is None else f"{value:+.2f}" for value in summary["relative_change_percent"]]
    lines = [*_published_lines(rates), _line("Pass@1 per turn (%)", rates)]
    lines.append("Change against turn 1 (%): " + " ".join(change))
    for name, title in (("ci95", "task"), ("ci95_group", "group")):
        if summary.get(name):
            ends = [interval(pair, 100, digits=2) for pair in summary[name]]
            lines.append(f"95 % interval, clustered by {title}: " + " ".join(ends))
    lines += [_line(f"Pass@{k} per turn (%)", row) for k, row in summary["pass_at_k"].items() if k != "1"]
    lines += too_few(summary["tasks"], summary["groups"])
    counts = summary["counts"]
    size = f"{summary['tasks']} tasks, {counts['trajectories']} trajectories, {counts['programs']} programs"
    return [*lines, f"{size}, {summary['infra_errors']} without a verdict (masked)"]


def _line(title: str, rates: Sequence[float | None]) -> str:
    return f"{title}: " + " ".join(percent(rate, 2) for rate in rates)


def _published_lines(rates: Sequence[float | None]) -> list[str]:
    """As the published script prints them: Python lists, rounded, `nan` or `inf` where turn 0 is zero."""
    known = np.array([math.nan if rate is None else rate for rate in rates])
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = (known - known[0]) / known[0]
    return [
        f"Hidden Test Cases Pass @ 1: {(known * 100).round(2).tolist()}",
        f"Relative Changes: {(changes * 100).round(2).tolist()}",
    ]
