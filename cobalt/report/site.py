"""The page of a report and its charts: inline in the page's colours, and as SVG and PNG files."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.analysis import leakage
from cobalt.cli import Progress
from cobalt.files import atomic_write
from cobalt.report import charts, words
from cobalt.report.charts import LIGHT, PAGE, Colours
from cobalt.report.plots import inline_svg
from cobalt.report.tables import Table

if TYPE_CHECKING:
    from cobalt.report.build import Report

FUNNELS = {"funnel_tasks": "From rows to tasks", "funnel_contexts": "From trajectories to contexts"}
_DPI = 160


def figures(report: Report, folder: Path, progress: Progress | None = None) -> dict[str, str]:
    """Draw every chart there is something for; files go to `folder`, inline drawings are returned by name."""
    drawn = _charts(report)
    folder.mkdir()
    inline = {}
    for done, (name, (caption, draw)) in enumerate(drawn.items(), start=1):
        inline[name] = inline_svg(draw(PAGE), caption, name, PAGE)
        atomic_write(folder / f"{name}.svg", _standalone(inline[name]))
        buffer = io.BytesIO()
        drawing = draw(LIGHT)
        drawing.savefig(buffer, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None})
        atomic_write(folder / f"{name}.png", buffer.getvalue())
        if progress is not None:
            progress.advance("charts", done, len(drawn))
    return inline


def _charts(report: Report) -> dict[str, tuple[str, Callable[[Colours], Any]]]:
    """Name -> (caption, function that draws it in given colours)."""
    runs = report.runs
    made: dict[str, tuple[str, Callable[[Colours], Any]]] = {
        "pass_at_1": ("Pass@1 by turn with 95 % bands", lambda c: charts.pass_by_turn(runs, c)),
        "pass_at_k": ("Pass@k by k", lambda c: charts.pass_at_k(runs, c)),
        "breakdown": ("Pass@1 by kind of task", lambda c: charts.breakdown(runs, c)),
    }
    if any(run["summary"]["transitions"] for run in runs):
        made["transitions"] = ("What becomes of programs", lambda c: charts.transitions(runs, c))
    curves = {name: rows for name, rows in report.curves.items() if len(rows) > 1}
    if curves:
        known = {run["name"]: run["colour"] for run in runs}
        spare = [f"c{i + 1}" for i in range(charts.RUN_COLOURS) if f"c{i + 1}" not in known.values()] or [
            "c1"
        ]
        unknown = [name for name in curves if name not in known]
        shades = known | {name: spare[i % len(spare)] for i, name in enumerate(unknown)}
        made["training"] = ("Training metrics by step", lambda c: charts.training(curves, shades, c))
    bent = [run for run in runs if run["errors"] and run["errors"]["turns"]]
    if bent:
        made["hacking"] = ("Programs bent to wrong tests", lambda c: charts.hacking(bent, c))
    judged = [run for run in runs if run["judge"] and run["judge"].get("verdicts")]
    if judged:
        made["categories"] = ("Kinds of hacking", lambda c: charts.categories(judged, c))
    for name, steps in report.funnels.items():
        made[name] = (FUNNELS[name], lambda c, steps=steps: charts.funnel(steps, c))  # type: ignore[misc]
    return made


def _standalone(svg: str) -> str:
    """An inline drawing as a file of its own: colours and font in place of variables, with a white ground."""
    svg = re.sub(r"var\(--(\w+)\)", lambda m: LIGHT.get(m.group(1), "sans-serif"), svg)
    return svg.replace("<svg", '<svg style="background: white"', 1) + "\n"


def render(report: Report, drawings: Mapping[str, str], made: Mapping[str, Table]) -> str:
    """The page. Nothing in it refers to anything outside its folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("cobalt.report", "static"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"percent": words.percent, "shares": _shares}
    return environment.get_template("index.html").render(
        title=report.title,
        lead=_lead(report),
        notes=report.notes,
        runs=report.runs,
        drawings={name: Markup(svg) for name, svg in drawings.items()},
        tables=made,
        cost=made["cost"],
        funnels=[(name, title) for name, title in FUNNELS.items() if name in report.funnels],
        leaks=report.leaks,
        leak_kinds=leakage.KINDS,
        flagged=report.flagged,
        never_solved=report.never_solved,
        versions=report.versions,
        manifests={path: json.dumps(value, indent=1) for path, value in report.manifests.items()},
        style=Markup(_static("page.css") + _static("index.css")),
        script=Markup(_static("viewer.js")),
    )


def _lead(report: Report) -> str:
    """The finding in one sentence."""
    if report.comparison is None:
        (run,) = report.runs
        first, last = (run["summary"]["pass_at_1"][turn] for turn in (0, -1))
        return f"Pass@1 {words.percent(first)} % at the first turn, {words.percent(last)} % at the last."
    last_turn = report.comparison["turns"][-1]
    rows = [row for row in report.comparison["comparisons"] if row["turn"] == last_turn and row["n"]]
    said = [
        f"{row['b']} {row['points']:+.1f} points {words.interval(row['ci95'], sign=True)}".strip()
        for row in rows
    ]
    return f"At turn {last_turn}, against {report.runs[0]['name']} (paired by task): {'; '.join(said)}."


def _shares(ends: Sequence[float | None]) -> str:
    """An interval of a share in percent, cut at 0 and 100; "n/a" where there is none."""
    lo, hi = ends
    return "n/a" if lo is None or hi is None else words.interval([max(0.0, lo), min(1.0, hi)], 100)


def _static(name: str) -> str:
    return (resources.files("cobalt.report") / "static" / name).read_text(encoding="utf-8")
