"""Seconds from opening a report until its first table, list or trajectory can be read, in headless Chromium.

python benchmarks/report_view.py [--tasks N] [--samples N] [--turns N] [--visits N] [--report FOLDER]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from analysis import make

from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import InputError
from cobalt.report.build import PAGE, build

VIEWS = {
    "first table": ("", "#report table"),
    "list": ("#/list", "#rows .row"),
    "trajectory": ("#/t/{run}/0/0/1", "#detail .diff"),
}


def visits(page: Path, address: str, selector: str, count: int) -> list[float]:
    """Seconds of `count` visits, each in a new context, until what `selector` names is visible."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(count):
            context = browser.new_context(viewport={"width": 1300, "height": 900})
            tab = context.new_page()
            began = time.monotonic()
            tab.goto(page.as_uri() + address, wait_until="commit")
            tab.wait_for_selector(selector, state="visible")
            seconds.append(time.monotonic() - began)
            context.close()
        browser.close()
    return seconds


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        "Seconds until parts of a report are visible, the median and the longest of several visits."
    )
    flags.add_argument("--tasks", type=positive_int, default=175)
    flags.add_argument("--samples", type=positive_int, default=16, help="per task")
    flags.add_argument("--turns", type=positive_int, default=9, help="per trajectory")
    flags.add_argument("--visits", type=positive_int, default=5)
    flags.add_argument("--report", type=Path, help="a report that is there, instead of a made one")
    args = flags.parse_args(argv)
    if args.report and not (args.report / PAGE).is_file():
        raise InputError(f"{args.report}: there is no report")
    with tempfile.TemporaryDirectory() as made:
        folder = args.report or Path(made) / "report"
        if not args.report:
            make(Path(made) / "big_eval.jsonl", args.tasks, args.samples, args.turns, 40, evaluated=True)
            build([str(Path(made) / "big_eval.jsonl")], folder)
            print(f"{args.tasks * args.samples * args.turns:,} programs")
        for name, (address, selector) in VIEWS.items():
            where = address.format(run="big")
            if "{" in address and args.report:
                continue  # the names of its runs are not known here
            found = visits((folder / PAGE).resolve(), where, selector, args.visits)
            print(f"{name}: median {statistics.median(found):.2f} s, longest {max(found):.2f} s")
    return 0


if __name__ == "__main__":
    run_main(main)
