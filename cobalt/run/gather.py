"""One page with every table of the reports in a folder: `python -m cobalt.run.gather FOLDER`."""

from __future__ import annotations

from pathlib import Path

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.run.reported import beside, is_smoke

_FIRST = ("pass_at_1", "comparison", "pass_at_k", "hacking", "verdicts")
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #999;padding:.25rem .6rem}"
)


def gather(folder: Path) -> Path:
    """Write `tables.md` and `index.html` into `folder`, from the tables of all `report_*` folders in it.

    Each report begins with what is published beside what was measured. Says so if any of the runs beside
    them was a smoke run. Returns the page. Raises InputError if there are no reports.
    """
    reports = sorted(each for each in folder.glob("report_*") if (each / "tables").is_dir())
    if not reports:
        raise InputError(f"{folder}: there are no reports (report_*/tables)")
    parts = ["# Results", f"{len(reports)} reports; each has charts and every trajectory."]
    smoke = is_smoke(folder)
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
    page = folder / "index.html"
    atomic_write(page, _page(text))
    return page


def _page(text: str) -> str:
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Results</title>'
        f"<style>{_STYLE}</style><body>{body}</body></html>\n"
    )


def main(argv: list[str] | None = None) -> int:
    """Write the page; returns the exit code."""
    flags = parser("One page with every table of the reports in a folder.")
    flags.add_argument("folder", type=Path, help="folder with report_* folders")
    page = gather(flags.parse_args(argv).folder)
    print(f"every table: {page}")
    return 0


if __name__ == "__main__":
    run_main(main)
