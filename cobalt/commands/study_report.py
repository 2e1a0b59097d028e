"""Table and plot of a study: Pass@1 per turn, differences to Cobalt, what contradictory tests do, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write
from cobalt.rows import read_rows
from cobalt.stats import Interval, clustered_mean, paired_bootstrap

WALL_SUFFIX = "_equal_wall"
Rates = dict[Any, list[list[float]]]  # task -> samples of all seeds -> right (1.0) or not, per turn


def rates(files: Sequence[str]) -> Rates:
    """Right programs by task, sample (seeds pooled) and turn. Programs without a verdict are left out."""
    found: Rates = {}
    for path in files:
        for _, row in read_rows(path):
            for sample in row["all_pass_rates"]:
                if all(rate is not None for rate in sample):
                    found.setdefault(row["id"], []).append([float(rate == 1.0) for rate in sample])
    return found


def pass_at_1(found: Rates, turn: int) -> Interval:
    """Pass@1 of a turn (-1: the last), clustered by task; a fraction."""
    return clustered_mean([[sample[turn] for sample in samples] for samples in found.values()])


def difference(one: Rates, other: Rates, turn: int = -1) -> Interval:
    """Pass@1 of ``one`` minus that of ``other``, paired by task."""
    tasks = [task for task in one if task in other]

    def means(found: Rates) -> list[float]:
        return [sum(sample[turn] for sample in found[task]) / len(found[task]) for task in tasks]

    return paired_bootstrap(means(one), means(other))


def spoiled(found: Rates) -> Interval | None:
    """Share of dialogues right at the first turn that are wrong at the last; None if none was right."""
    tasks = [
        [1.0 - sample[-1] for sample in samples if sample[0] == 1.0]
        for samples in found.values()
        if any(sample[0] == 1.0 for sample in samples)
    ]
    return clustered_mean(tasks) if tasks else None


def report(results: Mapping[str, Any], out: Path) -> str:
    """Write ``study.md`` and ``study.png``; returns the table."""
    arms, timing = results["arms"], results["timing"]
    clean = {arm: rates(each["files"]["heldout"]) for arm, each in arms.items()}
    ptb = {arm: rates(each["files"]["heldout_ptb"]) for arm, each in arms.items()}
    turns = len(next(iter(clean["reference"].values()))[0])
    head = [
        "arm", "lr", "seeds x steps", *(f"turn {turn + 1}" for turn in range(turns)), "gain at the last turn",
        "Cobalt minus it", "right, then wrong (contradictory tests)", "seconds", "seconds per point gained",
    ]  # fmt: skip
    lines = [head, ["---"] * len(head)]
    for arm, each in arms.items():
        runs = each["runs"]
        gain = difference(clean[arm], clean["reference"])
        wall = seconds(arm, each, timing) if runs else 0.0
        against = difference(clean["cobalt"], clean[arm]) if "cobalt" in clean and arm != "cobalt" else None
        lost = spoiled(ptb[arm])
        lines.append([
            arm, f"{each['rate']:g}" if runs else "", f"{len(runs)} x {runs[0]['steps']}" if runs else "",
            *(_points(pass_at_1(clean[arm], turn), sign=False) for turn in range(turns)),
            _points(gain) if runs else "", _points(against) if against else "",
            _points(lost, sign=False) if lost else "", f"{wall:.0f}" if runs else "",
            f"{wall / (100 * gain.mean):.1f}" if runs and gain.mean > 0 else "",
        ])  # fmt: skip
    table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    text = (
        "# The arms on the tiny family\n\nPoints of Pass@1 on held-out tasks, 95 % intervals by task, seeds "
        "pooled; `seconds` is wall time of one training's steps, start-up left out, and of making what it "
        f"reads: contexts {timing['contexts']:.0f} s, stored programs {timing['groups']:.0f} s.\n\n{table}"
    )
    atomic_write(out / "study.md", text)
    _plot(arms, clean, results, turns, out / "study.png")
    return table


def seconds(arm: str, made: Mapping[str, Any], timing: Mapping[str, float]) -> float:
    """Wall seconds of one training of an arm and of its data, at the pace measured beside the other arms'.

    The steps of arms without sampling were not measured beside the others; theirs are as each run took.
    """
    runs = made["runs"]
    pace = timing.get(arm.removesuffix(WALL_SUFFIX))
    if pace is None:
        training = sum(sum(run["step_s"]) for run in runs) / len(runs)
    else:
        training = runs[0]["steps"] * pace
    return float(training + timing.get(made["reads"], 0.0))


def _points(found: Interval, *, sign: bool = True) -> str:
    plus = "+" if sign else ""
    return f"{100 * found.mean:{plus}.1f} [{100 * found.lo:{plus}.1f}, {100 * found.hi:{plus}.1f}]"


def _plot(
    arms: Mapping[str, Any], clean: Mapping[str, Rates], results: Mapping[str, Any], turns: int, path: Path
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for number, arm in enumerate(arms):
        values = [pass_at_1(clean[arm], turn) for turn in range(turns)]
        means = [100 * value.mean for value in values]
        errors = [[100 * (v.mean - v.lo) for v in values], [100 * (v.hi - v.mean) for v in values]]
        style = {"marker": "o", "capsize": 3, "label": arm, "color": f"C{number}"}
        left.errorbar(range(1, turns + 1), means, yerr=errors, **style)
    left.set(xlabel="turn", ylabel="Pass@1, held-out tasks (%)", xticks=range(1, turns + 1))
    left.legend(fontsize=7)
    for number, (arm, made) in enumerate(arms.items()):
        if not made["runs"]:
            continue
        wall = seconds(arm, made, results["timing"])
        gain = difference(clean[arm], clean["reference"])
        error = [[100 * (gain.mean - gain.lo)], [100 * (gain.hi - gain.mean)]]
        style = {"marker": "o", "capsize": 3, "label": arm, "color": f"C{number}"}
        right.errorbar([wall], [100 * gain.mean], yerr=error, **style)
    right.axhline(0, linewidth=0.8, color="grey")
    right.set(xlabel="wall seconds, data included", ylabel="points gained at the last turn")
    right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
