"""What reports measured beside what the paper reports, and one page with every table of all reports.

    python scripts/reproduce/combine_reports.py REPORT ... [--smoke]
    python scripts/reproduce/combine_reports.py --page FOLDER   # of all report_* in it: FOLDER/index.html

Of the papers' figures only those of their abstracts are known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.evaluation.format import points, rate
from cobalt.files import atomic_write
from cobalt.report.build import DATA
from cobalt.report.published import ABOUT_PUBLISHED, OFFLINE, UNKNOWN, published
from cobalt.report.published import GAINS as GAINS
from cobalt.report.tables import Table, named
from cobalt.report.terminal import on_terminal

_FIRST = ("pass_at_1", "comparison", "pass_at_k", "hacking", "verdicts")
_STYLE = (
    "h1 { font-size: 1.7rem; color: var(--ink); } td { overflow-wrap: normal; min-width: 0; } "
    "td:first-child, th { overflow-wrap: anywhere; } "
    "@media (max-width: 40rem) { td, th { font-size: .72rem; padding: .3rem .15rem; } }"
)


def reported(report: str, arm: str) -> str:
    """What is known of the paper's result for an arm of the report of a name (`livecodebench_qwen3-8b`)."""
    if report.startswith("offline_rl_"):
        return OFFLINE
    tasks = "livecodebench" if report.startswith("livecodebench_") else None
    return published(report.rpartition("_")[2], tasks, arm) or UNKNOWN


def is_smoke(folder: Path) -> bool:
    """Whether one of the runs in a folder of `scripts/reproduce` was a smoke run."""
    return any(json.loads(path.read_text())["smoke"] for path in folder.glob("*/*/results.json"))


def beside(report: Path, *, smoke: bool) -> list[str]:
    """Lines on a report's folder: for each arm its gain at the last turn over the reference, or, where there
    is no reference, its Pass@1; on perturbed tests the share of bent programs too; and what is published.

    A smoke run is compared with nothing. Raises InputError for a folder without a report.
    """
    name = _name(report)
    if smoke:
        return [f"{name}: a smoke run, compared with nothing"]
    return [f"{name}, last turn, 95 % intervals:", *_arms(name, _read(report))]


def _name(report: Path) -> str:
    return report.name.removeprefix("report_")


def _read(report: Path) -> Any:
    try:
        return json.loads((report / DATA).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{report}: there is no report ({DATA}: {error.strerror})") from None


def _arms(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    for run in found["runs"]:
        gain, bent = _gain(found["comparison"], run["name"]), _bent(run)
        said = []
        if gain is not None:
            said.append(f"{points(gain)} points over the reference")
        elif run["name"] != "reference":
            said.append(f"Pass@1 {_rate(run).replace(' ', ' % ', 1)}")
        if bent is not None:
            said.append(bent.replace(" ", " % of programs bent ", 1))
        if said:
            yield f"- {run['name']}: {', '.join(said)}; published: {reported(name, run['name'])}"


def _rate(run: Mapping[str, Any]) -> str:
    return rate(run["summary"]["pass_at_1"][-1], run["summary"]["ci95"][-1])


def _bent(run: Mapping[str, Any]) -> str | None:
    found = run["errors"] and run["errors"]["all_turns"]
    return rate(found["rate"], found["ci95"]) if found else None


def overall(reports: Sequence[Path], *, smoke: bool) -> Table:
    """Every run of all reports in one table: what was measured at the last turn, and what is published."""
    rows = []
    for report in reports:
        found, name = _read(report), _name(report)
        for run in found["runs"]:
            gain = _gain(found["comparison"], run["name"])
            compared = not smoke and run["name"] != "reference"
            rows.append([
                name.replace("_", " "), run["name"], run.get("model") or "-", _rate(run),
                "-" if gain is None else points(gain), _bent(run) or "-",
                reported(name, run["name"]) if compared else "-",
            ])  # fmt: skip
    head = ["result", "run", "model", "Pass@1, % [95 %]", "over the reference", "bent, % [95 %]", "published"]
    kept = [place for place in range(len(head)) if place < 2 or any(row[place] != "-" for row in rows)]
    cells = [[row[place] for place in kept] for row in rows]
    notes = f"{_name(reports[0])}: a smoke run, compared with nothing" if smoke else ABOUT_PUBLISHED
    table = Table("overall", "At the last turn", [head[place] for place in kept], cells, notes)
    return named([table], smoke=smoke)["overall"]


def _gain(comparison: Mapping[str, Any] | None, arm: str) -> Mapping[str, Any] | None:
    rows = [] if comparison is None else comparison["comparisons"]
    pairs = [row for row in rows if (row["a"], row["b"]) == ("reference", arm)]
    last = max(pairs, key=lambda row: row["turn"], default=None)
    return None if last is None or last["points"] is None else last


def page(folder: Path) -> Path:
    """Write `tables.md` and `index.html` into `folder`, from the tables of all `report_*` folders in it.

    Each report begins with what is published beside what was measured. Says so if any of the runs beside
    them was a smoke run. Returns the page. Raises InputError if there are no reports.
    """
    from markdown_it import MarkdownIt

    reports = sorted(each for each in folder.glob("report_*") if (each / "tables").is_dir())
    if not reports:
        raise InputError(f"{folder}: there are no reports (report_*/tables)")
    smoke = is_smoke(folder)
    parts = ["# Results", f"{len(reports)} reports; each has charts and every trajectory."]
    if smoke:
        parts.append("**A smoke run: that every stage works is all it shows, whatever model a name says.**")
    for report in reports:
        name = report.name.removeprefix("report_")
        parts += [f"## {name.replace('_', ' ')}", f"[the report]({report.name}/index.html)"]
        parts.append("\n".join(beside(report, smoke=smoke)[1:]))
        found = {path.stem: path for path in sorted((report / "tables").glob("*.md"))}
        ordered = sorted(found, key=lambda each: _FIRST.index(each) if each in _FIRST else len(_FIRST))
        parts += [found[each].read_text(encoding="utf-8").strip() for each in ordered]
    text = "\n\n".join(filter(None, parts)) + "\n"
    atomic_write(folder / "tables.md", text)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    style = (resources.files("cobalt.report") / "static" / "page.css").read_text(encoding="utf-8") + _STYLE
    region = '<div class="scroll" tabindex="0" role="region" aria-label="table {}"><table>'
    first, *others = body.split("<table>")
    body = first + "".join(region.format(at) + other for at, other in enumerate(others, 1))
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>'
        f'{"[smoke run] " if smoke else ""}Results</title><link rel="icon" href="data:,"><meta '
        f'name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
    )
    body = body.replace("</table>", "</table></div>")
    atomic_write(folder / "index.html", f"{head}<body><main>{body}</main></body></html>\n")
    return folder / "index.html"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or write the page; returns the exit code."""
    flags = parser("What the paper reports beside what reports of scripts/reproduce measured.")
    flags.add_argument("reports", nargs="*", type=Path, help="report_* folders")
    flags.add_argument("--smoke", action="store_true", help="they are of smoke runs")
    flags.add_argument("--page", type=Path, metavar="FOLDER", help="one page with every table of its reports")
    args = flags.parse_args(argv)
    if args.page:
        print(f"every table: {page(args.page)}")
    if args.reports:
        smoke = args.smoke or any(is_smoke(report.parent) for report in args.reports)
        table, console = overall(args.reports, smoke=smoke), Console()
        if not console.is_terminal:
            console.width = 150
        console.print(on_terminal(table))
        print(f"\n{table.notes}")
    return 0


if __name__ == "__main__":
    run_main(main)
