"""All charts, drawn by matplotlib: one function each, inline in a page's colours or for a file.

A run to draw has `name`, `colour` (a key of the colours) and `summary` (`cobalt.evaluation.summary`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.report.drawing import (
    HEIGHT,
    RUN_COLOURS,
    WIDTH,
    Colours,
    bar,
    hide,
    label_ends,
    legend,
    named_rows,
    panels,
    stack,
)

Run = Mapping[str, Any]
CURVES = {  # panel -> names of the metric in verl's or our log, the first that is there is drawn
    "reward": ("reward/shaped", "critic/rewards/mean", "critic/score/mean"),
    "programs right": ("reward/acc",),
    "share of tests passed": ("reward/pass_rate",),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "response length, tokens": ("response_length/mean",),
    "cut at the length limit": ("response_length/clip_ratio",),
    "clipped by the objective": ("actor/pg_clipfrac",),
}
_SMOOTH = 10  # steps


def pass_by_turn(runs: Sequence[Run], colours: Colours, first_turn: int = 0) -> Any:
    """Pass@1 by turn with 95 % intervals, a line per run. `first_turn`: the number of the first one."""
    drawing, (axes,) = panels(1, 1, colours)
    ending = []
    for number, run in enumerate(runs):
        table = enumerate(zip(run["summary"]["pass_at_1"], run["summary"]["ci95"], strict=True), first_turn)
        known = [(turn, rate, ends) for turn, (rate, ends) in table if rate is not None]
        if not known:
            continue
        shift = 0.06 * (number - (len(runs) - 1) / 2)
        points = [(turn + shift, 100 * rate) for turn, rate, _ in known]
        colour = colours[run["colour"]]
        for (turn, _), (_, _, ends) in zip(points, known, strict=True):
            bar(axes.vlines, turn, ends, colour)
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=2, marker="o", markersize=5)
        ending.append((points[-1][1], f"{run['name'][:18]} {points[-1][1]:.0f}", run["colour"]))
    count = max(len(run["summary"]["pass_at_1"]) for run in runs)
    last = first_turn + count - 1
    axes.set_xlim(first_turn - 0.25, last + 0.25 + 0.32 * count)
    label_ends(axes, last + 0.05 * count + 0.1, ending, colours)
    axes.set_xticks(range(first_turn, last + 1))
    axes.set_ylim(0, 100)
    axes.set_xlabel("turn")
    axes.set_ylabel("Pass@1 on hidden tests, %")
    return drawing


def pass_at_k(runs: Sequence[Run], colours: Colours) -> Any:
    """Pass@k over k at the first turn (dashed) and the last one."""
    drawing, (axes,) = panels(1, 1, colours)
    ks = {1}
    ending = []
    for run in runs:
        for turn, line in ((0, "--"), (run["summary"]["turns"] - 1, "-")):
            table = run["summary"]["pass_at_k"].items()
            points = [(int(k), 100 * row[turn]) for k, row in table if row[turn] is not None]
            if points:
                ks |= {k for k, _ in points}
                places = zip(*points, strict=True)
                axes.plot(*places, line, color=colours[run["colour"]], linewidth=2, marker="o", markersize=4)
        if points:
            ending.append((points[-1][1], run["name"][:18], run["colour"]))
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.9, max(2, *ks) ** 1.45 * 1.3)
    label_ends(axes, max(ks) * 1.12, ending, colours)
    axes.set_xticks(sorted(ks), [str(k) for k in sorted(ks)])
    axes.minorticks_off()
    axes.set_ylim(0, 103)
    axes.set_xlabel("k, samples that may be tried (dashed: first turn)")
    axes.set_ylabel("Pass@k, %")
    return drawing


def transitions(runs: Sequence[Run], colours: Colours) -> Any:
    """What becomes of programs from one turn to the next, stacked to 100 %, a panel per run."""
    columns = min(3, max(2, len(runs)))
    lines = math.ceil(len(runs) / columns)
    drawing, several = panels(lines, columns, colours, width=9.8, height=0.3 + 2.2 * lines)
    parts = {"stays right": "good", "fixed": "fixed", "broken": "bad", "stays wrong": "faint"}
    for run, axes in zip(runs, several, strict=False):
        rows = run["summary"]["transitions"]
        for place, row in enumerate(rows):
            lost, won = row["right_to_wrong"], row["wrong_to_right"]
            counts = (lost["of"] - lost["count"], won["count"], lost["count"], won["of"] - won["count"])
            total = max(1, sum(counts))
            shares = [100 * count / total for count in counts]
            stack(axes.bar, place, shares, [colours[each] for each in parts.values()], width=0.82)
        axes.set_xticks(range(len(rows)), [f"{row['from']}→{row['to']}" for row in rows])
        axes.set_title(run["name"][:28], fontsize=9, color=colours["ink"], loc="left")
        axes.set_ylim(0, 100)
        axes.grid(visible=False)
    several[0].set_ylabel("programs, %")
    hide(several[len(runs) :])
    legend(drawing, [(name, colours[colour]) for name, colour in parts.items()], colours)
    return drawing


def breakdown(runs: Sequence[Run], colours: Colours) -> Any:
    """Pass@1 at the last turn by difficulty and by kind of task, a dot with its interval per run."""
    rows: dict[tuple[str, str], int] = {}
    for field in ("by_difficulty", "by_subset"):
        parts = {name: part for run in runs for name, part in run["summary"][field].items()}
        if len(parts) > 1 or field == "by_difficulty":
            rows |= {(field, name): part["tasks"] for name, part in parts.items()}
    drawing, (axes,) = panels(1, 1, colours, height=0.9 + (0.2 + 0.16 * len(runs)) * len(rows))
    for place, (field, name) in enumerate(rows):
        for number, run in enumerate(runs):
            part = run["summary"][field].get(name)
            if part is None or part["pass_at_1"][-1] is None:
                continue
            height = place + 0.7 * ((number + 0.5) / len(runs) - 0.5)
            colour = colours[run["colour"]]
            bar(axes.hlines, height, part["ci95"][-1], colour)
            axes.plot([100 * part["pass_at_1"][-1]], [height], color=colour, marker="o", markersize=4.5)
    named_rows(axes, [f"{name or 'all'} ({tasks})" for (_, name), tasks in rows.items()])
    axes.set_xlim(0, 100)
    axes.set_xlabel("Pass@1 at the last turn, % (in brackets: tasks)")
    legend(drawing, _keys(runs, colours), colours)
    return drawing


def training(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], shades: Colours, colours: Colours,
    titles: Sequence[str] = tuple(CURVES),
) -> Any:  # fmt: skip
    """Metrics by step in a panel each, thin the values, thick their mean over ten steps; None without any."""
    drawn = [(title, found) for title in titles if (found := _series(curves, CURVES[title]))]
    if not drawn:
        return None
    columns = 3 if len(titles) > 1 else 1
    lines = math.ceil(len(drawn) / columns)
    width, height = (9.8, 2.2 * lines) if columns > 1 else (WIDTH, HEIGHT)
    drawing, several = panels(lines, columns, colours, width=width, height=height, shared=False)
    for axes, (title, found) in zip(several, drawn, strict=False):
        for name, points in found.items():
            steps, values = zip(*points, strict=True)
            last = [values[max(0, i + 1 - _SMOOTH) : i + 1] for i in range(len(values))]
            axes.plot(steps, values, color=colours[shades[name]], linewidth=0.7, alpha=0.4)
            axes.plot(steps, [sum(v) / len(v) for v in last], color=colours[shades[name]], linewidth=1.8)
        axes.set_title(title, fontsize=9, color=colours["ink"], loc="left")
    several[0].set_xlabel("step")
    hide(several[len(drawn) :])
    if len(curves) > 1:
        legend(drawing, [(name[:22], colours[shades[name]]) for name in curves], colours)
    return drawing


def _series(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], keys: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for name, rows in curves.items():
        key = next((key for key in keys if any(key in row for row in rows)), "")
        points = [(row["step"], row[key]) for row in rows if isinstance(row.get(key), int | float)]
        if points := [(step, value) for step, value in points if math.isfinite(value)]:
            found[name] = points
    return found


def hacking(runs: Sequence[Run], colours: Colours) -> Any:
    """Share of programs that accepted a wrong test, by turn, with 95 % intervals."""
    drawing, (axes,) = panels(1, 1, colours)
    top = 1.0
    for number, run in enumerate(runs):
        rows = [row for row in run["errors"]["turns"] if row["rate"] is not None]
        turns = [row["turn"] + 0.08 * (number - (len(runs) - 1) / 2) for row in rows]
        rates = [100 * row["rate"] for row in rows]
        for turn, row in zip(turns, rows, strict=True):
            bar(axes.vlines, turn, row["ci95"], colours[run["colour"]])
        axes.plot(turns, rates, color=colours[run["colour"]], linewidth=2, marker="o", markersize=4.5)
        top = max([top, *rates, *(100 * (row["ci95"][1] or 0) for row in rows)])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0, 1.1 * top)
    axes.set_xlabel("turn")
    axes.set_ylabel("programs bent to a wrong test, %")
    legend(drawing, _keys(runs, colours), colours)
    return drawing


def categories(runs: Sequence[Run], colours: Colours) -> Any:
    """The judge's verdicts as shares of cases, a bar per run."""
    labels = list(dict.fromkeys(label for run in runs for label in run["judge"]["verdicts"]))
    shades = [colours[f"c{i % RUN_COLOURS + 1}"] for i in range(len(labels))]
    drawing, (axes,) = panels(1, 1, colours, height=1.1 + 0.5 * len(runs))
    for place, run in enumerate(runs):
        found = run["judge"]["verdicts"]
        shares = [100 * found[label]["share"] if label in found else 0.0 for label in labels]
        stack(axes.barh, place, shares, shades, height=0.6)
    named_rows(axes, [run["name"][:18] for run in runs])
    axes.set_xlim(0, 100)
    axes.set_xlabel("cases, %")
    legend(drawing, list(zip(labels, shades, strict=True)), colours, columns=2)
    return drawing


def funnel(steps: Sequence[tuple[str, int]], colours: Colours) -> Any:
    """How many of something are left after each step."""
    drawing, (axes,) = panels(1, 1, colours, height=0.7 + 0.3 * len(steps))
    most = max(count for _, count in steps) or 1
    for place, (_, count) in enumerate(steps):
        axes.barh(place, count, color=colours["c1"], height=0.66, linewidth=0, alpha=0.85)
        axes.text(count + 0.015 * most, place, f"{count:,}", va="center", fontsize=9, color=colours["ink"])
    named_rows(axes, [label for label, _ in steps])
    axes.set_xlim(0, 1.18 * most)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    return drawing


def _keys(runs: Sequence[Run], colours: Colours) -> list[tuple[str, str]]:
    return [(run["name"][:22], colours[run["colour"]]) for run in runs]
