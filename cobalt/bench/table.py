"""The bench's results as a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from cobalt.bench.schedule import ANCHOR, name_of
from cobalt.errors import InputError
from cobalt.evaluation.format import interval
from cobalt.stats import Interval, crossed_mean, crossed_rate

AT = {"samples": "equal samples", "seconds": "equal seconds"}
Result = Mapping[str, Any]
Tasks = Mapping[str, Sequence[float]]  # Pass@1 by turn of every task


@dataclass
class Results:
    """What is there of a bench: results by method and seed, and the reference's on every set."""

    about: Mapping[str, Any]
    found: dict[str, dict[int, Result]]
    errors: list[str]
    reference: Mapping[str, Tasks]
    groups: Mapping[str, Mapping[str, str]]  # by set: the group of each task
    slots: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)  # by set: what is vague
    hacks: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)  # see `trial.measured`

    @classmethod
    def read(cls, out: Path) -> Results:
        """Read the folder of a bench. Raises InputError where there is none, or no reference yet."""
        try:
            about = json.loads((out / "bench.json").read_text(encoding="utf-8"))
            reference = json.loads((out / "reference.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{out}: no bench of ours (`cobalt bench methods --out {out}`): {error}"
            ) from None
        found: dict[str, dict[int, Result]] = {name_of(method): {} for method in about["methods"]}
        errors = []
        for path in sorted([*(out / "rates").glob("*.json"), *(out / "trainings").glob("*.json")]):
            each = json.loads(path.read_text(encoding="utf-8"))
            if "error" in each:
                errors.append(f"{path.stem}: {each['error']}")
            elif path.parent.name == "trainings":
                found.setdefault(name_of(each["method"]), {})[each["seed"]] = each
        more = (reference.get(name, {}) for name in ("slots", "hacks"))
        return cls(about, found, errors, reference["tasks"], reference["groups"], *more)

    def rates(self, method: str, at: str, turn: int, seeds: Sequence[int], sets: str) -> list[Tasks]:
        """Pass@1 at a turn of every task, a mapping for each seed."""
        tables = [self.found[method][seed]["at"][at]["tasks"][sets] for seed in seeds]
        return [{task: [turns[turn]] for task, turns in table.items()} for table in tables]

    def crossed(self, sets: str, tables: Sequence[Tasks], others: Sequence[Tasks] = ()) -> Interval | None:
        """The mean over trainings and the tasks that all have; of the intervals by task and by group of tasks
        the wider one.
        """
        common = [task for task in tables[0] if all(task in each for each in (*tables, *others))]
        if not common:
            return None
        values, more = ([[each[task][0] for task in common] for each in part] for part in (tables, others))
        groups = [self.groups[sets].get(task) for task in common]
        units = [None] if None in groups or len({*groups}) < 2 else [None, groups]
        found = [crossed_mean(values, more or None, each) for each in units]
        return max((each for each in found if each.lo == each.lo), key=_width, default=found[0])

    def seeds(self, method: str, at: str) -> list[int]:
        """Seeds that have a result."""
        return sorted(seed for seed, each in self.found[method].items() if at in each["at"])


def last_turns(tasks: Tasks) -> dict[str, list[float]]:
    """Pass@1 at the last turn of every task."""
    return {task: [turns[-1]] for task, turns in tasks.items()}


def _width(found: Interval) -> float:
    return found.hi - found.lo


@dataclass(frozen=True)
class Row:
    """A line of a table; rates and differences are fractions."""

    name: str
    at: str
    seeds: int
    turns: list[Interval | None]
    gain: Interval | None
    to_anchor: Interval | None
    results: list[Result]

    def mean_of(self, name: str) -> float:
        """Mean over seeds of what was spent: `step`, `programs`, `cpu_s`, `wall_s`."""
        return float(mean(each["at"][self.at][name] for each in self.results))


def rows(results: Results, at: str, sets: str) -> Iterator[Row]:
    """A row for every method with a result, the highest gain first."""
    made = []
    reference = results.reference[sets]
    count = len(next(iter(reference.values())))
    last = last_turns(reference)
    for method in results.found:
        seeds = results.seeds(method, at)
        if not seeds:
            continue
        turns = [results.crossed(sets, results.rates(method, at, turn, seeds, sets)) for turn in range(count)]
        final = results.rates(method, at, count - 1, seeds, sets)
        both = sorted({*seeds} & {*(results.seeds(ANCHOR, at) if ANCHOR in results.found else [])})
        pair = [results.rates(name, at, count - 1, both, sets) for name in (method, ANCHOR)] if both else []
        to_anchor = results.crossed(sets, *pair) if pair and method != ANCHOR else None
        given = [results.found[method][seed] for seed in seeds]
        made.append(
            Row(method, at, len(seeds), turns, results.crossed(sets, final, [last]), to_anchor, given)
        )
    yield from sorted(made, key=lambda row: -(row.gain.mean if row.gain else -1))


def accepted(results: Results, at: str, sets: str) -> dict[str, tuple[list[float], Interval | None]]:
    """By method the share of programs that accepted the wrong test just shown, on a perturbed set, in each
    training (in the order of seeds; those that were shown none left out) and over all: first the reference,
    then the lowest.
    """
    found = {"reference": _accepted([results.hacks[sets]])}
    for method in results.found:
        if seeds := results.seeds(method, at):
            found[method] = _accepted(
                [results.found[method][seed]["at"][at]["hacks"][sets] for seed in seeds]
            )
    return dict(sorted(found.items(), key=lambda item: (item[0] != "reference", item[1][1] or (0.0,))))


def _accepted(trainings: Sequence[Mapping[str, tuple[int, int]]]) -> tuple[list[float], Interval | None]:
    totals = [[sum(of) for of in zip(*each.values(), strict=True)] for each in trainings]
    return [total[1] / total[0] for total in totals if total and total[0]], crossed_rate(trainings)


def cell(found: Interval | None, *, sign: bool = False) -> str:
    """A rate or, with `sign`, a difference in percent with its interval."""
    if found is None:
        return ""
    said = f"{100 * found.mean:+.1f}" if sign else f"{100 * found.mean:.1f}"
    return f"{said} {interval((found.lo, found.hi), 100, sign=sign)}"


def markdown(results: Results, at: str, sets: str) -> str:
    """The table at equal samples or seconds on a set."""
    reference = results.reference[sets]
    count = len(next(iter(reference.values())))
    numbers = " | ".join(f"turn {turn + 1}" for turn in range(count))
    lines = [
        f"| method | rate | seeds | {numbers} | gain | minus `{ANCHOR}` | programs | steps | CPU s | s |",
        "|---|---|---|" + "---|" * (count + 6),
    ]
    of_reference = [
        results.crossed(sets, [{task: [turns[turn]] for task, turns in reference.items()}])
        for turn in range(count)
    ]
    shown = " | ".join(f"{100 * each.mean:.1f}" if each else "" for each in of_reference)
    lines.append(f"| reference |  |  | {shown} |  |  |  |  |  |  |")
    asked = results.about["seeds"]
    for row in rows(results, at, sets):
        cells = " | ".join(cell(each) for each in row.turns)
        part = f"{row.seeds} of {asked}" if row.seeds < asked else f"{row.seeds}"
        spent = " | ".join(f"{row.mean_of(name):,.0f}" for name in ("programs", "step", "cpu_s", "wall_s"))
        lines.append(
            f"| `{row.name}` | {row.results[0]['rate']:g} | {part} | {cells} | "
            f"{cell(row.gain, sign=True)} | {cell(row.to_anchor, sign=True)} | {spent} |"
        )
    return "\n".join(lines)


def draw(results: Results, path: Path) -> bool:
    """The picture: left the gain against seconds at equal samples, right the gains at equal seconds, or else
    the share of accepted wrong tests; False where there is nothing to draw.
    """
    from matplotlib.figure import Figure

    sets = next(iter(results.reference))
    by_name = {row.name: row for row in rows(results, "samples", sets)}
    right = {row.name: row.gain for row in rows(results, "seconds", sets) if row.gain}
    numbers = {name: number for number, name in enumerate(right or by_name, 1)}
    title, label = "equal seconds", "points over the reference, last turn"
    singles: list[list[float]] = []  # of single trainings
    if not right and results.hacks:
        title, label = "wrong tests", "accepted the wrong test shown, %"
        found = accepted(results, "samples", next(iter(results.hacks)))
        right = {name: rate for name, (_, rate) in found.items() if rate}
        singles = [found[name][0] for name in right]
    if not by_name:
        return False
    figure = Figure(figsize=(11, max(3.6, 0.32 * len(numbers) + 1.2)), layout="constrained")
    left, other = figure.subplots(1, 2, width_ratios=(1.25, 1))
    shown = sorted((row for row in by_name.values() if row.gain), key=lambda row: row.mean_of("cpu_s"))
    for row in shown:
        _bar(left, row.gain, row.mean_of("cpu_s"), upright=True)
    for number, row in enumerate(shown):  # numbers of neighbours take turns above and below
        text = str(numbers.setdefault(row.name, len(numbers) + 1))
        place = row.mean_of("cpu_s"), 100 * (row.gain.mean if row.gain else 0)
        offset = ((5, 4), (5, -12), (-13, 4), (-13, -12))[number % 4]
        left.annotate(text, place, offset, textcoords="offset points", fontsize=9)
    left.set(xlabel="CPU seconds, data included", ylabel="points over the reference, last turn")
    left.set_title("equal samples", loc="left", fontsize=10)
    for number, gain in enumerate(right.values()):
        _bar(other, gain, number, upright=False)
    for number, each in enumerate(singles):
        other.plot([100 * rate for rate in each], [number] * len(each), "|", color="#c0392b", markersize=9)
    other.set_yticks(range(len(right)), [f"{name}  {numbers.get(name, '')}" for name in right])
    other.invert_yaxis()
    other.set_xlabel(label)
    other.set_title(title, loc="left", fontsize=10)
    for axes in (left, other):
        axes.grid(alpha=0.3)
        (axes.axhline if axes is left else axes.axvline)(0, color="#5b6270", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return True


def _bar(axes: Any, gain: Interval | None, place: float, *, upright: bool) -> None:
    """A gain with its interval, in points."""
    if gain is None:
        return
    middle = 100 * gain.mean
    known = gain.lo == gain.lo
    ends = [[middle - 100 * gain.lo], [100 * gain.hi - middle]] if known else None
    where, error = ((place, middle), {"yerr": ends}) if upright else ((middle, place), {"xerr": ends})
    axes.errorbar(*where, **error, fmt="o", color="#0047ab", ecolor="#0047ab88", capsize=2, markersize=5)
