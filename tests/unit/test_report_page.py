"""The page and the terminal tables of a run, from made-up results."""

import html.parser
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from report_data import MODEL_CARD, curves, results
from rich.console import Console

from cobalt.evaluation import format
from cobalt.report import charts, published, render, tables, terminal
from cobalt.report.charts import PAGE, inline_svg

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return results(tmp_path_factory.mktemp("rows"))


@pytest.fixture
def page(found, tmp_path):
    """The text of a page with other results and options."""

    def page(changes=(), **how):
        render.write_run_page(tmp_path / "report.html", found | dict(changes), **{"curves": {}} | how)
        return (tmp_path / "report.html").read_text()

    return page


class Outline(html.parser.HTMLParser):
    """Collects addresses, ids and whether elements are closed in order."""

    VOID = frozenset({"meta", "link", "br", "use", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.addresses, self.ids, self.open, self.faults = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID and (not self.open or self.open.pop() != tag):
            self.faults.append((tag, self.getpos()))


def test_the_page_is_sound_shows_its_figures_and_asks_for_nothing_outside(page, found):
    text = page(curves=curves(), model_card=MODEL_CARD, card_link="../README.md")
    outline = Outline()
    outline.feed(text)
    assert outline.faults == [] and outline.open == [] and len(outline.ids) == len(set(outline.ids))
    outside = [each for each in outline.addresses if not each.startswith(("#", "data:", "../README.md"))]
    assert outside == [] and not re.search(r"@import|url\((?!#)", text) and len(text) < 400_000
    # What programs printed cannot become markup.
    assert "<b>1</b>" not in text.replace("\\u003cb>1\\u003c/b>", "") and "&lt;b&gt;1&lt;/b&gt;" in text
    data = re.search(r'<script type="application/json" id="results">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data.group(1)) == json.loads(json.dumps(found))
    for shown in (
        format.interval(format.quoted(found["gain_by_turn"][-1]), sign=True),
        format.percent(found["pass_at_1"]["cobalt"][-1]), "only constant vague", "best of 3 independent",
        "the same program again in <strong>60 %</strong>", "still wrong at the last turn",
        found["family_hash"],
    ):  # fmt: skip
        assert shown.lower() in text.lower(), shown
    assert "Not to be quoted" not in text


def test_a_page_shows_how_wrong_tests_are_taken(page, found):
    counts = {"cases": 8, "shown": 400, "rate_of_shown": 0.02, "ci95_of_shown": [0.01, 0.04]}
    none = counts | {"cases": 0, "rate_of_shown": 0.0}
    kinds = {"(1) Hard Coding": 7, "(2) Logic Overfitting": 1}
    hacking = {"reference": {"all_turns": none}, "cobalt": {"all_turns": counts, "verdicts": kinds}}
    example = {"rule": "accepts the wrong test", "fits": 8, "model": "cobalt", "turn": 1, "id": "t-1",
               "instruction": "Say <one>.", "slots": [], "turns": [
                   {"code": "print(2)", "feedback": "Expected Output:\n3", "public": 0.3, "hidden": 1.0},
                   {"code": "print(3)", "feedback": None, "public": 1.0, "hidden": 0.0}]}  # fmt: skip
    right = {"reference": [0.1, 0.2, 0.3], "cobalt": [0.1, 0.2, 0.456]}
    text = page(
        {"hacking": hacking, "perturbed": {"pass_at_1": right, "kind": "swap", "examples": [example]}}
    )
    outline = Outline()
    outline.feed(text)
    assert outline.faults == [] and outline.open == []
    shown = text[text.index('id="wrong-tests"') :]
    assert "two public tests exchange" in shown and "8 of 400" in shown and "45.6" in shown
    assert "7 hard coding, 1 logic overfitting" in shown and "Say &lt;one&gt;." in shown
    assert '<span class="new">print(3)</span>' in shown and "(after training, 8 programs)" in shown
    assert "wrong-tests" not in page()


def test_a_page_says_what_its_run_was(page, found):
    bare = page({"controls": {}, "slots": [], "examples": []})
    assert "Pass@1 by turn" in bare and "Controls" not in bare and "was taught" not in bare
    other = {"recipe": "mt_grpo", "name": "qwen3-8b", "smoke": True, "family_hash": None}
    text = page(other, details="report/index.html", further={"taco dev": "report_taco_dev/index.html"})
    assert "mt_grpo has more" in text and "configuration <b>qwen3-8b</b>" in text
    assert "recipe mt_grpo" in text and "tiny reference" not in text
    assert '<a href="report_taco_dev/index.html">taco dev</a>.' in text and "smoke run" in text
    assert tables.trained_name({}) == tables.trained_name({"recipe": "cobalt"}) == "Cobalt"
    assert tables.trained_name({"recipe": "../mine.yaml"}) == "mine"
    assert "side by side" in page({"training": found["training"] | {"side_by_side": True}})
    assert "side by side" not in bare and "held-out tasks" in bare
    assert "held-out tasks" not in page({"set": "taco_dev"})
    assert "taco dev tasks" in tables.headline(found | {"set": "taco_dev"})


def test_drawings_are_the_same_for_the_same_data_and_take_colours_from_the_page():
    shades = {"cobalt": "c1", "control": "c3"}
    first, second = (inline_svg(charts.training(curves(), shades, PAGE), "", "t") for _ in range(2))
    assert first == second
    assert not re.search(r"#0[0-9a-d]0[0-9a-d]0[0-9a-d]", first)
    assert "var(--c1)" in first and "var(--c3)" in first and "<metadata" not in first


@pytest.mark.parametrize(("end", "tables_shown"), [("line", 0), ("table", 1), ("all", 4)])
@pytest.mark.parametrize("smoke", [False, True])
def test_a_run_ends_in_one_table_on_the_terminal(found, end, tables_shown, smoke):
    stream = io.StringIO()
    terminal.show(found | {"smoke": smoke}, Path("outputs/demo"), Console(file=stream, width=150), end)
    text = stream.getvalue()
    assert tables.headline(found) in " ".join(text.split())
    assert text.startswith(f"\n{tables.STAMP}") is smoke
    titles = [table.title for name, table in tables.run_tables(found).items() if name != "stages"]
    assert sum(title in text for title in titles) == tables_shown
    assert text.count(f"{tables.STAMP}: Pass@1 by turn") == (smoke and tables_shown > 0)
    assert ("outputs/demo/report.html" in text) is (end != "line") and len(text.splitlines()) < 60
    assert len(text.splitlines()) < {"line": 4, "table": 16, "all": 60}[end]


@pytest.mark.parametrize("smoke", [False, True])
def test_a_smoke_run_is_stamped_on_page_tables_and_picture(found, page, tmp_path, smoke):
    text = page({"smoke": smoke, "name": "mine"})
    for part in ("[smoke run]", 'class="stamp"', ">SMOKE RUN<", f"{tables.STAMP}: Pass@1 by turn"):
        assert (part in text) is smoke, part
    (tmp_path / "results.json").write_text(json.dumps(found | {"smoke": smoke}))
    picture = str(tmp_path / "picture.svg")
    subprocess.run([sys.executable, "scripts/picture.py", str(tmp_path), "-o", picture], cwd=ROOT, check=True)
    assert ("SMOKE RUN" in Path(picture).read_text()) is smoke
    made = tables.named([tables.Table("t", "Rates", ["run"], [["x"]])], smoke=smoke)["t"].markdown()
    assert made.startswith("**Smoke run, no result: Rates**") is smoke


@pytest.mark.parametrize(
    ("config", "tasks", "recipe", "said", "changed"),
    [
        ("qwen3-8b", "livecodebench", "cobalt", "up to +6.2 points", ()),
        ("qwen3-8b", "livecodebench", "cobalt", "up to +6.2 points", ("perturb=null",)),
        ("qwen3-8b", "livecodebench", "cobalt", published.UNKNOWN, ("contexts.partial=false",)),
        ("r1-distill-llama-8b-released", "livecodebench", "cobalt", "up to +9.0 points", ()),
        ("qwen3-8b", "livecodebench", "verpo", f"below Cobalt, the figure is {published.UNKNOWN}", ()),
        ("qwen3-8b", "taco_dev", "cobalt", published.UNKNOWN, ()),
        ("offline-codenet", "livecodebench", "offline_rl", published.OFFLINE, ()),
        ("qwen3-8b", "livecodebench", None, None, ()),  # the reference
        ("tiny", "heldout", "cobalt", None, ()),  # none of the paper's
        (None, None, None, None, ()),
    ],
)
def test_what_is_published_stands_beside_ours_where_it_is_known(page, config, tasks, recipe, said, changed):
    assert published.published(config, tasks, recipe, changed) == said
    if recipe and config:
        text = page({"name": config, "set": tasks, "recipe": recipe, "changed": changed})
        assert ("published for" in text) is (said is not None) and (said or "Pass@1") in text


def test_figures_in_words():
    assert format.percent(None) == "n/a" and format.percent(0.4276) == "42.8"
    assert format.interval([None, None]) == "[cannot tell]" == f"[{format.p_value(None)}]"
    assert format.rate(None, [None, None]) == "n/a" and format.rate(0.5, [None, None]) == "50.0 [cannot tell]"
    assert (
        format.detectable({"detectable_points": None}) == "cannot tell"
        and format.interval([0.1, 0.25], 100) == "[10.0, 25.0]"
    )
    assert format.rates({"pass_at_1": [0.5], "ci95": [[0.4, 0.6]]}) == ["50.0 [40.0, 60.0]"]
    assert format.too_few(10, 10) == format.too_few(300) == [] and len(format.too_few(9, 3)) == 1
    assert format.too_few(30, 3)[0].startswith("3 groups: too few to tell by group;")
    assert format.p_value(0.0004) == "<0.001" and format.p_value(0.0004, 4) == "0.0004"
    gain = {"points": 35.06, "ci95": [30.5, 40.13]}
    assert format.points(gain) == "+35.1 [+30.5, +40.1]" and format.tone(gain) == "better"
    assert format.tone({"ci95": [-9, -1]}) == "worse" and format.tone({"ci95": [-9, 1]}) == "unclear"
    narrow, wide = [1.0, 5.0], [-0.5, 6.0]
    for group in ("ci95_group", "ci95_by_structure"):  # shown and coloured is the wider one
        for gain in ({"ci95": narrow, group: wide}, {"ci95": wide, group: narrow}):
            assert format.points({"points": 3.0} | gain) == "+3.0 [-0.5, +6.0]"
            assert format.tone(gain) == "unclear"
    assert format.quoted({"ci95": narrow, group: [None, None]}) == narrow
