"""The page and the terminal tables, from made-up results."""

import html.parser
import io
import json
import re
from pathlib import Path

import pytest
from cobalt.report.drawing import PAGE, inline_svg
from report_data import MODEL_CARD, curves, results
from rich.console import Console

from cobalt.evaluation import format
from cobalt.report import charts, console, render, run_tables


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return results(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def text(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    render.write_run_page(path, found, curves=curves(), model_card=MODEL_CARD, card_link="../README.md")
    return path.read_text()


class Outline(html.parser.HTMLParser):
    """Collects addresses, ids and whether elements are closed in order."""

    VOID = frozenset({"meta", "link", "br", "use", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.addresses, self.ids, self.open, self.faults = [], [], [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append((tag, self.getpos()))


def test_the_page_is_sound_and_asks_for_nothing_outside(text):
    outline = Outline()
    outline.feed(text)
    assert outline.faults == [] and outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    outside = [each for each in outline.addresses if not each.startswith(("#", "data:", "../README.md"))]
    assert outside == []
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(text) < 400_000


def test_what_programs_printed_cannot_become_markup(text):
    assert "<b>1</b>" not in text.replace("\\u003cb>1\\u003c/b>", "")
    assert "&lt;b&gt;1&lt;/b&gt;" in text


def test_the_page_holds_its_data(text, found):
    data = re.search(r'<script type="application/json" id="results">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data.group(1)) == json.loads(json.dumps(found))


def test_the_page_shows_the_figures(text, found):
    for shown in (
        format.interval(format.quoted(found["gain_by_turn"][-1]), sign=True),
        format.percent(found["pass_at_1"]["cobalt"][-1]),
        "only constant vague",
        "best of 3 independent",
        "the same program again in <strong>60 %</strong>",
        "still wrong at the last turn",
        found["family_hash"],
    ):
        assert shown.lower() in text.lower(), shown
    assert "Not to be quoted" not in text


def test_a_page_without_controls_slots_card_or_curve(found, tmp_path):
    bare = found | {"controls": {}, "slots": [], "examples": []}
    render.write_run_page(tmp_path / "bare.html", bare, curves={})
    text = (tmp_path / "bare.html").read_text()
    assert "Pass@1 by turn" in text and "Controls" not in text and "was taught" not in text


@pytest.mark.parametrize(
    ("card", "quoted"),
    [
        ("# M\n\n## What it was taught\ntext\n### more\nalso\n## Next\nno", "text\n### more\nalso"),
        ("---\na: b\n---\n# M\nall of it", "# M\nall of it"),
        ("# Taught things\nthis\n# Else\nno", "this"),
    ],
)
def test_the_section_on_what_was_taught_is_found(card, quoted):
    assert render.taught(card) == quoted


def test_another_run_is_called_by_its_recipe_and_leads_to_all_its_reports(found, tmp_path):
    other = found | {"recipe": "mt_grpo", "name": "qwen3-8b", "smoke": True, "family_hash": None}
    address = "report_taco_dev/index.html"
    render.write_run_page(
        tmp_path / "a.html", other, curves={}, details="report/index.html", further={"taco dev": address}
    )
    text = (tmp_path / "a.html").read_text()
    assert "mt_grpo has more" in text and "recipe mt_grpo" in text and "tiny reference" not in text
    assert f'<a href="{address}">taco dev</a>.' in text and "smoke run" in text
    shown = io.StringIO()
    console.show(other, Path("out"), Console(file=shown, width=110), dialogues=False)
    assert "mt_grpo has more" in shown.getvalue() and "make demo" not in shown.getvalue()
    assert run_tables.trained_name({}) == run_tables.trained_name({"recipe": "cobalt"}) == "Cobalt"
    assert run_tables.trained_name({"recipe": "../mine.yaml"}) == "mine"


def test_the_set_and_how_the_trainings_ran_are_said_as_they_are(found, tmp_path):
    def text(**more):
        render.write_run_page(tmp_path / "a.html", found | more, curves={})
        return (tmp_path / "a.html").read_text()

    beside = found["training"] | {"side_by_side": True}
    assert "side by side" in text(training=beside) and "side by side" not in text()
    assert "held-out tasks" in text(set="heldout") and "held-out" in run_tables.headline(found)
    other = found | {"set": "taco_dev"}
    assert "held-out tasks" not in text(set="taco_dev") and "taco dev tasks" in run_tables.headline(other)


def test_drawings_are_the_same_for_the_same_data_and_take_colours_from_the_page():
    shades = {"cobalt": "c1", "control": "c3"}
    first, second = (inline_svg(charts.training(curves(), shades, PAGE), "", "t") for _ in range(2))
    assert first == second
    assert not re.search(r"#0[0-9a-d]0[0-9a-d]0[0-9a-d]", first)
    assert "var(--c1)" in first and "var(--c3)" in first and "<metadata" not in first


def shown(found, **how) -> str:
    stream = io.StringIO()
    console.show(found, Path("outputs/demo"), Console(file=stream, width=150), **how)
    return stream.getvalue()


def test_the_terminal_shows_tables_dialogues_files_and_next_steps(found):
    text = shown(found)
    assert run_tables.headline(found) in " ".join(text.split())
    for part in ("difference [95 %]", "only constant vague", "of another task", "right, then wrong"):
        assert part in text
    assert "outputs/demo/report.html" in text and "make demo SEED=1 OUT=outputs/demo-seed1" in text
    assert text.count("before") >= 3
    assert "<b>1</b>" in text  # what programs print is no markup here either
    assert len(shown(found, dialogues=False)) < len(text) / 2


def test_figures_in_words():
    assert format.percent(None) == "n/a" and format.percent(0.4276) == "42.8"
    assert format.interval([None, None]) == "" and format.interval([0.1, 0.25], 100) == "[10.0, 25.0]"
    assert format.half_width(0.5, [0.4, 0.6]) == "50.0 ± 10.0" and format.half_width(0.5, [None, 1]) == "50.0"
    assert format.p_value(0.0004) == "<0.001" and format.p_value(0.0004, 4) == "0.0004"
    gain = {"points": 35.06, "ci95": [30.5, 40.13]}
    assert format.points(gain) == "+35.1 [+30.5, +40.1]" and format.tone(gain) == "better"
    assert format.tone({"ci95": [-9, -1]}) == "worse" and format.tone({"ci95": [-9, 1]}) == "unclear"


@pytest.mark.parametrize("group", ["ci95_group", "ci95_by_structure"])
def test_the_interval_shown_and_coloured_is_the_wider_one(group):
    narrow, wide = [1.0, 5.0], [-0.5, 6.0]
    for gain in ({"ci95": narrow, group: wide}, {"ci95": wide, group: narrow}):
        assert format.points({"points": 3.0} | gain) == "+3.0 [-0.5, +6.0]" and format.tone(gain) == "unclear"
    assert format.quoted({"ci95": narrow, group: [None, None]}) == narrow
