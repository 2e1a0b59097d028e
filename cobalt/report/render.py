"""Both pages, from the templates in `static/`: `report.html` of a run and the `index.html` of a report."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from cobalt.evaluation.format import interval, percent, quoted
from cobalt.files import atomic_write
from cobalt.report import charts
from cobalt.report.charts import PAGE, RUN_COLOURS, inline_svg, standalone
from cobalt.report.published import ABOUT_PUBLISHED, published
from cobalt.report.search import encode
from cobalt.report.tables import STAMP, Results, Table, recipe_of, run_tables, set_name, trained_name

# The section of a model card that says what the reference model was taught.
_TAUGHT = re.compile(r"^#+ [^\n]*taught[^\n]*\n(.*?)(?=^#+ |\Z)", re.DOTALL | re.IGNORECASE | re.MULTILINE)

_UNIT = re.compile(r" (?=[\[(±])")
_LONGEST_UNIT = 16  # characters
# In this order: each uses what those before it define, and the last one starts the viewer.
_PARTS = ("data", "search", "filters", "list", "program", "tests", "actions", "detail", "route", "keys")
_VIEWER = [f"viewer/{name}.js" for name in _PARTS]

Curves = Mapping[str, Sequence[Mapping[str, Any]]]


def _page(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    drawings: Mapping[str, Sequence[str]],
    **values: Any,
) -> str:
    """A page. Nothing in it refers to anything outside its folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("cobalt.report", "static"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"percent": percent, "shares": partial(interval, scale=100), "units": _units}
    static = resources.files("cobalt.report") / "static"
    return environment.get_template(template).render(
        style=Markup("".join((static / name).read_text(encoding="utf-8") for name in styles)),
        script=Markup("".join((static / name).read_text(encoding="utf-8") for name in scripts)),
        drawings={name: [Markup(svg) for svg in several] for name, several in drawings.items()},
        stamp=STAMP,
        **values,
    )


def _units(cell: str) -> Any:
    """A cell of a table in which figures break only before what stands in brackets or behind ±."""
    from markupsafe import Markup

    whole, text = Markup("<span class=u>{}</span>"), Markup("{}")
    parts = _UNIT.split(cell)
    return Markup(" ").join((whole if len(part) <= _LONGEST_UNIT else text).format(part) for part in parts)


def figures(
    runs: Sequence[Mapping[str, Any]], curves: Curves, folder: Path, smoke: bool = False
) -> dict[str, list[str]]:
    """Draw every chart there is something for, with a stamp for a smoke run. A file each goes to `folder`;
    returned are the inline drawings by name, those of several panels panel by panel, so that they fit any
    width.
    """
    long = {name: rows for name, rows in curves.items() if len(rows) > 1}
    shades = shades_of(runs, long)
    stepping = [run for run in runs if run["summary"]["transitions"]]
    whole = {
        "pass_at_1": charts.pass_by_turn(runs, PAGE),
        "transitions": charts.transitions(stepping, PAGE) if stepping else None,
        "training": charts.training(long, shades, PAGE),
    }
    panels = {
        "pass_at_1": {"Pass@1 by turn with 95 % intervals": charts.pass_by_turn(runs, PAGE)},
        "transitions": {
            f"What becomes of programs of {run['name']}": charts.transitions([run], PAGE, alone=True)
            for run in stepping
        },
        "training": {
            f"{title} by step": panel
            for title in charts.CURVES
            if (panel := charts.training(long, shades, PAGE, [title], legend=False)) is not None
        },
    }
    folder.mkdir()
    inline = {}
    for name, drawing in whole.items():
        if drawing is not None:
            inline[name] = [
                inline_svg(each, caption, f"{name}-{number}", smoke=smoke)
                for number, (caption, each) in enumerate(panels[name].items())
            ]
            atomic_write(folder / f"{name}.svg", standalone(inline_svg(drawing, name, name, smoke=smoke)))
    return inline


def shades_of(runs: Sequence[Mapping[str, Any]], curves: Curves) -> dict[str, str]:
    """A colour for every run and every training, those of one name alike."""
    known = {run["name"]: run["colour"] for run in runs}
    spare = [f"c{i + 1}" for i in range(RUN_COLOURS) if f"c{i + 1}" not in known.values()] or ["c1"]
    unknown = [name for name in curves if name not in known]
    return known | {name: spare[i % len(spare)] for i, name in enumerate(unknown)}


def report_page(
    figures: Mapping[str, Any],
    manifests: Mapping[str, Any],
    drawings: Mapping[str, Sequence[str]],
    tables: Mapping[str, Table],
) -> str:
    """The page of a report; `figures` as in `report.json`."""
    return _page(
        "index.html", ["page.css", "index.css", "viewer/viewer.css"], _VIEWER, drawings,
        **figures,
        lead=_lead(figures),
        tables=tables,
        steps=charts.TRANSITIONS,
        trained={name: shades_of(figures["runs"], figures["curves"])[name] for name in figures["curves"]},
        manifests={path: json.dumps(value, indent=1) for path, value in manifests.items()},
    )  # fmt: skip


