"""Statistics over evaluated trajectories: Pass@1 and Pass@k by turn, intervals, transitions, gaps, counts.

All rates are fractions in [0, 1]. Axes are [turn] unless said otherwise. A value that is not defined is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cobalt.analysis.outcomes import FUNCTIONAL, INFRA_ERROR, NO_CODE, STDIN, Outcomes, task_rates
from cobalt.errors import InputError
from cobalt.stats import Interval, clustered_mean, paired_bootstrap, pass_at_k

# Of LiveCodeBench, TACO and APPS.
_DIFFICULTIES = (
    "introductory",
    "easy",
    "medium",
    "interview",
    "medium_hard",
    "hard",
    "competition",
    "very_hard",
)


def summarize(outcomes: Sequence[Outcomes], *, seed: int = 0) -> dict[str, Any]:
    """All statistics of an evaluation, as plain JSON values.

    `pass_at_1` (mean over tasks of the share of right programs), `se` and `ci95` clustered by task and
    `ci95_group` by the rows' `group` where all have one; `pass_at_k` (unbiased, arXiv 2107.03374; None where
    a task has fewer than k samples) with `pass_at_k_se` and `pass_at_k_ci95`; `mean_pass_rate`;
    `solved_by_turn` (share of trajectories with a right program so far); `relative_change_percent` and
    `gain` (paired bootstrap over tasks, in points) against the first turn; `transitions`; `no_code`;
    `public` with `gap` = public minus hidden share of programs that pass everything; `by_difficulty` and
    `by_subset` (functional and stdin tasks); `by_turn` (tasks and programs with a verdict, programs missing);
    `infra_errors` and `counts`. Programs without a verdict are masked everywhere. `seed` is that of the
    bootstrap. Raises InputError for no rows.
    """
    if not outcomes:
        raise InputError("there are no evaluated rows to summarise")
    turns = max(len(sample) for each in outcomes for sample in each.rates)
    samples = {len(each.rates) for each in outcomes}
    most = max(samples)
    rates = [mean_by_task(outcomes, turn) for turn in range(turns)]
    pass_at_1 = [_number(interval.mean) if interval else None for interval in rates]
    first = pass_at_1[0] if pass_at_1 else None
    grouped = len({each.group for each in outcomes}) > 1 and all(each.group is not None for each in outcomes)
    by_group = [mean_by_task(outcomes, turn, grouped=True) for turn in range(turns)] if grouped else None
    at_k = _pass_at_k(outcomes, turns)
    return {
        "tasks": len(outcomes),
        "samples_per_task": samples.pop() if len(samples) == 1 else None,
        "turns": turns,
        "pass_at_1": pass_at_1,
        "ci95": [_bounds(interval) for interval in rates],
        "se": [_number(interval.se) if interval else None for interval in rates],
        "ci95_group": [_bounds(interval) for interval in by_group] if by_group else None,
        "se_group": [_number(each.se) if each else None for each in by_group] if by_group else None,
        "groups": len({each.group for each in outcomes}) if grouped else None,
        "pass_at_k": _each(at_k, lambda interval: interval.mean),
        "pass_at_k_se": _each(at_k, lambda interval: _number(interval.se)),
        "pass_at_k_ci95": {k: [_bounds(interval) for interval in row] for k, row in at_k.items()},
        "mean_pass_rate": [_mean(_flat(outcomes, turn)) for turn in range(turns)],
        "solved_by_turn": _solved_by_turn(outcomes, turns),
        "relative_change_percent": [
            None if rate is None or not first else 100 * (rate - first) / first for rate in pass_at_1
        ],
        "gain": [_gain(outcomes, turn, seed) for turn in range(turns)],
        "transitions": [_transition(outcomes, turn) for turn in range(turns - 1)],
        "no_code": [_mean([float(s == NO_CODE) for s in _statuses(outcomes, turn)]) for turn in range(turns)],
        "public": _public(outcomes, turns, pass_at_1),
        "by_difficulty": _parts(outcomes, turns, lambda each: each.difficulty, _easiest_first(outcomes)),
        "by_subset": _parts(outcomes, turns, lambda each: each.subset, (FUNCTIONAL, STDIN)),
        "by_turn": [_present(outcomes, turn) for turn in range(turns)],
        "infra_errors": sum(each.infra_errors for each in outcomes),
        "tokens": {name: sum(each.tokens[name] for each in outcomes) for name in ("prompt", "completion")},
        "counts": {
            "programs": sum(sum(each.lengths) for each in outcomes),
            "missing_programs": sum(turns - len(sample) for each in outcomes for sample in each.rates),
            "missing_samples": sum(most - len(each.rates) for each in outcomes),
            "carried_forward": sum(each.carried for each in outcomes),
            "trajectories": sum(len(each.rates) for each in outcomes),
        },
    }  # fmt: skip


def report_lines(summary: dict[str, Any]) -> list[str]:
    """The two published lines, which people parse; the same in words, intervals, Pass@k and counts."""
    percent = [_percent(rate) for rate in summary["pass_at_1"]]
    change = ["n/a" if value is None else f"{value:+.2f}" for value in summary["relative_change_percent"]]
    size = f"{summary['tasks']} tasks, {summary['counts']['trajectories']} trajectories"
    lines = [
        *_published_lines(summary["pass_at_1"]),
        "Pass@1 per turn (%): " + " ".join(percent),
        "Change against turn 0 (%): " + " ".join(change),
    ]
    for name, title in (("ci95", "task"), ("ci95_group", "group")):
        if summary.get(name):
            bounds = [
                "[n/a]" if None in pair else f"[{_percent(pair[0])}, {_percent(pair[1])}]"
                for pair in summary[name]
            ]
            lines.append(f"95 % interval, clustered by {title}: " + " ".join(bounds))
    for k, rates in summary["pass_at_k"].items():
        if k != "1":
            lines.append(f"Pass@{k} per turn (%): " + " ".join(map(_percent, rates)))
    programs, without = summary["counts"]["programs"], summary["infra_errors"]
    lines.append(f"{size}, {programs} programs, {without} without a verdict (masked)")
    return lines


def _published_lines(rates: Sequence[float | None]) -> list[str]:
    """As the published script prints them: Python lists, rounded, `nan` or `inf` where turn 0 is zero."""
    known = np.array([math.nan if rate is None else rate for rate in rates])
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = (known - known[0]) / known[0]
    return [
        f"Hidden Test Cases Pass @ 1: {(known * 100).round(2).tolist()}",
        f"Relative Changes: {(changes * 100).round(2).tolist()}",
    ]


def _percent(rate: float | None) -> str:
    return "n/a" if rate is None else f"{100 * rate:.2f}"


def mean_by_task(outcomes: Sequence[Outcomes], turn: int, grouped: bool = False) -> Interval | None:
    """Pass@1 of a turn over the tasks that have a verdict; None if none has. `grouped`: by `group`."""
    kept = [(right, each.group) for each in outcomes if (right := each.right(turn))]
    if not kept:
        return None
    return clustered_mean(
        [[float(r) for r in right] for right, _ in kept], [g for _, g in kept] if grouped else None
    )


def _pass_at_k(outcomes: Sequence[Outcomes], turns: int) -> dict[str, list[Interval | None]]:
    """For k = 1, 2, 4, ... and the number of samples."""
    most = max(len(each.rates) for each in outcomes)
    ks = sorted({2**power for power in range(most.bit_length())} | {most})
    table: dict[str, list[Interval | None]] = {}
    for k in ks:
        row: list[Interval | None] = []
        for turn in range(turns):
            rights = [right for each in outcomes if (right := each.right(turn))]
            values = [pass_at_k(len(right), sum(right), k) for right in rights]
            defined = bool(values) and not any(map(math.isnan, values))
            row.append(clustered_mean([[value] for value in values]) if defined else None)
        table[str(k)] = row
    return table


def _each(table: dict[str, list[Interval | None]], of: Callable[[Interval], Any]) -> dict[str, list[Any]]:
    return {k: [None if interval is None else of(interval) for interval in row] for k, row in table.items()}


def _gain(outcomes: Sequence[Outcomes], turn: int, seed: int) -> dict[str, Any] | None:
    first, now = task_rates(outcomes, 0), task_rates(outcomes, turn)
    both = [key for key in first if key in now]
    if not both:
        return None
    interval = paired_bootstrap([now[key] for key in both], [first[key] for key in both], seed=seed)
    bounds = _bounds(interval)
    return {"points": 100 * interval.mean, "ci95": [None if b is None else 100 * b for b in bounds]}


def _transition(outcomes: Sequence[Outcomes], turn: int) -> dict[str, Any]:
    """From `turn` to the next: how many right programs became wrong, and wrong ones right."""
    pairs = [
        (sample[turn] == 1, sample[turn + 1] == 1)
        for each in outcomes for sample in each.rates
        if len(sample) > turn + 1 and sample[turn] is not None and sample[turn + 1] is not None
    ]  # fmt: skip
    right, wrong = sum(a for a, _ in pairs), sum(not a for a, _ in pairs)
    broken, fixed = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    return {
        "from": turn, "to": turn + 1,
        "right_to_wrong": {"count": broken, "of": right, "rate": broken / right if right else None},
        "wrong_to_right": {"count": fixed, "of": wrong, "rate": fixed / wrong if wrong else None},
    }  # fmt: skip


def _solved_by_turn(outcomes: Sequence[Outcomes], turns: int) -> list[float | None]:
    samples = [sample for each in outcomes for sample in each.rates]
    return [
        _mean([float(1 in sample[: turn + 1]) for sample in samples if len(sample) > turn])
        for turn in range(turns)
    ]


def _public(
    outcomes: Sequence[Outcomes], turns: int, pass_at_1: list[float | None]
) -> dict[str, list[float | None]] | None:
    if any(each.public is None for each in outcomes):
        return None
    shares: list[float | None] = []
    for turn in range(turns):
        means = []
        for each in outcomes:
            rates = [
                sample[turn]
                for sample in each.public or []
                if turn < len(sample) and sample[turn] is not None
            ]
            if rates:
                means.append(sum(rate == 1 for rate in rates) / len(rates))
        shares.append(_mean(means))
    gaps = [None if a is None or b is None else a - b for a, b in zip(shares, pass_at_1, strict=True)]
    return {"pass_at_1": shares, "gap": gaps}


def _parts(
    outcomes: Sequence[Outcomes], turns: int, label: Callable[[Outcomes], str], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Pass@1 with intervals of the tasks of each label, those in `names` first."""
    found = {label(each) for each in outcomes}
    table: dict[str, Any] = {}
    for name in sorted(found, key=lambda name: (names.index(name) if name in names else len(names), name)):
        part = [each for each in outcomes if label(each) == name]
        means = [mean_by_task(part, turn) for turn in range(turns)]
        table[name] = {
            "tasks": len(part),
            "pass_at_1": [_number(mean.mean) if mean else None for mean in means],
            "ci95": [_bounds(mean) for mean in means],
        }
    return table


