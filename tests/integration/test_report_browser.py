"""Both pages in a real browser: no errors, no outside requests, keys, links, contrast, dark, phone, size."""

import json
import shutil
import time
from pathlib import Path

import pytest
from report_data import MODEL_CARD, analysed, curves, results, trajectories

from cobalt.report.build import build
from cobalt.report.render import write_run_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
# Each shot is kept for a reader's eye: pytest --basetemp=DIR, then DIR/**/shots/*.png.
SIZES = {"desk": (1280, 900), "phone": (390, 844)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (on Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    build(analysed(folder), folder / "report")
    return folder / "report" / "index.html"


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "report.html"
    found = results(path.parent)
    write_run_page(path, found, curves=curves(), model_card=MODEL_CARD, details="report/index.html")
    return path


@pytest.fixture
def visit(browser):
    """Opens an address and fails the test for console errors, page errors and requests outside the folder."""
    faults, contexts = [], []

    def visit(path: Path, address: str = "", *, size: str = "desk", scheme: str = "light"):
        width, height = SIZES[size]
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        page = contexts[-1].new_page()
        inside = path.parent.as_uri()
        page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
        page.on("request", lambda r: None if r.url.startswith((inside, "data:")) else faults.append(r.url))
        page.goto(path.as_uri() + address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert faults == []


def data(report: Path, name: str):
    """What a script of the viewer hands to the page."""
    text = (report.parent / "data" / name).read_text()
    return json.loads(text[text.index("{", text.index("(")) : text.rindex(")")])


@pytest.mark.parametrize(
    "size, scheme",
    [
        ("desk", "light"),
        ("phone", "dark"),
        pytest.param("desk", "dark", marks=pytest.mark.full),
        pytest.param("phone", "light", marks=pytest.mark.full),
    ],
)
def test_both_pages_read_well(report, demo, visit, tmp_path, size, scheme):
    # axe-core looks for contrast, names, roles, keyboard access. It runs in the page and needs no network.
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    views = {"results": (report, ""), "list": (report, "#/list?step=fixed"), "demo": (demo, ""),
             "trajectory": (report, "#/t/cobalt/task-003/1/3")}  # fmt: skip
    for name, (path, address) in views.items():
        page = visit(path, address, size=size, scheme=scheme)
        if address:
            page.wait_for_selector("#rows .row" if "list" in address else ".diff", state="visible")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
        found = axe.run(page).response["violations"]
        assert [f"{v['id']}: {node['html'][:160]}" for v in found for node in v["nodes"]] == [], name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(ground) < 150) is (scheme == "dark")
        page.screenshot(path=tmp_path / "shots" / f"{name}-{size}-{scheme}.png", full_page=True)


def test_filters_narrow_the_list_and_stay_in_the_address(report, visit):
    page = visit(report, "#/list")
    page.wait_for_selector("#rows .row")
    assert page.inner_text("#count") == "192 of 192 trajectories"
    rows = [([rate == 100 for rate in row[3]], bool(row[4])) for row in data(report, "index.js")["rows"]]

    def count(**chosen) -> int:
        for name in ("run", "outcome", "step", "turn", "difficulty", "bent"):
            page.select_option(f"#f-{name}", value=chosen.get(name, ""))
        page.fill("#f-task", chosen.get("task", ""))
        return int(page.inner_text("#count").split()[0])

    assert count(run="1") == 96
    assert count(task="TASK-01") == 80  # ten of 24 tasks, in both runs
    assert count(outcome="never") == sum(not any(right) for right, _ in rows)
    assert count(outcome="always") == sum(all(right) for right, _ in rows)
    assert count(outcome="lost") == sum(any(right) and not right[-1] for right, _ in rows)
    assert count(outcome="right", turn="2") == sum(right[1] for right, _ in rows)
    assert count(step="broken", turn="3") == sum(right[1] and not right[2] for right, _ in rows)
    assert count(bent="yes") == sum(bent for _, bent in rows) > 0
    assert count(task="nothing has this id") == 0
    assert count(difficulty="easy", run="0") == 32
    assert page.evaluate("location.hash") == "#/list?run=0&difficulty=easy"
    page.reload()
    page.wait_for_selector("#rows .row")
    assert page.inner_text("#count") == "32 of 192 trajectories"
    page.click("#reset")
    assert page.inner_text("#count") == "192 of 192 trajectories"


def test_a_trajectory_shows_diff_feedback_verdicts_and_folded_thinking(report, visit):
    page = visit(report, "#/t/cobalt/task-003/1/3")
    page.wait_for_selector(".diff")
    chunk = data(report, "r1/0/3.js")
    before, now = chunk["samples"][1][1:3]
    lines = [chunk["codes"][turn["c"]].split("\n") for turn in (before, now)]
    changed = [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]]
    shown = page.locator(".diff tbody tr")
    cells = [shown.nth(i).locator("td.c").all_inner_texts() for i in range(shown.count())]
    assert [list(column) for column in zip(*cells, strict=True)] == lines
    for kind, column in (("del", 0), ("ins", 1)):
        marked = page.locator(f".diff td.{kind}.c").all_inner_texts()
        assert marked == [pair[column] for pair in changed]
    assert page.inner_text(".said pre") == (before["f"] or "All public tests passed.")
    heads = " ".join(page.locator("#detail h3, #detail th").all_inner_texts())  # people count turns from 1
    assert "told after turn 2" in heads and "Program of turn 3 against turn 2" in heads
    assert page.title().endswith("turn 3") and page.inner_text("nav.turns [aria-current=step]")[0] == "3"
    assert page.locator("#f-turn option").all_inner_texts()[1] == "turn 1"
    thinking = page.locator("details", has_text="Thinking")
    assert not thinking.locator("pre").is_visible()
    thinking.locator("summary").click()
    assert thinking.locator("pre").inner_text() == "step by step"
    public, hidden = page.locator(".tests").all()
    names = {"P": "passed", "W": "wrong answer", "T": "time limit", "R": "runtime error"}
    told = [f"{i} {names[x]}" for i, x in enumerate(now["h"], 1)]
    assert public.locator("li").count() == 3 and hidden.locator("summary").all_inner_texts() == told
    assert "<b>add</b>" in page.locator("#detail details", has_text="Problem").locator("pre").text_content()


def test_keys_move_through_turns_and_trajectories(report, visit):
    page = visit(report, "#/t/reference/task-000/0/1")
    page.wait_for_selector(".diff")

    def press(*keys) -> list[str]:
        for key in keys:
            page.keyboard.press(key)
        return page.evaluate("location.hash").split("/")[2:]

    assert press() == ["reference", "task-000", "0", "1"]
    assert press("ArrowRight", "l")[3] == "3" and press("ArrowLeft")[3] == "2"
    assert press("j")[:3] == ["reference", "task-000", "1"]
    assert press("k", "End")[:3] == ["cobalt", "task-023", "3"]
    assert page.get_attribute("#list", "aria-activedescendant") == "o191"
    assert press("ArrowDown")[:3] == ["cobalt", "task-023", "3"]  # the end
    press("/")
    page.keyboard.type("task-005")
    assert page.inner_text("#count") == "8 of 192 trajectories"
    assert press("Escape", "ArrowDown")[:3] == ["reference", "task-005", "0"]
    press("?")
    assert page.locator("#help").is_visible()
    press("Escape")
    assert not page.locator("#help").is_visible()
    # A key takes effect within its own event: the next one may come before the address is told of.
    assert page.evaluate(
        """() => {
          for (const key of ["Escape", "j"])
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
          return document.getElementById("viewer").hidden && !document.getElementById("report").hidden;
        }"""
    )
    page.go_back()
    page.wait_for_selector(".diff", state="visible")
    assert press()[:3] == ["reference", "task-005", "0"]


def test_links_dead_addresses_and_the_phone(report, demo, visit):
    page = visit(report)
    assert page.locator("#report figure").count() == 3 and visit(demo).locator("figure svg").count() == 2
    for link in page.locator("#report a[href]").evaluate_all("all => all.map(a => a.getAttribute('href'))"):
        assert link.startswith("#") or (report.parent / link).is_file(), link
    page.click("text=the broken ones")
    page.wait_for_selector(".diff")
    assert page.input_value("#f-step") == "broken"
    page.click("text=cobalt >> nth=-1")
    page.wait_for_function("location.hash.startsWith('#/t/cobalt/')")
    page = visit(report, "#/t/cobalt/no-such-task/0/1")
    page.wait_for_selector("text=This report has no trajectory")
    page = visit(report, "#/list", size="phone")  # shows list or trajectory
    page.wait_for_selector("#rows .row")
    assert not page.locator("#detail").is_visible()
    page.locator("#rows .row").nth(2).click()
    page.wait_for_selector(".diff", state="visible")
    assert not page.locator("#list").is_visible() and page.locator(".diff table.pair").count() == 0
    page.click(".back")
    assert page.locator("#list").is_visible() and not page.locator("#detail").is_visible()
    closed = visit(demo).locator("details.example:not([open])").first.get_attribute("id")
    assert visit(demo, f"#{closed}").locator("details[open]").count() == 2  # an address opens its example


@pytest.mark.full
def test_ten_thousand_trajectories_do_not_lag(visit, tmp_path):
    runs = [tmp_path / f"{name}_eval.jsonl" for name in ("one", "two")]
    build([str(trajectories(run, tasks=625, samples=8, turns=2)) for run in runs], tmp_path / "report")
    started = time.monotonic()
    page = visit(tmp_path / "report" / "index.html", "#/list")
    page.wait_for_selector("#rows .row")
    first_view = time.monotonic() - started
    assert page.inner_text("#count") == "10,000 of 10,000 trajectories"
    assert page.locator("#rows .row").count() < 60
    spent = page.evaluate(
        """async () => {
          const list = document.getElementById("list"), times = [];
          for (let i = 0; i < 20; i++) {
            const start = performance.now();
            list.scrollTop = i * 20000;
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            times.push(performance.now() - start);
          }
          const start = performance.now(), task = document.getElementById("f-task");
          task.value = "61"; task.dispatchEvent(new Event("input"));
          return {scroll: times.sort((a, b) => a - b)[10], filter: performance.now() - start};
        }"""
    )
    files = [tmp_path / "report" / "index.html", *(tmp_path / "report" / "data").glob("*.js")]
    at_load = sum(path.stat().st_size for path in files)
    print(f"first view {first_view:.2f} s, {spent} ms, {at_load:,} bytes at load")
    assert at_load < 20e6 and first_view < 3 + 3 and spent["scroll"] < 200 and spent["filter"] < 500
