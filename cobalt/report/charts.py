"""All charts, drawn by matplotlib: an SVG for a page, whose colours it takes, or for a file of its own.

A run to draw has `name`, `colour` (a key of the colours) and `summary` (`cobalt.evaluation.summary`).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

Run = Mapping[str, Any]
Colours = Mapping[str, str]
RUN_COLOURS = 6
# Place holders, which become CSS variables of the page, and the colours of files.
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
TRANSITIONS = {"stays right": "good", "fixed": "fixed", "broken": "bad", "stays wrong": "faint"}
PANEL = 3.4, 2.2  # inches: a panel of several on a page, where three stand side by side
WIDTH, HEIGHT = 4.7, 3.0  # inches: also the size at which text is readable on a telephone
CURVES = {  # panel -> names of the metric in verl's or our log, the first that is there is drawn
    "reward": ("reward/shaped", "critic/rewards/mean", "critic/score/mean"),
    "programs right": ("reward/acc",),
    "share of tests passed": ("reward/pass_rate",),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "response length, tokens": ("response_length/mean",),
    "cut at the length limit": ("response_length/clip_ratio",),
}
_SMOOTH = 10  # steps
_LABEL = 16  # characters of a name that fit beside the end of a line


def inline_svg(drawing: Any, caption: str, salt: str, *, smoke: bool = False) -> str:
    """A drawing in the colours of PAGE as an <svg> element that scales with its column and takes its colours
    from the page's CSS variables; the same for the same data. `salt` is unique in the page; `smoke`
    stamps it.
    """
    import matplotlib

    if smoke:
        stamped(drawing, PAGE)

    for part in (drawing, *drawing.axes):
        part.patch.set_alpha(0)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Names inside must not meet those of the other drawings of the page.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{salt}-", svg)
    for name, colour in PAGE.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"font: ((?:bold )?[\d.]+px) [^;\"]*", r"font: \1 var(--sans)", svg)
    for side in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {side}="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)


def standalone(svg: str) -> str:
    """An inline drawing as a file of its own: colours and font in place of variables, with a white ground."""
    svg = re.sub(r"var\(--(\w+)\)", lambda m: LIGHT.get(m.group(1), "sans-serif"), svg)
    return svg.replace("<svg", '<svg style="background: white"', 1) + "\n"


def stamped(drawing: Any, colours: Colours) -> Any:
    """The drawing with "smoke run" across it."""
    drawing.text(0.5, 0.5, "SMOKE RUN", rotation=18, fontsize=30, fontweight="bold", alpha=0.35,
                 color=colours["bad"], ha="center", va="center")  # fmt: skip
    return drawing


def pass_by_turn(runs: Sequence[Run], colours: Colours) -> Any:
    """Pass@1 by turn with 95 % intervals, a line per run.

    Names stand at the ends of the lines, or all above the chart where one of them is long.
    """
    long = any(len(run["name"]) > _LABEL for run in runs)
    entries = [(run["name"], colours[run["colour"]]) for run in runs] if long else []
    drawing, (axes,) = _panels(1, 1, colours, height=HEIGHT + 0.2 * len(entries))
    if long:
        _legend(drawing, entries, (), colours, columns=1)
    ending = []
    for number, run in enumerate(runs):
        table = enumerate(zip(run["summary"]["pass_at_1"], run["summary"]["ci95"], strict=True), 1)
        known = [(turn, rate, ends) for turn, (rate, ends) in table if rate is not None]
        if not known:
            continue
        shift = 0.06 * (number - (len(runs) - 1) / 2)
        points = [(turn + shift, 100 * rate) for turn, rate, _ in known]
        colour = colours[run["colour"]]
        for (turn, _), (_, _, (lo, hi)) in zip(points, known, strict=True):
            if lo is not None and hi is not None:
                axes.vlines(turn, 100 * lo, 100 * hi, color=colour, linewidth=2.2, alpha=0.5)
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=2, marker="o", markersize=5)
        label = f"{points[-1][1]:.0f}" if long else f"{run['name']} {points[-1][1]:.0f}"
        ending.append((points[-1][1], label, run["colour"]))
    count = max(len(run["summary"]["pass_at_1"]) for run in runs)
    axes.set_xlim(0.75, count + 0.25 + (0.12 if long else 0.36) * count)
    floor = 0.0
    for height, label, colour in sorted(ending):  # names at the ends of lines, none over another
        floor = max(height, floor)
        axes.text(count + 0.05 * count + 0.1, floor, label, color=colours[colour], va="center",
                  fontsize=9, fontweight="bold")  # fmt: skip
        floor += 7.5
    axes.set_xticks(range(1, count + 1))
    axes.set_ylim(0, 100)
    axes.set_xlabel("turn")
    axes.set_ylabel("Pass@1 on hidden tests, %")
    return drawing


def transitions(runs: Sequence[Run], colours: Colours, *, alone: bool = False) -> Any:
    """What becomes of programs from one turn to the next, stacked to 100 %, a panel per run. `alone`: one
    panel of a page, which has the colours' names beside it.
    """
    columns = 1 if alone else min(3, max(2, len(runs)))
    lines = math.ceil(len(runs) / columns)
    width, height = PANEL if alone else (9.8, 0.3 + 2.2 * lines)
    drawing, several = _panels(lines, columns, colours, width=width, height=height)
    for run, axes in zip(runs, several, strict=False):
        rows = run["summary"]["transitions"]
        for place, row in enumerate(rows):
            lost, won = row["right_to_wrong"], row["wrong_to_right"]
            counts = (lost["of"] - lost["count"], won["count"], lost["count"], won["of"] - won["count"])
            total = max(1, sum(counts))
            floor = 0.0
            for count, shade in zip(counts, TRANSITIONS.values(), strict=True):
                share = 100 * count / total
                axes.bar(place, share, bottom=floor, width=0.82, color=colours[shade], linewidth=0)
                floor += share
        axes.set_xticks(range(len(rows)), [f"{row['from'] + 1}→{row['to'] + 1}" for row in rows])
        axes.set_title(fill(run["name"], 34), fontsize=9, color=colours["ink"], loc="left")
        axes.set_ylim(0, 100)
        axes.grid(visible=False)
    several[0].set_ylabel("programs, %")
    entries = [] if alone else [(name, colours[colour]) for name, colour in TRANSITIONS.items()]
    _legend(drawing, entries, several[len(runs) :], colours)
    return drawing


def training(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], shades: Colours, colours: Colours,
    titles: Sequence[str] = tuple(CURVES), *, legend: bool = True,
) -> Any:  # fmt: skip
    """Metrics by step in a panel each, thin the values, thick their mean over ten steps; None without any."""
    drawn = [(title, found) for title in titles if (found := _series(curves, CURVES[title]))]
    if not drawn:
        return None
    columns = 3 if len(titles) > 1 else 1
    lines = math.ceil(len(drawn) / columns)
    width, height = (9.8, 2.2 * lines) if columns > 1 else (WIDTH, HEIGHT) if legend else PANEL
    drawing, several = _panels(lines, columns, colours, width=width, height=height, shared=False)
    for axes, (title, found) in zip(several, drawn, strict=False):
        for name, points in found.items():
            steps, values = zip(*points, strict=True)
            last = [values[max(0, i + 1 - _SMOOTH) : i + 1] for i in range(len(values))]
            axes.plot(steps, values, color=colours[shades[name]], linewidth=0.7, alpha=0.4)
            axes.plot(steps, [sum(v) / len(v) for v in last], color=colours[shades[name]], linewidth=1.8)
        axes.set_title(title, fontsize=9, color=colours["ink"], loc="left")
    several[0].set_xlabel("step")
    entries = [(name, colours[shades[name]]) for name in curves] if legend else []
    _legend(drawing, entries, several[len(drawn) :], colours)
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


def _panels(
    lines: int,
    columns: int,
    colours: Colours,
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
    shared: bool = True,
) -> tuple[Any, list[Any]]:
    """A figure of lines x columns quiet axes, sizes in inches. `shared`: all have one scale."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width, height), layout="constrained")
    panels = list(drawing.subplots(lines, columns, squeeze=False, sharey=shared).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(colours["grid"])
        axes.tick_params(colors=colours["soft"], labelsize=9, width=0.8)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set(color=colours["soft"], size=9)
        axes.grid(axis="both", color=colours["grid"], linewidth=0.6, alpha=0.7)
        axes.set_axisbelow(True)
    return drawing, panels


def _legend(
    drawing: Any,
    entries: Sequence[tuple[str, str]],
    unused: Sequence[Any],
    colours: Colours,
    columns: int = 4,
) -> None:
    """A colour for each name, fewer columns of them where names are long; panels left over are hidden."""
    from matplotlib.patches import Patch

    for axes in unused:
        axes.set_visible(False)
    if not entries:
        return
    width = 12 * drawing.get_size_inches()[0]  # characters
    fitting = max(1, int(width // (4 + max(len(name) for name, _ in entries))))
    drawing.legend(
        handles=[
            Patch(facecolor=colour, label=fill(name, int(width) - 4), linewidth=0) for name, colour in entries
        ],
        loc="outside upper left", ncols=min(columns, fitting, len(entries)), frameon=False, fontsize=8.5,
        labelcolor=colours["ink"], handlelength=1, handleheight=1, columnspacing=1.2, borderaxespad=0.1,
    )  # fmt: skip
