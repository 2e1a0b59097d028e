"""How every chart looks: axes, colours, legends, and the drawing as SVG for a page or a file."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

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
WIDTH, HEIGHT = 4.7, 3.0  # inches: also the size at which text is readable on a telephone


def inline_svg(drawing: Any, caption: str, salt: str) -> str:
    """A drawing in the colours of PAGE as an <svg> element that scales with its column and takes its colours
    from the page's CSS variables; the same for the same data. `salt` is unique in the page.
    """
    import matplotlib

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


def panels(
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


def hide(panels: Sequence[Any]) -> None:
    for axes in panels:
        axes.set_visible(False)


def bar(draw: Any, place: float, ends: Sequence[float | None], colour: str) -> None:
    """The interval of a rate, cut at 0 and 100 %."""
    lo, hi = ends
    if lo is not None and hi is not None:
        draw(place, 100 * max(0, lo), 100 * min(1, hi), color=colour, linewidth=2.2, alpha=0.5)


def stack(draw: Any, place: float, shares: Sequence[float], shades: Sequence[str], **size: float) -> None:
    floor = 0.0
    for share, shade in zip(shares, shades, strict=True):
        start = {"left" if "height" in size else "bottom": floor}
        draw(place, share, **start, **size, color=shade, linewidth=0)
        floor += share


def named_rows(axes: Any, names: Sequence[str]) -> None:
    """Rows from top to bottom, each with its name."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.42, -0.58)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def label_ends(axes: Any, x: float, ending: Sequence[tuple[float, str, str]], colours: Colours) -> None:
    """Name each line at its end, moving names apart that would cover one another."""
    floor = 0.0
    for height, label, colour in sorted(ending):
        floor = max(height, floor)
        axes.text(x, floor, label, color=colours[colour], va="center", fontsize=9, fontweight="bold")
        floor += 7.5


def legend(drawing: Any, entries: Sequence[tuple[str, str]], colours: Colours, columns: int = 4) -> None:
    from matplotlib.patches import Patch

    drawing.legend(
        handles=[Patch(facecolor=colour, label=name, linewidth=0) for name, colour in entries],
        loc="outside upper left", ncols=min(columns, len(entries)), frameon=False, fontsize=8.5,
        labelcolor=colours["ink"], handlelength=1, handleheight=1, columnspacing=1.2, borderaxespad=0.1,
    )  # fmt: skip
