"""The plots of the page as inline SVG, drawn by matplotlib and coloured by the page's style sheet.

Colours are written as place holders and replaced by CSS variables, so that one drawing serves light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Place holder -> CSS variable. The values only have to be distinct.
_COLOURS = {
    "ink": "#010101",
    "soft": "#020202",
    "grid": "#030303",
    "reference": "#040404",
    "cobalt": "#050505",
    "control": "#060606",
}
_SIZE = (4.7, 3.0)  # inches: also the size at which text is readable on a telephone


def pass_by_turn(arms: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    """Pass@1 by turn with 95 % intervals. `arms`: name (reference, cobalt, control) to `pass_at_1` and
    `ci95`.
    """
    return inline_svg(draw_pass_by_turn(arms, labels), "Pass@1 by turn with 95 % intervals", "turns")


def draw_pass_by_turn(
    arms: Mapping[str, Mapping[str, Any]],
    labels: Mapping[str, str],
    colours: Mapping[str, str] = _COLOURS,
) -> Any:
    """The same as a matplotlib figure, in `colours`."""
    drawing, axes = figure(colours=colours)
    width, ending = 0.06, list[tuple[float, str, str]]()
    for position, (name, arm) in enumerate(arms.items()):
        means = [100 * value for value in arm["pass_at_1"]]
        turns = [turn + 1 + width * (position - (len(arms) - 1) / 2) for turn in range(len(means))]
        ends = [
            [mean if bound is None else 100 * bound for mean, bound in zip(means, side, strict=True)]
            for side in zip(*arm["ci95"], strict=True)
        ]
        colour = colours[name]
        axes.vlines(turns, ends[0], ends[1], color=colour, linewidth=2, alpha=0.55)
        axes.plot(turns, means, color=colour, linewidth=2, marker="o", markersize=5)
        ending.append((means[-1], f"{labels[name]} {means[-1]:.0f}", name))
    count = max(len(arm["pass_at_1"]) for arm in arms.values())
    axes.set_xlim(0.75, count + 0.25 + 0.22 * count)
    label_ends(axes, count + 0.12, ending, colours=colours)
    axes.set_xticks(range(1, count + 1))
    axes.set_xlabel("turn")
    axes.set_ylabel("Pass@1 on hidden tests, %")
    axes.set_ylim(0, 100)
    return drawing


def training_curve(curves: Mapping[str, Sequence[Mapping[str, float]]], labels: Mapping[str, str]) -> str:
    """Share of training programs that pass every test, by step (thin), and its mean over ten steps."""
    drawing, axes = figure()
    ending = list[tuple[float, str, str]]()
    for name, curve in curves.items():
        steps = [point["step"] for point in curve]
        solved = [100 * point["solved"] for point in curve]
        smooth = [_mean(solved[max(0, i - 9) : i + 1]) for i in range(len(solved))]
        axes.plot(steps, solved, color=_COLOURS[name], linewidth=0.8, alpha=0.4)
        axes.plot(steps, smooth, color=_COLOURS[name], linewidth=2)
        ending.append((smooth[-1], labels[name], name))
    last = int(max(point["step"] for curve in curves.values() for point in curve))
    axes.set_xlim(0, last * 1.3)
    axes.set_xticks(range(0, last + 1, max(1, last // 6)))
    label_ends(axes, last * 1.03, ending)
    axes.set_ylim(0, 100)
    axes.set_xlabel("optimisation step")
    axes.set_ylabel("programs right, %")
    return inline_svg(drawing, "Share of right programs during training", "training")


def gains(rows: Sequence[tuple[str, float, Sequence[float | None]]], caption: str, salt: str) -> str:
    """Differences in points with 95 % intervals, one line each, and a line at zero."""
    drawing, axes = figure(height=0.6 + 0.48 * len(rows))
    for place, (_, points, (lo, hi)) in enumerate(rows):
        if lo is not None and hi is not None:
            axes.hlines(place, lo, hi, color=_COLOURS["cobalt"], linewidth=3, alpha=0.55)
        axes.plot([points], [place], color=_COLOURS["cobalt"], marker="o", markersize=6)
    axes.axvline(0, color=_COLOURS["soft"], linewidth=1)
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference in points")
    return inline_svg(drawing, caption, salt)


def label_ends(
    axes: Any,
    x: float,
    ending: Sequence[tuple[float, str, str]],
    apart: float = 7.0,
    colours: Mapping[str, str] = _COLOURS,
) -> None:
    """Name each line at its end, moving names apart that would cover one another (`apart`: in percent)."""
    floor = 0.0
    for height, label, name in sorted(ending):
        floor = max(height, floor)
        axes.text(x, floor, label, color=colours[name], va="center", fontsize=9, fontweight="bold")
        floor += apart


def figure(
    height: float = _SIZE[1], width: float = _SIZE[0], colours: Mapping[str, str] = _COLOURS
) -> tuple[Any, Any]:
    """A matplotlib figure and its axes in the page's style, sizes in inches."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width, height), layout="constrained")
    axes = drawing.add_subplot()
    style(axes, colours)
    return drawing, axes


def style(axes: Any, colours: Mapping[str, str] = _COLOURS) -> None:
    """Quiet axes: a grid, two spines, small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    for spine in ("left", "bottom"):
        axes.spines[spine].set_color(colours["grid"])
    axes.tick_params(colors=colours["soft"], labelsize=9, width=0.8)
    axes.xaxis.label.set(color=colours["soft"], size=9)
    axes.yaxis.label.set(color=colours["soft"], size=9)
    axes.grid(axis="both", color=colours["grid"], linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)


def inline_svg(drawing: Any, caption: str, salt: str, colours: Mapping[str, str] = _COLOURS) -> str:
    """The drawing as an <svg> element that scales with its column; the same for the same data.

    `colours`: name to place holder; a place holder becomes the CSS variable of its name.
    """
    import matplotlib

    drawing.patch.set_alpha(0)
    for axes in drawing.axes:
        axes.patch.set_alpha(0)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Names inside must not meet those of the other drawings of the page.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{salt}-", svg)
    for name, colour in colours.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"font: ((?:bold )?[\d.]+px) [^;\"]*", r"font: \1 var(--sans)", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
