"""All pages at the widths of a telephone, a tablet and a desk, light and dark: nothing cut, nothing to scroll
sideways, nothing that axe finds; and the page of a run under way.
"""

import time
from pathlib import Path

import pytest
from chromium import IN_CHROMIUM
from report_data import MODEL_CARD, analysed, curves, results, trajectories

from cobalt.report.build import build
from cobalt.report.render import live_page, write_run_page

LONG = "single_turn_training_on_as_many_completions"
# axe-core looks for contrast, names, roles, keyboard access. It runs in the page and needs no network.
SCROLLING = """[document.documentElement, ...document.querySelectorAll('main *:not(svg *)')].filter(each =>
  each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 1
  && getComputedStyle(each).display !== 'inline'
  && each.tagName !== 'PRE').map(each => each.outerHTML.slice(0, 90))"""
CUT = """[...document.querySelectorAll('svg text')].filter(text => {
  const all = text.closest('svg').getBoundingClientRect(), own = text.getBoundingClientRect();
  return own.width && (own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1);
}).map(text => text.textContent)"""
# Every cell with a difference lies within the window.
OUTSIDE = """[...document.querySelectorAll('#report td, main td')].filter(cell => {
  const box = cell.getBoundingClientRect();
  return box.width && (box.left < 0 || box.right > innerWidth);
}).map(cell => cell.innerText)"""

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    reference, trained, *more = analysed(folder)
    long = trajectories(folder / "long_eval.jsonl", tasks=24, samples=4, turns=4)
    named = [f"reference={reference}", f"cobalt={trained}", f"{LONG}={long}"]
    build([*named, *more], folder / "report", smoke=True)
    found = results(folder) | {"smoke": True, "name": "qwen3-8b", "set": "livecodebench", "model": LONG}
    how = {"curves": curves(), "model_card": MODEL_CARD, "details": "report/index.html"}
    write_run_page(folder / "run.html", found, **how)
    (folder / "live.html").write_text(live(time.time() - 5 * 3600))
    return {"report": folder / "report/index.html", "run": folder / "run.html", "live": folder / "live.html"}


def live(written: float, every_s: float = 10) -> str:
    """The page of a run that is in its second stage."""
    stages = [
        {"title": f"stage {state}", "state": state, "said": "programs 64/128", "for_s": for_s}
        for state, for_s in (("done", None), ("running", 5.0), ("to come", None))
    ]
    facts = {"configuration": "mine", "folder": "/a/long/folder" * 9}
    how = {"state": "under way", "why": "", "smoke": True, "every_s": every_s}
    return live_page(facts, stages, written=written, **how)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1300])
def test_all_pages_read_well_at_every_width(pages, browser, tmp_path, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        for name, path in pages.items():
            page = context.new_page()
            page.goto(path.as_uri() + ("#still" if name == "live" else ""))
            page.screenshot(path=tmp_path / "shots" / f"{name}-{width}-{scheme}.png", full_page=True)
            for question in (SCROLLING, CUT, OUTSIDE):
                assert page.evaluate(question) == [], (name, question)
            found = axe.run(page).response["violations"]
            assert [f"{v['id']}: {each['html'][:160]}" for v in found for each in v["nodes"]] == [], name


def test_a_run_under_way_can_be_opened_and_one_that_was_killed_says_so(pages, browser, tmp_path):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(pages["live"].as_uri())
        page.wait_for_selector("text=No sign of life for 5 h")
        assert page.title() == "[smoke run] mine: no sign of life"
        page.keyboard.press("Tab")
        page.keyboard.press("Space")  # no more refreshing, also after a reload
        page.reload()
        assert not page.is_checked("#refresh") and page.url.endswith("#still")
        (alive := tmp_path / "report.html").write_text(live(time.time(), every_s=2))
        page.goto(alive.as_uri())
        assert page.is_visible("text=stage running") and not page.is_visible("#dead")
        alive.write_text("<title>the report</title>")  # what the last stage does
        page.wait_for_function("document.title === 'the report'")
