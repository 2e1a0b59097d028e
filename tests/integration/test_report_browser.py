"""Both pages in a real browser: no errors, no outside requests, keys, links, contrast, dark, phone, size."""

import json
import shutil
import time
from pathlib import Path

import pytest
from report_data import MODEL_CARD, analysed, curves, results, trajectories

from cobalt.report import page as demo_page
from cobalt.report.build import build

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
    demo_page.write(path, found, curves=curves(), model_card=MODEL_CARD, details="report/index.html")
    return path


@pytest.fixture
def visit(browser):
    """Opens an address and fails the test for console errors, page errors and requests outside the folder."""
    faults, contexts = [], []

    def visit(path: Path, address: str = "", *, size: str = "desk", scheme: str = "light"):
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
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


def violations(page) -> list[str]:
    """What axe-core finds: contrast, names, roles, keyboard access. It is run in the page, so it needs no
    network; the page's own policy forbids foreign scripts, not those of a debugger.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [f"{v['id']}: {n['html'][:160]} {n.get('failureSummary', '')}" for v in found for n in v["nodes"]]


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
    (tmp_path / "shots").mkdir()
    views = {"results": (report, ""), "list": (report, "#/list?step=fixed"), "demo": (demo, "")}
    views["trajectory"] = report, "#/t/cobalt/task-003/1/2"
    for name, (path, address) in views.items():
        page = visit(path, address, size=size, scheme=scheme)
        if address:
            page.wait_for_selector("#rows .row" if "list" in address else ".diff", state="visible")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
        assert violations(page) == [], name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(ground) < 150) is (scheme == "dark")
        page.screenshot(path=tmp_path / "shots" / f"{name}-{size}-{scheme}.png", full_page=True)


def test_filters_narrow_the_list_and_stay_in_the_address(report, visit):
    page = visit(report, "#/list")
    page.wait_for_selector("#rows .row")
    assert page.inner_text("#count") == "192 of 192 trajectories"
    rows = index_rows(report)

    def count(**chosen) -> int:
        for name in ("run", "outcome", "step", "turn", "difficulty", "bent"):
            page.select_option(f"#f-{name}", value=chosen.get(name, ""))
        page.fill("#f-task", chosen.get("task", ""))
        return int(page.inner_text("#count").split()[0])

    def right(row):
        return [rate == 100 for rate in row[3]]

    assert count(run="1") == 96
    assert count(task="TASK-01") == 80  # ten of 24 tasks, in both runs
    assert count(outcome="never") == sum(not any(right(row)) for row in rows)
    assert count(outcome="always") == sum(all(right(row)) for row in rows)
    assert count(outcome="lost") == sum(any(right(row)) and not right(row)[-1] for row in rows)
    assert count(outcome="right", turn="1") == sum(right(row)[1] for row in rows)
    assert count(step="broken", turn="2") == sum(right(row)[1] and not right(row)[2] for row in rows)
    assert count(bent="yes") == sum(bool(row[4]) for row in rows) > 0
    assert count(difficulty="easy", run="0") == 32
    assert page.evaluate("location.hash") == "#/list?run=0&difficulty=easy"
    page.reload()
    page.wait_for_selector("#rows .row")
    assert page.inner_text("#count") == "32 of 192 trajectories"
    page.click("#reset")
    assert page.inner_text("#count") == "192 of 192 trajectories"
    assert count(task="nothing has this id") == 0


def index_rows(report: Path) -> list:
    text = (report.parent / "data" / "index.js").read_text()
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])["rows"]


def chunk(report: Path, run: int, task: int) -> dict:
    text = (report.parent / "data" / f"r{run}" / "0" / f"{task}.js").read_text()
    return json.loads(text[text.index(",") + 1 : text.rindex(")")])


def test_a_trajectory_shows_diff_feedback_verdicts_and_folded_thinking(report, visit):
    page = visit(report, "#/t/cobalt/task-003/1/2")
    page.wait_for_selector(".diff")
    data = chunk(report, 1, 3)
    before, now = data["samples"][1][1:3]
    old, new = (data["codes"][turn["c"]].split("\n") for turn in (before, now))
    shown = page.locator(".diff tbody tr")
    cells = [shown.nth(i).locator("td.c").all_inner_texts() for i in range(shown.count())]
    assert [pair[0] for pair in cells] == old and [pair[1] for pair in cells] == new
    assert page.locator(".diff td.del.c").all_inner_texts() == [
        x for x, y in zip(old, new, strict=True) if x != y
    ]
    assert page.locator(".diff td.ins.c").all_inner_texts() == [
        y for x, y in zip(old, new, strict=True) if x != y
    ]
    assert page.inner_text(".said pre") == (before["f"] or "All public tests passed.")
    thinking = page.locator("details", has_text="Thinking")
    assert not thinking.locator("pre").is_visible()
    thinking.locator("summary").click()
    assert thinking.locator("pre").inner_text() == "step by step"
    public, hidden = page.locator(".tests").all()
    assert len(public.locator("li").all()) == 3 and len(hidden.locator("li").all()) == 4
    names = {"P": "passed", "W": "wrong answer", "T": "time limit", "R": "runtime error"}
    assert hidden.locator("summary").all_inner_texts() == [
        f"{i} {names[x]}" for i, x in enumerate(now["h"], 1)
    ]
    assert "<b>add</b>" in page.locator("#detail details", has_text="Problem").locator("pre").text_content()


def test_keys_move_through_turns_and_trajectories(report, visit):
    page = visit(report, "#/t/reference/task-000/0/0")
    page.wait_for_selector(".diff")

    def at() -> list[str]:
        return page.evaluate("location.hash").split("/")[2:]

    assert at() == ["reference", "task-000", "0", "0"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("l")
    assert at()[3] == "2"
    page.keyboard.press("ArrowLeft")
    assert at()[3] == "1"
    page.keyboard.press("j")
    assert at()[:3] == ["reference", "task-000", "1"]
    page.keyboard.press("k")
    page.keyboard.press("End")
    assert at()[:3] == ["cobalt", "task-023", "3"]
    assert page.get_attribute("#list", "aria-activedescendant") == "o191"
    page.keyboard.press("ArrowDown")  # the end
    assert at()[:3] == ["cobalt", "task-023", "3"]
    page.keyboard.press("/")
    page.keyboard.type("task-005")
    assert page.inner_text("#count") == "8 of 192 trajectories"
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    assert at()[:3] == ["reference", "task-005", "0"]
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    # A key takes effect within its own event: the next one may come before the address is told of.
    assert page.evaluate(
        """() => {
          document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
          document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "j", bubbles: true}));
          return document.getElementById("viewer").hidden && !document.getElementById("report").hidden;
        }"""
    )
    assert page.evaluate("location.hash") == "" and page.locator("#report").is_visible()
    page.go_back()
    page.wait_for_selector(".diff", state="visible")
    assert at()[:3] == ["reference", "task-005", "0"]


def test_links_from_charts_other_runs_and_dead_addresses(report, visit):
    page = visit(report)
    assert page.locator("#report figure svg").count() == 8
    page.click("text=the broken ones")
    page.wait_for_selector("#rows .row")
    assert page.input_value("#f-step") == "broken"
    page.wait_for_selector(".diff")
    page.click("text=cobalt >> nth=-1")
    page.wait_for_function("location.hash.startsWith('#/t/cobalt/')")
    page = visit(report, "#/t/cobalt/no-such-task/0/0")
    page.wait_for_selector("text=This report has no trajectory")
    links = visit(report).locator("#report a[href]")
    found = links.evaluate_all("nodes => nodes.map(n => n.getAttribute('href'))")
    assert found, "the report has no links"
    for link in found:
        assert link.startswith("#") or (report.parent / link).is_file(), link


def test_the_phone_shows_list_or_trajectory(report, visit):
    page = visit(report, "#/list", size="phone")
    page.wait_for_selector("#rows .row")
    assert not page.locator("#detail").is_visible()
    page.locator("#rows .row").nth(2).click()
    page.wait_for_selector(".diff", state="visible")
    assert not page.locator("#list").is_visible() and page.locator(".diff table.pair").count() == 0
    page.click(".back")
    assert page.locator("#list").is_visible() and not page.locator("#detail").is_visible()


@pytest.mark.full
def test_ten_thousand_trajectories_do_not_lag(visit, tmp_path):
    runs = [
        trajectories(tmp_path / f"{name}_eval.jsonl", tasks=625, samples=8, turns=2)
        for name in ("one", "two")
    ]
    build([str(run) for run in runs], tmp_path / "report")
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
          const start = performance.now();
          const task = document.getElementById("f-task");
          task.value = "61"; task.dispatchEvent(new Event("input"));
          return {scroll: times.sort((a, b) => a - b)[10], filter: performance.now() - start};
        }"""
    )
    assert page.inner_text("#count").endswith("of 10,000 trajectories")
    at_load = sum(path.stat().st_size for path in (tmp_path / "report" / "data").glob("*.js"))
    at_load += (tmp_path / "report" / "index.html").stat().st_size
    times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in spent.items())
    print(f"first view {first_view:.2f} s, {times}, {at_load:,} bytes at load")
    assert at_load < 20e6 and first_view < 3 + 3 and spent["scroll"] < 200 and spent["filter"] < 500


def test_an_address_opens_its_example_in_the_demo(demo, visit):
    page = visit(demo)
    assert page.locator("figure svg").count() == 3
    closed = page.locator("details.example:not([open])").first.get_attribute("id")
    opened = page.locator("details[open]").count()
    assert visit(demo, f"#{closed}").locator("details[open]").count() == opened + 1
