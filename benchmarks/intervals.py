"""Simulate how often 95 % intervals of rates and of paired differences hold the truth.

python benchmarks/intervals.py [--runs N] [--seed N] [--tasks N ...] [--trainings]

A simulated benchmark draws for every task its chance of being solved, and its completions by that chance; the
truth is the mean over all tasks that there could be. Beside the intervals of `cobalt.stats` stand Student's t
over tasks and the percentile bootstrap on the same benchmarks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cobalt import stats
from cobalt.cli import parser, positive_int, run_main

SIZES = (3, 5, 10, 20, 50, 100)
RATES = (0.02, 0.1, 0.5, 0.98)
ALIKE = 0.3  # correlation of two completions of a task
GROUP = 5  # tasks of a group share a chance, where there are groups
GAIN = 0.4  # the difference whose finding is counted

Draw = Callable[[np.random.Generator, int], Any]  # tasks -> a value per task


class Scenario(NamedTuple):
    """What is drawn, what is true of it, and in which limits its values lie. `groups`: `tasks` are groups."""

    name: str
    truth: float
    limits: tuple[float, float]
    draw: Draw
    groups: bool = False


def _chances(rng: np.random.Generator, rate: float, tasks: int, alike: float = ALIKE) -> Any:
    both = 1 / alike - 1
    return rng.beta(rate * both, (1 - rate) * both, tasks)


def _rate(rng: np.random.Generator, tasks: int, *, rate: float, samples: int, group: int = 1) -> Any:
    return rng.binomial(samples, np.repeat(_chances(rng, rate, tasks), group)) / samples


def _difference(rng: np.random.Generator, tasks: int, *, rate: float, samples: int, gain: float) -> Any:
    """Of the tasks a share `gain` is solved always after training, the others as often as before."""
    old = _chances(rng, rate, tasks)
    new = np.where(rng.random(tasks) < gain, 1.0, old)
    return (rng.binomial(samples, new) - rng.binomial(samples, old)) / samples


def scenarios() -> Iterator[Scenario]:
    """Rates near 0 and 1 and between; differences of no, some and many tasks; 1 and 8 completions."""
    for samples in (1, 8):
        for rate in RATES:
            how = functools.partial(_rate, rate=rate, samples=samples)
            yield Scenario(f"rate {rate}, {samples} a task", rate, (0, 1), how)
        grouped = functools.partial(_rate, rate=0.1, samples=samples, group=GROUP)
        yield Scenario(f"rate 0.1, {samples} a task, groups", 0.1, (0, 1), grouped, True)
        for rate in (0.02, 0.5):
            for gain in (0.0, 0.1, GAIN):
                how = functools.partial(_difference, rate=rate, samples=samples, gain=gain)
                name = f"difference {gain} of {rate}, {samples} a task"
                yield Scenario(name, gain * (1 - rate), (-1, 1), how)


def ours(values: Any, limits: tuple[float, float], groups: list[int] | None) -> tuple[float, float]:
    """The interval that every door prints."""
    if limits[0] == 0:
        found = stats.clustered_mean(values[:, None].tolist(), groups)
    else:
        found = stats.paired_bootstrap(np.maximum(values, 0), np.maximum(-values, 0), groups)
    return found.lo, found.hi


def students_t(values: Any, limits: tuple[float, float], groups: list[int] | None) -> tuple[float, float]:
    """Over tasks, or over means of groups, which are of one size here."""
    means = values if groups is None else values.reshape(-1, GROUP).mean(axis=1)
    half = stats.t_quantile(0.975, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    return means.mean() - half, means.mean() + half


def percentile(values: Any, limits: tuple[float, float], groups: list[int] | None) -> tuple[float, float]:
    """Of 2,000 resamples with replacement."""
    means = values if groups is None else values.reshape(-1, GROUP).mean(axis=1)
    lo, hi = np.quantile(_drawn(len(means)) @ means, (0.025, 0.975))
    return lo, hi


@functools.lru_cache(maxsize=1)
def _drawn(count: int) -> Any:
    return np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=2000) / count


METHODS = {"ours": ours, "t": students_t, "percentile": percentile}


def simulate(
    each: Scenario, tasks: int, runs: int, seed: int, method: str = "ours"
) -> tuple[float, float, float]:
    """Shares of intervals that hold the truth and that exclude 0, and their mean width. Below the least
    number of tasks too, of which the doors say nothing.
    """
    rng, least = np.random.default_rng(seed), stats.MIN_CLUSTERS
    stats.MIN_CLUSTERS = 2
    try:
        groups = [number // GROUP for number in range(tasks * GROUP)] if each.groups else None
        ends = np.array([METHODS[method](each.draw(rng, tasks), each.limits, groups) for _ in range(runs)])
    finally:
        stats.MIN_CLUSTERS = least
    slack = 1e-9  # of rounding, where a bound is the truth
    held = (ends[:, 0] <= each.truth + slack) & (ends[:, 1] >= each.truth - slack)
    found = (ends[:, 0] > slack) | (ends[:, 1] < -slack)
    return float(held.mean()), float(found.mean()), float((ends[:, 1] - ends[:, 0]).mean())


def table(sizes: list[int], runs: int, seed: int) -> Iterator[str]:
    """Lines of a Markdown table, by kind of figure and number of tasks."""
    yield "| of | tasks | mean | least | in | mean width | t, least | percentile, least | gain found |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|---:|"
    for kind, unit in (("rate", 100), ("difference", 200)):
        for tasks in sizes:
            chosen = [each for each in scenarios() if each.name.startswith(kind)]
            found = {name: [simulate(each, tasks, runs, seed, name) for each in chosen] for name in METHODS}
            held = [each[0] for each in found["ours"]]
            width = 100 * sum(each[2] for each in found["ours"]) / len(held)
            others = " | ".join(f"{100 * min(e[0] for e in found[name]):.1f}" for name in ("t", "percentile"))
            big = [
                f[1] for f, each in zip(found["ours"], chosen, strict=True) if f" {GAIN} of 0.02" in each.name
            ]
            power = f"{100 * min(big):.0f} %" if big else ""
            yield (
                f"| {kind} | {tasks} | {100 * sum(held) / len(held):.1f} | {100 * min(held):.1f} | "
                f"{chosen[held.index(min(held))].name} | {width:.0f} of {unit} | {others} | {power} |"
            )


@dataclass(frozen=True)
class Crossed:
    """Trainings by tasks: a training solves a share `gain` (deviation over trainings `spread`) of what its
    reference leaves unsolved, of which share `own` is chosen by the training and not by the task.
    """

    gain: float
    spread: float
    own: float
    rate: float = 0.3

    def draw(self, rng: np.random.Generator, seeds: int, tasks: int) -> tuple[Any, Any]:
        """Rates of a training [seeds][tasks] (one dialogue) and of the reference [1][tasks] (four)."""
        old = _chances(rng, self.rate, tasks)
        shares = np.clip(rng.normal(self.gain, self.spread, seeds), 0, 1)[:, None]
        chosen = np.where(
            rng.random((seeds, tasks)) < self.own, rng.random((seeds, tasks)), rng.random(tasks)
        )
        new = np.where(chosen < shares, 1.0, old)
        return rng.binomial(1, new).astype(float), rng.binomial(4, old)[None] / 4

    @functools.cached_property
    def truth(self) -> float:
        """The gain over all trainings and tasks that there could be."""
        drawn = np.random.default_rng(1).normal(self.gain, self.spread, 1_000_000)
        return float(np.clip(drawn, 0, 1).mean()) * (1 - self.rate)


def both_resampled(a: Any, b: Any) -> tuple[float, float]:
    """The percentile bootstrap of trainings and of tasks, independently: the plain hierarchical one."""
    values = a - b
    seeds, tasks = values.shape
    rng = np.random.default_rng(0)
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=1000) / seeds
    found = ((of_seeds @ values) * _drawn(tasks)[:1000]).sum(axis=1)
    lo, hi = np.quantile(found, (0.025, 0.975))
    return lo, hi


CROSSED = [(seeds, spread, own) for seeds in (2, 3, 5) for spread in (0.0, 0.03, 0.1) for own in (0.0, 0.5)]


def crossed_table(
    runs: int, seed: int, tasks: int = 300, cases: Sequence[tuple[int, float, float]] = CROSSED
) -> Iterator[str]:
    """Lines of a Markdown table: gains of several trainings on the same tasks."""
    yield "| trainings | spread | of the task | in | width | both resampled | gain found |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for seeds, spread, own in cases:
        each = Crossed(0.3, spread, own)
        rng, held = np.random.default_rng(seed), []
        for _ in range(runs):
            a, b = each.draw(rng, seeds, tasks)
            found = stats.crossed_mean(a.tolist(), b.tolist())
            ends = np.array([found[1:3], both_resampled(a, b)])
            inside = (ends[:, 0] <= each.truth) & (ends[:, 1] >= each.truth)
            held.append([*inside, found.hi - found.lo, found.lo > 0])
        ours, plain, width, power = np.mean(held, axis=0)
        yield (
            f"| {seeds} | {100 * spread:g} % | {100 * (1 - own):.0f} % | {100 * ours:.1f} | "
            f"{100 * width:.1f} | {100 * plain:.1f} | {100 * power:.0f} % |"
        )


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Simulate how often 95 % intervals of rates and paired differences hold the truth.")
    flags.add_argument("--runs", type=positive_int, default=500, help="simulated benchmarks of a kind")
    flags.add_argument("--seed", type=int, default=0, help="of the simulation")
    flags.add_argument("--tasks", type=positive_int, nargs="+", default=list(SIZES), help="numbers of tasks")
    flags.add_argument("--trainings", action="store_true", help="intervals over trainings and tasks instead")
    args = flags.parse_args(argv)
    if args.trainings:
        for line in crossed_table(args.runs, args.seed):
            print(line, flush=True)
        return 0
    for line in table(args.tasks, args.runs, args.seed):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    run_main(main)