def _easiest_first(outcomes: Sequence[Outcomes]) -> list[str]:
    """The labels of difficulty whose order is known, as they are spelled here."""
    found = {each.difficulty for each in outcomes}
    known = [name for name in found if name.lower().replace(" ", "_") in _DIFFICULTIES]
    return sorted(known, key=lambda name: _DIFFICULTIES.index(name.lower().replace(" ", "_")))


def _present(outcomes: Sequence[Outcomes], turn: int) -> dict[str, int]:
    judged = [len(each.right(turn)) for each in outcomes]
    return {
        "tasks": sum(count > 0 for count in judged),
        "programs": sum(judged),
        "missing": sum(len(sample) <= turn for each in outcomes for sample in each.rates),
    }


def _flat(outcomes: Sequence[Outcomes], turn: int) -> list[float]:
    """Mean rate of each task at a turn."""
    means = []
    for each in outcomes:
        rates = [sample[turn] for sample in each.rates if turn < len(sample)]
        known = [rate for rate in rates if rate is not None]
        if known:
            means.append(sum(known) / len(known))
    return means


def _statuses(outcomes: Sequence[Outcomes], turn: int) -> list[str]:
    found = (sample[turn] for each in outcomes for sample in each.status if turn < len(sample))
    return [status for status in found if status is not None and status != INFRA_ERROR]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _bounds(interval: Interval | None) -> list[float | None]:
    return [None, None] if interval is None else [_number(interval.lo), _number(interval.hi)]
