"""Statistics over evaluated trajectories: Pass@1 and Pass@k by turn, intervals, transitions, gaps, counts.

All rates are fractions in [0, 1]. Axes are [turn] unless said otherwise. A value that is not defined is None.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cobalt.errors import InputError
from cobalt.records import Row, require, row_id
from cobalt.stats import Interval, clustered_mean, paired_bootstrap, pass_at_k

NO_CODE, INFRA_ERROR = "no_code", "infra_error"


@dataclass(frozen=True)
class Outcomes:
    """What statistics need of one evaluated row.

    `rates` and `public` are shares of hidden and public tests passed, [samples][turns], None for a program
    without a verdict or not there; `status` is the suite status, same axes. `lengths` [samples]: turns
    there were before trajectories that stopped at success were carried forward.
    """

    id: str | int
    group: Hashable
    difficulty: str
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
        rates = [list(sample) for sample in require(row, "all_pass_rates", list, where)]
        status = [
            list(sample) for sample in row.get("exec_status") or [[None] * len(sample) for sample in rates]
        ]
        for sample in rates:
            for rate in sample:
                if rate is not None and not (isinstance(rate, int | float) and 0 <= rate <= 1):
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
            row_id(row, where), _hashable(row.get("group")), str(row.get("difficulty", "")), rates, public,
            status, lengths, carried, infra_errors, _tokens(row.get("usage")),
        )  # fmt: skip

    def right(self, turn: int) -> list[bool]:
        """Whether each program of a turn passed every hidden test; those without a verdict are left out."""
        rates = (sample[turn] for sample in self.rates if turn < len(sample))
        return [rate == 1 for rate in rates if rate is not None]


def summarize(outcomes: Sequence[Outcomes], *, seed: int = 0) -> dict[str, Any]:
    """All statistics of an evaluation, as plain JSON values.

    `pass_at_1` (mean over tasks of the share of right programs), `ci95` clustered by task and `ci95_group`
    by the rows' `group` where all have one; `pass_at_k` (unbiased, arXiv 2107.03374; None where a task has
    fewer than k samples); `mean_pass_rate`; `solved_by_turn` (share of trajectories with a right program so
    far); `relative_change_percent` and `gain` (paired bootstrap over tasks, in points) against the first
    turn; `transitions`; `no_code`; `public` with `gap` = public minus hidden share of programs that pass
    everything; `by_difficulty`; `infra_errors` and `counts`. Programs without a verdict are masked
    everywhere. Raises InputError for no rows.
    """
    if not outcomes:
        raise InputError("there are no evaluated rows to summarise")
    turns = max(len(sample) for each in outcomes for sample in each.rates)
    samples = {len(each.rates) for each in outcomes}
    rates = [_mean_by_task(outcomes, turn) for turn in range(turns)]
    pass_at_1 = [_number(interval.mean) if interval else None for interval in rates]
    first = pass_at_1[0] if pass_at_1 else None
    grouped = len({each.group for each in outcomes}) > 1 and all(each.group is not None for each in outcomes)
    by_group = [_mean_by_task(outcomes, turn, grouped=True) for turn in range(turns)] if grouped else None
    return {
        "tasks": len(outcomes),
        "samples_per_task": samples.pop() if len(samples) == 1 else None,
        "turns": turns,
        "pass_at_1": pass_at_1,
        "ci95": [_bounds(interval) for interval in rates],
        "se": [_number(interval.se) if interval else None for interval in rates],
        "ci95_group": [_bounds(interval) for interval in by_group] if by_group else None,
        "groups": len({each.group for each in outcomes}) if grouped else None,
        "pass_at_k": _pass_at_k(outcomes, turns),
        "mean_pass_rate": [_mean(_flat(outcomes, turn)) for turn in range(turns)],
        "solved_by_turn": _solved_by_turn(outcomes, turns),
        "relative_change_percent": [
            None if rate is None or not first else 100 * (rate - first) / first for rate in pass_at_1
        ],
        "gain": [_gain(outcomes, turn, seed) for turn in range(turns)],
        "transitions": [_transition(outcomes, turn) for turn in range(turns - 1)],
        "no_code": [_mean([float(s == NO_CODE) for s in _statuses(outcomes, turn)]) for turn in range(turns)],
        "public": _public(outcomes, turns, pass_at_1),
        "by_difficulty": _by_difficulty(outcomes, turns),
        "infra_errors": sum(each.infra_errors for each in outcomes),
        "tokens": {name: sum(each.tokens[name] for each in outcomes) for name in ("prompt", "completion")},
        "counts": {
            "programs": sum(sum(each.lengths) for each in outcomes),
            "missing_programs": sum(turns - len(sample) for each in outcomes for sample in each.rates),
            "carried_forward": sum(each.carried for each in outcomes),
            "trajectories": sum(len(each.rates) for each in outcomes),
        },
    }  # fmt: skip


def task_rates(outcomes: Iterable[Outcomes], turn: int) -> dict[str | int, float]:
    """Share of right programs of each task at a turn, for paired comparisons; tasks without a verdict are
    left out.
    """
    return {each.id: sum(right) / len(right) for each in outcomes if (right := each.right(turn))}


def _mean_by_task(outcomes: Sequence[Outcomes], turn: int, grouped: bool = False) -> Interval | None:
    kept = [(right, each.group) for each in outcomes if (right := each.right(turn))]
    if not kept:
        return None
    return clustered_mean(
        [[float(r) for r in right] for right, _ in kept], [g for _, g in kept] if grouped else None
    )


def _pass_at_k(outcomes: Sequence[Outcomes], turns: int) -> dict[str, list[float | None]]:
    most = max(len(each.rates) for each in outcomes)
    table: dict[str, list[float | None]] = {}
    k = 1
    while k <= most:
        row: list[float | None] = []
        for turn in range(turns):
            rights = [right for each in outcomes if (right := each.right(turn))]
            values = [pass_at_k(len(right), sum(right), k) for right in rights]
            row.append(_mean(values) if values and not any(map(math.isnan, values)) else None)
        table[str(k)] = row
        k *= 2
    return table


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


def _by_difficulty(outcomes: Sequence[Outcomes], turns: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name in sorted({each.difficulty for each in outcomes}):
        part = [each for each in outcomes if each.difficulty == name]
        means = [_mean_by_task(part, turn) for turn in range(turns)]
        table[name] = {"tasks": len(part), "pass_at_1": [_number(m.mean) if m else None for m in means]}
    return table


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


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else repr(value)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _bounds(interval: Interval | None) -> list[float | None]:
    return [None, None] if interval is None else [_number(interval.lo), _number(interval.hi)]
