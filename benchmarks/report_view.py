"""Seconds from opening a report until its first table, list or trajectory can be read, and milliseconds of a
search over all its programs and feedback, in headless Chromium.

python benchmarks/report_view.py [--tasks N] [--samples N] [--turns N] [--distinct N] [--visits N]
    [--report FOLDER]
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis import make

from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import InputError
from cobalt.report.build import PAGE, build

VIEWS = {
    "first table": ("", "#report table"),
    "list": ("#/list", "#rows .row"),
    "trajectory": ("#/t/{run}/0/0/1", "#detail .diff"),
}


WORDS = ("e", "sort", "because order sort", "program's output", "nowhere")
# Milliseconds from asking for words until the list of all that was found is drawn.
SEARCH = """async words => {
  const began = performance.now(), field = document.getElementById("f-text");
  field.value = words;
  field.dispatchEvent(new Event("input"));
  while (search.state !== "read") await new Promise(done => setTimeout(done, 1));
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - began;
}"""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser: Any, page: Path, address: str, selector: str) -> Iterator[tuple[Any, float]]:
    """A visit in a new context: its tab, and seconds until what `selector` names was visible."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    tab = context.new_page()
    began = time.monotonic()
    tab.goto(page.as_uri() + address, wait_until="commit")
    tab.wait_for_selector(selector, state="visible")
    yield tab, time.monotonic() - began
    context.close()


def visits(page: Path, address: str, selector: str, count: int) -> list[float]:
    """Seconds of `count` visits until what `selector` names is visible."""
    seconds = []
    with chromium() as browser:
        for _ in range(count):
            with opened(browser, page, address, selector) as (_tab, spent):
                seconds.append(spent)
    return seconds


def searches(page: Path, count: int) -> dict[str, list[float]]:
    """Milliseconds of searches: the first of a visit, begun when the list is seen, and those after it."""
    found: dict[str, list[float]] = {"search at once": [], "search": []}
    with chromium() as browser:
        for _ in range(count):
            with opened(browser, page, *VIEWS["list"]) as (tab, _seconds):
                found["search at once"].append(tab.evaluate(SEARCH, WORDS[-1]))
                found["search"] += [tab.evaluate(SEARCH, words) for words in WORDS]
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        "Seconds until parts of a report are visible, the median and the longest of several visits."
    )
    flags.add_argument("--tasks", type=positive_int, default=175)
    flags.add_argument("--samples", type=positive_int, default=16, help="per task")
    flags.add_argument("--turns", type=positive_int, default=9, help="per trajectory")
    flags.add_argument("--distinct", type=int, default=40, help="different programs of a task; 0: all are")
    flags.add_argument("--visits", type=positive_int, default=5)
    flags.add_argument("--report", type=Path, help="a report that is there, instead of a made one")
    args = flags.parse_args(argv)
    if args.report and not (args.report / PAGE).is_file():
        raise InputError(f"{args.report}: there is no report")
    with tempfile.TemporaryDirectory() as made:
        folder = args.report or Path(made) / "report"
        if not args.report:
            make(
                Path(made) / "big_eval.jsonl",
                args.tasks,
                args.samples,
                args.turns,
                args.distinct,
                evaluated=True,
            )
            build([str(Path(made) / "big_eval.jsonl")], folder)
            print(f"{args.tasks * args.samples * args.turns:,} programs")
        for name, (address, selector) in VIEWS.items():
            where = address.format(run="big")
            if "{" in address and args.report:
                continue  # the names of its runs are not known here
            found = visits((folder / PAGE).resolve(), where, selector, args.visits)
            print(f"{name}: median {statistics.median(found):.2f} s, longest {max(found):.2f} s")
        for name, spent in searches((folder / PAGE).resolve(), args.visits).items():
            print(f"{name}: median {statistics.median(spent):.0f} ms, longest {max(spent):.0f} ms")
    return 0


if __name__ == "__main__":
    run_main(main)
