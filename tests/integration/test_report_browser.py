"""Both pages in a real browser: no errors, no outside requests, keys, links, contrast, dark, phone, size."""

import importlib
import json
import re
import time
from pathlib import Path

import pytest
from chromium import IN_CHROMIUM
from report_data import MODEL_CARD, analysed, curves, evaluated, results, trajectories

from cobalt.output import write_jsonl
from cobalt.report.build import build
from cobalt.report.render import write_run_page
from cobalt.rows import read_rows

# Each shot is kept for a reader's eye: pytest --basetemp=DIR, then DIR/**/shots/*.png.
SIZES = {"desk": (1280, 900), "tablet": (800, 900), "phone": (390, 844)}
RATES = {"reference": [0.2, 0.4], "cobalt": [0.3, 0.8]}

pytestmark = IN_CHROMIUM


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


STRANGE = "<img src=x onerror=alert(1)>\0 \udc80 \u202egnirts\u2028 naïve ＣＡＦÉ"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A report of tasks with structures and vague slots; the first program of each run is strange."""
    folder = tmp_path_factory.mktemp("tiny")
    files = [evaluated(folder / f"{name}_eval.jsonl", rates, n=12) for name, rates in RATES.items()]
    for path in files:
        rows = [row for _, row in read_rows(path)]
        code = f"```python\nprint(1)\n# {STRANGE}\nx = '{'y' * 200_000}'\n```\nAfter it."
        rows[0]["conversations"][0][2]["content"] = f"Before. {STRANGE}\n{code}"
        rows[0]["usage"] = [[{"prompt_tokens": 1097, "completion_tokens": 21}] * 2] * 2
        write_jsonl(path, rows)
    build([str(path) for path in files], folder / "report")
    return folder / "report" / "index.html"


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


def plain(text: str) -> str:
    """With what a browser may hand over for a lone surrogate."""
    return re.sub("[\ud800-\udfff\ufffd]", "?", text)


def wait_for_texts(page) -> None:
    """Until all texts are there; the page's policy forbids what `wait_for_function` does."""
    page.evaluate(
        "(async () => { while (search.state !== 'read') await new Promise(d => setTimeout(d, 5)); })()"
    )


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
        pytest.param("tablet", "light", marks=pytest.mark.full),
        pytest.param("phone", "light", marks=pytest.mark.full),
    ],
)
def test_both_pages_read_well(report, demo, visit, tmp_path, size, scheme):
    # axe-core looks for contrast, names, roles, keyboard access. It runs in the page and needs no network.
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    views = {"results": (report, ""), "list": (report, "#/list?step=fixed"), "demo": (demo, ""),
             "trajectory": (report, "#/t/cobalt/task-003/1/3"), "empty": (report, "#/list?text=nowhere"),
             "beside": (report, "#/t/cobalt/task-003/1/3?beside=reference")}  # fmt: skip
    ready = {"list": "#rows .row", "empty": "#none button", "trajectory": ".diff", "beside": ".half .diff"}
    for name, (path, address) in views.items():
        page = visit(path, address, size=size, scheme=scheme)
        if address:
            page.wait_for_selector(ready[name], state="visible")
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
          for (const key of ["Escape", "Escape", "j"])
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
          return document.getElementById("viewer").hidden && !document.getElementById("report").hidden;
        }"""
    )
    page.go_back()  # to the list as it was filtered, with the trajectory still open
    page.wait_for_selector(".diff", state="visible")
    assert page.inner_text("#count") == "8 of 192 trajectories" and "task-005" in page.inner_text("#which")


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


def test_the_search_finds_what_the_rows_hold(report, visit):
    texts = {}  # by trajectory what its programs and feedback say, and its id
    index = data(report, "index.js")
    for number, (run, task, sample, *_) in enumerate(index["rows"]):
        chunk = data(report, f"r{run}/0/{task}.js")
        turns = chunk["samples"][sample]
        texts[number] = [f"{chunk['codes'][turn['c']]}\n{turn['f'] or ''}" for turn in turns]
    page = visit(report, "#/list")
    page.wait_for_selector("#rows .row")
    for words in (
        "total = int(a) + 2",
        "TOTAL = INT(A) + 2",
        "3 1 inputs",
        "main()",
        "wherever",
        "1 outputs",
    ):
        page.fill("#f-text", words)
        wait_for_texts(page)
        found = {
            n: [t for t, text in enumerate(all_) if words.lower() in text.lower()]
            for n, all_ in texts.items()
        }
        found = {str(n): turns for n, turns in found.items() if turns}
        assert page.evaluate("Object.fromEntries(search.turns)") == found, words
        assert page.inner_text("#count").split()[0] == str(len(found))
    page.fill("#f-text", "int(a) + 2")
    page.select_option("#f-run", label="cobalt")
    page.wait_for_selector("mark")
    assert set(page.locator(".diff mark").all_inner_texts()) == {"int(a) + 2"}
    turn = page.locator(".turns a[aria-current]").inner_text()[0]
    assert "found in turn" in page.inner_text("#o0") and turn in page.inner_text("#o0").rpartition("turn")[2]
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # from the list into the trajectory: its address holds filters and search
    address = page.evaluate("location.hash")
    assert address.startswith("#/t/cobalt/") and "run=1" in address and "text=int%28a%29+%2B+2" in address
    count = page.inner_text("#count")
    again = visit(report, address)
    again.wait_for_selector(".diff mark")
    wait_for_texts(again)
    assert again.inner_text("#count") == count and again.evaluate("location.hash") == address
    again.keyboard.press("Escape")
    assert again.evaluate("location.hash") == "#/list?run=1&text=int%28a%29+%2B+2"
    assert again.inner_text("#count") == count and again.locator("#viewer").is_visible()


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_nothing_found_is_said_and_can_be_undone(report, visit, size):
    page = visit(report, "#/t/cobalt/task-003/1/3", size=size)
    page.wait_for_selector(".diff")
    page.keyboard.press("/")
    page.keyboard.type("no such words")
    page.wait_for_selector("text=No trajectory matches")
    assert "no such words" in page.inner_text("#none") and not page.locator(".diff").count()
    assert not page.locator("#list").is_visible() and page.inner_text("#count").startswith("0 of 192")
    page.click("text=Clear all filters")
    assert page.inner_text("#count") == "192 of 192 trajectories" and page.locator("#list").is_visible()
    assert page.evaluate("location.hash") == "#/list" and not page.locator("#none").is_visible()


def test_filters_by_structure_and_slot(tiny, visit):
    page, tasks = visit(tiny, "#/list"), data(tiny, "index.js")["tasks"]
    page.wait_for_selector("#rows .row")
    assert not page.locator("#f-platform").is_visible() and page.locator("#f-group option").count() > 2
    each = len(data(tiny, "index.js")["rows"]) // len(tasks)
    choices = {("slot", slot): [slot in task["slots"] for task in tasks] for slot in ("constant", "format")}
    choices["slot", "nothing"] = [not task["slots"] for task in tasks]
    choices["group", tasks[0]["group"]] = [task["group"] == tasks[0]["group"] for task in tasks]
    for (name, value), fit in choices.items():
        page.select_option(f"#f-{name}", value=value)
        assert page.inner_text("#count").split()[0] == str(each * sum(fit)), value
        page.select_option(f"#f-{name}", value="")


def test_two_runs_side_by_side_by_keys_alone(report, visit):
    page = visit(report, "#/t/cobalt/task-003/1/3")
    page.wait_for_selector(".diff")
    page.keyboard.press("b")
    page.wait_for_selector(".half + .half")
    assert page.evaluate("location.hash") == "#/t/cobalt/task-003/1/3?beside=reference"
    halves = page.locator(".half").all()
    for run, half in zip((1, 0), halves, strict=True):
        chunk = data(report, f"r{run}/0/3.js")
        lines = chunk["codes"][chunk["samples"][1][2]["c"]].split("\n")
        assert half.locator(".diff td.c").all_inner_texts() == lines
        assert f"{['reference', 'cobalt'][run]} · sample 1" in half.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=Program of turn 4")
    page.locator(".pickers select").nth(1).focus()
    page.select_option(".pickers select >> nth=1", value="3")
    page.wait_for_selector(".half h3:has-text('reference · sample 3')")
    assert page.evaluate("document.activeElement.dataset.key") == "sample"  # the focus stays where it was
    assert page.evaluate("location.hash").endswith("/4?beside=reference&beside_sample=3")
    page.reload()
    page.wait_for_selector(".half h3:has-text('reference · sample 3')")
    page.locator("#detail").focus()
    page.keyboard.press("b")
    page.wait_for_selector(".diff .pair")
    assert not page.locator(".half").count()


def test_copies_download_and_strange_texts(tiny, visit):
    page = visit(tiny, "#/t/cobalt/" + str(data(tiny, "index.js")["tasks"][0]["id"]) + "/0/2", size="phone")
    page.wait_for_selector(".diff")
    page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
    chunk = data(tiny, "r1/0/0.js")
    rows = [row for _, row in read_rows(tiny.parent.parent / "cobalt_eval.jsonl")]
    page.keyboard.press("c")
    assert page.evaluate("copied") == chunk["codes"][chunk["samples"][0][1]["c"]]
    page.keyboard.press("p")
    messages = rows[0]["conversations"][0][:4]
    wanted = "\n".join(f"[{m['role']}]\n{m['content']}\n" for m in messages)
    assert plain(page.evaluate("copied")) == plain(wanted)
    page.click("[aria-label='Copy feedback']")
    assert page.evaluate("copied") == (chunk["samples"][0][1]["f"] or "All public tests passed.")
    with page.expect_download() as started:
        page.keyboard.press("d")
    saved = json.loads(Path(started.value.path()).read_text())
    assert saved["id"] == rows[0]["id"] and saved["user"] == messages[1]["content"]
    programs = [chunk["codes"][turn["c"]] for turn in chunk["samples"][0]]
    assert [turn["program"] for turn in saved["turns"]] == programs
    page.click(".turns a >> nth=0")
    page.wait_for_selector("text=1,097 prompt tokens + 21 completion tokens")
    cells = page.locator(".diff td.c").all_text_contents()
    assert (
        plain(cells[1]) == plain(f"# {STRANGE}") and cells[2].startswith("x = 'yyy") and len(cells[2]) < 5000
    )
    assert page.locator("#detail img").count() == 0 and "200,006 characters" in cells[2]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("/")
    page.keyboard.type("ｃａｆé")
    wait_for_texts(page)
    assert page.inner_text("#count") == "2 of 48 trajectories"


@pytest.mark.full
def test_a_report_of_25200_programs_does_not_lag(visit, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    run = tmp_path / "big_eval.jsonl"
    importlib.import_module("analysis").make(run, 175, 16, 9, 0, evaluated=True)  # no two programs alike
    build([str(run)], tmp_path / "report")
    times: dict[str, list[float]] = {"results": [], "list": []}
    for _ in range(3):
        for name, address, sign in (("results", "", "#report h1"), ("list", "#/list", "#rows .row")):
            started = time.monotonic()
            page = visit(tmp_path / "report" / "index.html", address)
            page.wait_for_selector(sign)
            times[name].append(time.monotonic() - started)
    wait_for_texts(page)
    spent = page.evaluate(
        """async () => {
          const list = document.getElementById("list"), spent = {};
          const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
          for (const words of ["because order sort", "e", "nowhere", "program's output"]) {
            const start = performance.now(), field = document.getElementById("f-text");
            field.value = words; field.dispatchEvent(new Event("input"));
            await drawn();
            spent[words] = performance.now() - start;
          }
          document.getElementById("reset").click();
          const start = performance.now();
          list.scrollTop = 60000;
          await drawn();
          return {...spent, scroll: performance.now() - start};
        }"""
    )
    print(f"first view {times} s, {spent} ms")
    assert page.inner_text("#count") == "2,800 of 2,800 trajectories"
    assert min(min(each) for each in times.values()) < 1.5 and max(spent.values()) < 300


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
