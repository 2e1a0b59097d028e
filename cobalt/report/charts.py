"""The charts of a report, drawn by matplotlib: one function each, in the page's colours or for a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.report.plots import label_ends, style

Colours = Mapping[str, str]
RUN_COLOURS = 6
# Place holders for the page, which become CSS variables, and the colours of files.
PAGE: Colours = {
    "ink": "#010101", "soft": "#020202", "grid": "#030303", "good": "#040404", "bad": "#050505",
    "fixed": "#060606", "faint": "#070707",
    **{f"c{i + 1}": f"#{8 + i:02x}{8 + i:02x}{8 + i:02x}" for i in range(RUN_COLOURS)},
}  # fmt: skip
LIGHT: Colours = {
    "ink": "#1d2330", "soft": "#5b6270", "grid": "#d9d6cd", "good": "#2f8f57", "bad": "#c8453a",
    "fixed": "#8fd0a6", "faint": "#dcd8ce", "c1": "#0047ab", "c2": "#7a6a4f", "c3": "#a23b72",
    "c4": "#17703a", "c5": "#b34d00", "c6": "#5b4bb5",
}  # fmt: skip
CURVES = {  # panel -> names of the metric in verl's or our log, the first that is there is drawn
    "reward": ("reward/shaped", "critic/rewards/mean", "critic/score/mean"),
    "programs right": ("reward/acc",),
    "share of tests passed": ("reward/pass_rate",),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "response length, tokens": ("response_length/mean",),
    "cut at the length limit": ("response_length/clip_ratio",),
    "clipped by the objective": ("actor/pg_clipfrac",),
}
_W, _H = 4.7, 3.0


def pass_by_turn(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """Pass@1 by turn, a line and a 95 % band per run."""
    drawing, (axes,) = _panels(1, 1, colours)
    ending = []
    count = max(len(run["summary"]["pass_at_1"]) for run in runs)
    for run in runs:
        points = [
            (turn, 100 * rate, ends)
            for turn, (rate, ends) in enumerate(
                zip(run["summary"]["pass_at_1"], run["summary"]["ci95"], strict=True)
            )
            if rate is not None
        ]
        if not points:
            continue
        turns, rates = [p[0] for p in points], [p[1] for p in points]
        lows = [r if e[0] is None else 100 * e[0] for _, r, e in points]
        highs = [r if e[1] is None else 100 * e[1] for _, r, e in points]
        colour = colours[run["colour"]]
        axes.fill_between(turns, lows, highs, color=colour, alpha=0.16, linewidth=0)
        axes.plot(turns, rates, color=colour, linewidth=2, marker="o", markersize=4.5)
        ending.append((rates[-1], f"{run['name'][:18]} {rates[-1]:.0f}", run["colour"]))
    axes.set_xlim(-0.2, (count - 1) * 1.42 + 0.5)
    label_ends(axes, count - 1 + 0.05 * count, ending, apart=7.5, colours=colours)
    axes.set_xticks(range(count))
    axes.set_ylim(0, 100)
    axes.set_xlabel("turn")
    axes.set_ylabel("Pass@1 on hidden tests, %")
    return drawing


def transitions(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """What becomes of programs from one turn to the next, stacked to 100 %, a panel per run."""
    columns = min(3, max(2, len(runs)))
    lines = math.ceil(len(runs) / columns)
    drawing, panels = _panels(lines, columns, colours, width=9.8, height=0.3 + 2.2 * lines)
    parts = (("stays right", "good"), ("fixed", "fixed"), ("broken", "bad"), ("stays wrong", "faint"))
    for run, axes in zip(runs, panels, strict=False):
        rows = run["summary"]["transitions"]
        for place, row in enumerate(rows):
            right, wrong = row["right_to_wrong"]["of"], row["wrong_to_right"]["of"]
            broken, fixed = row["right_to_wrong"]["count"], row["wrong_to_right"]["count"]
            floor, total = 0.0, max(1, right + wrong)
            counts = (right - broken, fixed, broken, wrong - fixed)
            for count, (_, colour) in zip(counts, parts, strict=True):
                share = 100 * count / total
                axes.bar(place, share, bottom=floor, color=colours[colour], width=0.82, linewidth=0)
                floor += share
        axes.set_xticks(range(len(rows)), [f"{row['from']}→{row['to']}" for row in rows])
        axes.set_title(run["name"][:28], fontsize=9, color=colours["ink"], loc="left")
        axes.set_ylim(0, 100)
        axes.grid(visible=False)
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    panels[0].set_ylabel("programs, %")
    _legend(drawing, [(name, colours[colour]) for name, colour in parts], colours)
    return drawing


def pass_at_k(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """Pass@k over k at the first turn (dashed) and the last one."""
    drawing, (axes,) = _panels(1, 1, colours)
    ks: set[int] = set()
    ending = []
    for run in runs:
        table = run["summary"]["pass_at_k"]
        for turn, line in ((0, "--"), (run["summary"]["turns"] - 1, "-")):
            points = [(int(k), 100 * row[turn]) for k, row in table.items() if row[turn] is not None]
            if points:
                ks |= {k for k, _ in points}
                axes.plot(
                    *zip(*points, strict=True), line, color=colours[run["colour"]], linewidth=2, marker="o",
                    markersize=4,
                )  # fmt: skip
        if points:
            ending.append((points[-1][1], run["name"][:18], run["colour"]))
    last = max(ks, default=1)
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.9, max(2, last) ** 1.45 * 1.3)
    label_ends(axes, last * 1.12, ending, apart=7.5, colours=colours)
    axes.set_xticks(sorted(ks), [str(k) for k in sorted(ks)])
    axes.minorticks_off()
    axes.set_ylim(0, 103)
    axes.set_xlabel("k, samples that may be tried (dashed: first turn)")
    axes.set_ylabel("Pass@k, %")
    return drawing


def breakdown(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """Pass@1 at the last turn by difficulty and by kind of task, a dot with its interval per run."""
    rows: list[str] = []
    for field in ("by_difficulty", "by_subset"):
        names = list(dict.fromkeys(name for run in runs for name in run["summary"][field]))
        if len(names) > 1 or field == "by_difficulty":
            rows += [f"{field}/{name}" for name in names]
    drawing, (axes,) = _panels(1, 1, colours, height=0.9 + (0.2 + 0.16 * len(runs)) * len(rows))
    labels = []
    for place, key in enumerate(rows):
        field, _, name = key.partition("/")
        tasks = next(run["summary"][field][name]["tasks"] for run in runs if name in run["summary"][field])
        labels.append(f"{name or 'all'} ({tasks})")
        for number, run in enumerate(runs):
            part = run["summary"][field].get(name)
            if part is None or part["pass_at_1"][-1] is None:
                continue
            height = place + 0.7 * ((number + 0.5) / len(runs) - 0.5)
            colour = colours[run["colour"]]
            lo, hi = part["ci95"][-1]
            if lo is not None:
                axes.hlines(
                    height, 100 * max(0, lo), 100 * min(1, hi), color=colour, linewidth=2.4, alpha=0.45
                )
            axes.plot([100 * part["pass_at_1"][-1]], [height], color=colour, marker="o", markersize=4.5)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_xlabel("Pass@1 at the last turn, % (in brackets: tasks)")
    _legend(drawing, [(run["name"][:22], colours[run["colour"]]) for run in runs], colours)
    return drawing


def training(curves: Mapping[str, Sequence[Mapping[str, Any]]], shades: Colours, colours: Colours) -> Any:
    """Metrics by step in small panels, thin the values, thick their mean over ten steps."""
    drawn = [(title, found) for title, keys in CURVES.items() if (found := _series(curves, keys))]
    drawing, panels = _panels(math.ceil(len(drawn) / 3), 3, colours, width=9.8, height=2.2, each=True)
    for axes, (title, found) in zip(panels, drawn, strict=False):
        for name, points in found.items():
            steps, values = zip(*points, strict=True)
            smooth = [sum(values[max(0, i - 9) : i + 1]) / len(values[max(0, i - 9) : i + 1])
                      for i in range(len(values))]  # fmt: skip
            axes.plot(steps, values, color=colours[shades[name]], linewidth=0.7, alpha=0.4)
            axes.plot(steps, smooth, color=colours[shades[name]], linewidth=1.8)
        axes.set_title(title, fontsize=9, color=colours["ink"], loc="left")
    for axes in panels[len(drawn) :]:
        axes.set_visible(False)
    if len(curves) > 1:
        _legend(drawing, [(name[:22], colours[shades[name]]) for name in curves], colours)
    return drawing


def hacking(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """Share of programs that accepted a wrong test, by turn, with 95 % intervals."""
    drawing, (axes,) = _panels(1, 1, colours)
    top = 1.0
    for number, run in enumerate(runs):
        rows = [row for row in run["errors"]["turns"] if row["rate"] is not None]
        shift = 0.08 * (number - (len(runs) - 1) / 2)
        turns = [row["turn"] + shift for row in rows]
        rates = [100 * row["rate"] for row in rows]
        colour = colours[run["colour"]]
        for turn, row in zip(turns, rows, strict=True):
            lo, hi = row["ci95"]
            if lo is not None:
                axes.vlines(turn, 100 * max(0, lo), 100 * hi, color=colour, linewidth=2, alpha=0.5)
                top = max(top, 100 * hi)
        axes.plot(turns, rates, color=colour, linewidth=2, marker="o", markersize=4.5)
        top = max([top, *rates])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0, 1.1 * top)
    axes.set_xlabel("turn")
    axes.set_ylabel("programs bent to a wrong test, %")
    _legend(drawing, [(run["name"][:22], colours[run["colour"]]) for run in runs], colours)
    return drawing


def categories(runs: Sequence[Mapping[str, Any]], colours: Colours) -> Any:
    """The judge's verdicts as shares of cases, a bar per run."""
    labels = list(dict.fromkeys(label for run in runs for label in run["judge"]["verdicts"]))
    shades = [colours[f"c{i % RUN_COLOURS + 1}"] for i in range(len(labels))]
    drawing, (axes,) = _panels(1, 1, colours, height=1.1 + 0.5 * len(runs))
    for place, run in enumerate(runs):
        floor = 0.0
        for label, shade in zip(labels, shades, strict=True):
            share = 100 * (run["judge"]["verdicts"].get(label) or {"share": 0})["share"]
            axes.barh(place, share, left=floor, color=shade, height=0.6, linewidth=0)
            floor += share
    axes.set_yticks(range(len(runs)), [run["name"][:18] for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("cases, %")
    _legend(drawing, list(zip(labels, shades, strict=True)), colours, columns=2)
    return drawing


def funnel(steps: Sequence[tuple[str, int]], colours: Colours) -> Any:
    """How many of something are left after each step."""
    drawing, (axes,) = _panels(1, 1, colours, height=0.7 + 0.3 * len(steps))
    most = max(count for _, count in steps) or 1
    for place, (_, count) in enumerate(steps):
        axes.barh(place, count, color=colours["c1"], height=0.66, linewidth=0, alpha=0.85)
        axes.text(count + 0.015 * most, place, f"{count:,}", va="center", fontsize=9, color=colours["ink"])
    axes.set_yticks(range(len(steps)), [label for label, _ in steps])
    axes.set_ylim(len(steps) - 0.4, -0.6)
    axes.set_xlim(0, 1.18 * most)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    return drawing


def _series(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], keys: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for name, rows in curves.items():
        key = next((key for key in keys if any(key in row for row in rows)), None)
        points = [(row["step"], row[key]) for row in rows if key in row] if key else []
        points = [(s, v) for s, v in points if isinstance(v, int | float) and math.isfinite(v)]
        if points:
            found[name] = points
    return found


def _panels(
    lines: int, columns: int, colours: Colours, *, width: float = _W, height: float = _H, each: bool = False
) -> tuple[Any, list[Any]]:
    """A figure of lines x columns axes, in the page's style; sizes in inches (`each`: height of a line)."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width, height * lines if each else height), layout="constrained")
    panels = list(drawing.subplots(lines, columns, squeeze=False, sharey=columns > 1 and not each).flat)
    for axes in panels:
        style(axes, colours)
    return drawing, panels


def _legend(drawing: Any, entries: Sequence[tuple[str, str]], colours: Colours, columns: int = 4) -> None:
    from matplotlib.patches import Patch

    drawing.legend(
        handles=[Patch(facecolor=colour, label=name, linewidth=0) for name, colour in entries],
        loc="outside upper left", ncols=min(columns, len(entries)), frameon=False, fontsize=8.5,
        labelcolor=colours["ink"], handlelength=1, handleheight=1, columnspacing=1.2, borderaxespad=0.1,
    )  # fmt: skip