def _lead(figures: Mapping[str, Any]) -> str:
    """The finding in one sentence."""
    runs, comparison = figures["runs"], figures["comparison"]
    if comparison is None:
        first, last = (percent(runs[0]["summary"]["pass_at_1"][turn]) for turn in (0, -1))
        return f"Pass@1 {first} % at the first turn, {last} % at the last."
    turn = comparison["turns"][-1]
    said = [
        f"{row['b']} {row['points']:+.1f} points {interval(quoted(row), sign=True)}"
        for row in comparison["comparisons"] if row["turn"] == turn and row["n"]
    ]  # fmt: skip
    return f"At turn {turn + 1}, against {runs[0]['name']} (paired by task): {'; '.join(said)}."


def live_page(facts: Mapping[str, Any], stages: Sequence[Mapping[str, Any]], **how: Any) -> str:
    """The page of a run that has no result yet.

    `facts`: what it is, by name; `stages`: `title`, `state`, `said` and, of those at work, `for_s` seconds.
    In `how`: the `state` of the run, `why` it stopped, `smoke`, and `written`: now, seconds since 1970; it is
    written again every `every_s` seconds while the run lives.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(how["written"]))
    return _page("live.html", ["page.css"], ["live.js"], {}, facts=facts, stages=stages, at=at, **how)


def write_run_page(
    path: Path,
    results: Results,
    *,
    curves: Curves,
    model_card: str | None = None,
    card_link: str | None = None,
    details: str | None = None,
    further: Mapping[str, str] | None = None,
) -> None:
    """Write a run's `report.html` to `path`.

    `results` as in `results.json`; `curves`: for `cobalt` and `control` (single-turn training) the metrics by
    step; `model_card`: the reference's README in Markdown, whose section on what it was taught is quoted;
    `card_link` its address from the page; `details` that of the report with all charts, tables and
    trajectories, `further` those of reports on other tasks, by name.
    """
    from markupsafe import Markup

    tables, taught = run_tables(results), _TAUGHT.search(model_card or "")
    page = _page(
        "page.html", ["page.css"], ["page.js"], _run_drawings(results, curves),
        results=results,
        gain=results["gain_by_turn"][-1],
        gain_interval=interval(quoted(results["gain_by_turn"][-1]), sign=True),
        data=Markup(encode(results)),
        tables=tables,
        smoke=bool(results.get("smoke")),
        published=published(
            results.get("name"), results.get("set"), recipe_of(results), results.get("changed", ())
        ),
        about_published=ABOUT_PUBLISHED,
        trained=trained_name(results),
        set=set_name(results),
        taught=Markup(_markdown(taught[1])) if taught else None,
        card_link=card_link,
        details=details,
        further=further or {},
        changed=_changed,
    )  # fmt: skip
    atomic_write(path, page)


def arms_of(results: Results) -> list[dict[str, Any]]:
    """What is compared in `results.json`, as runs to draw: `name`, `colour`, and rates in `summary`."""
    rates = {
        name: {key: results[key][name] for key in ("pass_at_1", "ci95")} for name in ("reference", "cobalt")
    }
    arms = [
        {"name": "before", "colour": "c2", "summary": rates["reference"]},
        {"name": trained_name(results), "colour": "c1", "summary": rates["cobalt"]},
    ]
    single = results["controls"].get("single_turn_training")
    return arms + ([{"name": "single-turn", "colour": "c3", "summary": single}] if single else [])


def _run_drawings(results: Results, curves: Curves) -> dict[str, list[str]]:
    drawn = {"turns": (charts.pass_by_turn(arms_of(results), PAGE), "Pass@1 by turn with 95 % intervals")}
    names = {"cobalt": (trained_name(results), "c1"), "control": ("single-turn", "c3")}
    long = {names[name][0]: rows for name, rows in curves.items() if len(rows) > 1}
    training = charts.training(long, dict(names.values()), PAGE, ["programs right"])
    if training is not None:
        drawn["training"] = training, "Share of right programs during training"
    smoke = bool(results.get("smoke"))
    return {name: [inline_svg(*each, name, smoke=smoke)] for name, each in drawn.items()}


def _markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    rendered: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return rendered


def _changed(turn: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[tuple[str, bool]]:
    """Lines of a turn's program, and whether each is new against the program before."""
    old = (before or {}).get("code")
    known = None if old is None else set(old.splitlines())
    lines = (turn["code"] or "").splitlines()
    return [(line, known is not None and line not in known) for line in lines]
