"""Every figure of `results.json` against a calculation by hand."""

import io
import json
import re

import pytest
from report_data import SLOTS, evaluated, results
from rich.console import Console
from rollout_tools import rated

from cobalt.errors import InfraError, InputError
from cobalt.evaluation import compare as command
from cobalt.evaluation.evaluated_rows import bounds
from cobalt.evaluation.format import points
from cobalt.report import build, render, tables, terminal
from cobalt.report.results import (
    Arm,
    arm_gain,
    by_slot,
    examples,
    read_results,
    statistics,
    wrong_test_examples,
)
from cobalt.stats import clustered_mean, paired_bootstrap

GROUPS = {"t1": "g1", "t2": "g1", "t3": "g2", "t4": "g3"}
SLOT_OF = {"t1": ["format"], "t2": ["format", "constant"], "t3": [], "t4": ["constant"]}
OLD = {"t1": [[0, 0], [0, 1]], "t2": [[0, 0], [0, 0]], "t3": [[1, 1], [1, 0]], "t4": [[0, 0], [0.5, 0.5]]}
NEW = {"t1": [[0, 1], [0, 1]], "t2": [[0, 1], [0, 0]], "t3": [[1, 1], [1, 1]], "t4": [[0, 0], [0, 0]]}


def copies(table, each):
    """A table five times over, under other keys; `each` makes a value of one and of its copy's number."""
    return {f"{key}.{copy}": each(value, copy) for copy in range(5) for key, value in table.items()}


GROUPS = copies(GROUPS, lambda group, copy: f"{group}.{copy}")
SLOT_OF, OLD, NEW = (copies(table, lambda value, _: value) for table in (SLOT_OF, OLD, NEW))


@pytest.fixture
def arms(tmp_path):
    return [
        Arm(rated(tmp_path / f"{name}.jsonl", table, group=GROUPS, slots=SLOT_OF))
        for name, table in (("old", OLD), ("new", NEW))
    ]


def test_rates_and_their_intervals(arms):
    old, new = (arm.pass_at_1() for arm in arms)
    assert old["pass_at_1"] == [0.25, 0.25] and new["pass_at_1"] == [0.25, 0.625]
    shares = [[0.5], [0.0], [0.5], [0.0]] * 5
    assert old["ci95"][1] == bounds(clustered_mean(shares))
    assert old["ci95_by_structure"][1] == bounds(clustered_mean(shares, list(GROUPS.values())))
    found = arms[0].behaviour()  # over pairs of programs
    assert found["right_to_wrong"] == {"count": 5, "of": 10, "rate": 0.5}
    assert found["wrong_to_right"] == {"count": 5, "of": 30, "rate": pytest.approx(1 / 6)}


def test_the_gain_is_paired_by_task(arms):
    old, new = arms
    gain = arm_gain(new, old, seed=0)
    assert gain["points"] == pytest.approx(100 * (0.5 + 0.5 + 0.5 + 0) / 4) and gain["n"] == 20
    new_rates, old_rates = [1.0, 0.5, 1.0, 0.0] * 5, [0.5, 0.0, 0.5, 0.0] * 5
    assert gain["ci95"] == bounds(paired_bootstrap(new_rates, old_rates), 100)
    assert arm_gain(new, new, old_turn=0, seed=0)["points"] == pytest.approx(37.5)


def test_the_slot_table_counts_also_and_only(arms):
    rows = by_slot(arms[1], arms[0], SLOTS, seed=0)
    assert by_slot(arms[1], arms[0], (), seed=0) == rows  # by what the tasks' rows say
    table = {(row["slot"], row["kind"]): row for row in rows}
    assert {key: row["n"] for key, row in table.items()} == {
        ("constant", "also"): 10, ("constant", "only"): 5, ("format", "also"): 10, ("format", "only"): 5,
        ("nothing", "only"): 5,
    }  # fmt: skip
    row = table["format", "also"]
    assert (row["before"], row["after"], row["points"]) == (0.25, 0.75, 50.0)
    assert row["ci95"][0] < 50 < row["ci95"][1] and row["ci95_by_structure"] == [
        None,
        None,
    ]  # five structures
    assert table["format", "only"]["ci95"] == [None, None]  # five tasks


def test_there_is_no_slot_table_where_nobody_says_what_is_vague(tmp_path):
    arm = Arm(rated(tmp_path / "one.jsonl", OLD))
    assert by_slot(arm, arm, (), seed=0) == []


def test_files_that_are_no_result_are_refused(tmp_path):
    one = rated(tmp_path / "one.jsonl", OLD)
    other = rated(tmp_path / "other.jsonl", {"t1.0": [[0, 0]], "x": [[0, 0]]})
    with pytest.raises(InputError, match=r"not about the same tasks: 19 only in one .*, 1 only in other"):
        statistics(one, other, {}, None, (), seed=0)
    longer = rated(tmp_path / "longer.jsonl", {key: [[*s, 1] for s in table] for key, table in OLD.items()})
    with pytest.raises(InputError, match="differ in samples or turns"):
        statistics(one, longer, {}, None, (), seed=0)
    fault = rated(tmp_path / "r.jsonl", {"t1.0": [[None, 1]]}, exec_status=[["infra_error", "ok"]])
    with pytest.raises(InfraError, match="no verdict"):
        Arm(fault)
    for text in ("{", "[]", '{"schema": 99}'):
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(InputError, match="results"):
            read_results(tmp_path / "results.json")


def test_results_have_the_agreed_schema_and_are_the_same_again(tmp_path):
    found = results(tmp_path)
    assert found == results(tmp_path) == json.loads(json.dumps(found, allow_nan=False))
    assert (found["turns"], found["tasks"], found["samples_per_task"]) == (3, 40, 2)
    for name in ("reference", "cobalt"):
        for rate, (lo, hi) in zip(found["pass_at_1"][name], found["ci95"][name], strict=True):
            assert lo <= rate <= hi
    gain = found["final_turn_gain"]
    old, new = (found["pass_at_1"][name][-1] for name in ("reference", "cobalt"))
    assert gain["points"] == pytest.approx(100 * (new - old)) and gain["paired_by"] == "task"
    controls = {"single_turn_training", "blank_feedback", "other_feedback", "best_of_turns"}
    assert set(found["controls"]) == controls and found["n_structures"] > 5
    assert found["controls"]["best_of_turns"]["pass_at_1"] == [0.5]


@pytest.mark.parametrize("n", [4, 40])
def test_a_difference_has_one_turn_and_one_interval_on_every_surface(tmp_path, capsys, n):
    found, stream = results(tmp_path, n), io.StringIO()
    files = [tmp_path / f"{name}.jsonl" for name in ("reference", "cobalt")]
    rows = files[1].read_text().splitlines(keepends=True)
    files[1].write_text("".join(rows[::-1]))  # the order of rows says nothing
    render.write_run_page(tmp_path / "report.html", found, curves={})
    terminal.show(found, tmp_path, Console(file=stream, width=150))
    build.main([*map(str, files), "-o", str(tmp_path / "report")])
    command.main([*map(str, files), "-o", str(tmp_path / "c.json")])
    said = capsys.readouterr().out
    on_page, table = (
        (tmp_path / each).read_text() for each in ("report.html", "report/tables/comparison.md")
    )
    cells = re.sub(r"<[^>]*>", "", re.sub(r"</t[dh]>\s*", "|", on_page))
    compared = json.loads((tmp_path / "c.json").read_text())["comparisons"]
    reported = json.loads((tmp_path / "report/report.json").read_text())["comparison"]["comparisons"]
    assert reported == compared and [row["turn"] for row in compared] == [0, 1, 2]
    for turn, (gain, row) in enumerate(zip(found["gain_by_turn"], compared, strict=True), 1):
        assert (gain["points"], gain["ci95"]) == (row["points"], row["ci95"])
        assert gain["ci95_by_structure"] == row["ci95_group"]
        shown = points(gain)
        assert ("cannot tell" in shown) == (n == 4)
        assert re.search(rf"\b{turn}\|([^|]*\|){{2}}{re.escape(shown)}\|", cells)
        assert f"| cobalt - reference | {turn} | {shown} |" in table
        for text in (stream.getvalue(), said):
            assert re.search(rf"^ *{turn} .*{re.escape(shown)}", text, re.MULTILINE)
    for text in (on_page, tables.headline(found)):
        assert points(found["gain_by_turn"][-1]).split(" ", 1)[1] in text
    report = re.sub(r"<[^>]*>", "", (tmp_path / "report/index.html").read_text())
    assert shown in report and "turn 0" not in said


def test_examples_follow_their_rules(tmp_path):
    old = evaluated(tmp_path / "old.jsonl", [0.2, 0.3, 0.4])
    new = evaluated(tmp_path / "new.jsonl", [0.2, 0.7, 0.8])
    found = statistics(old, new, {}, None, SLOTS)
    chosen = found["examples"]
    assert [example["rule"].startswith("both start wrong") for example in chosen] == [True, True, False]
    assert chosen[0]["slots"] != chosen[1]["slots"] and len({example["id"] for example in chosen}) == 3
    for example in chosen[:2]:
        rates = [example[name][turn]["hidden"] for name in ("before", "after") for turn in (0, -1)]
        assert max(rates[:3]) < 1 and rates[3] == 1
    assert chosen[2]["after"][-1]["hidden"] < 1
    for turn in chosen[0]["before"] + chosen[0]["after"]:
        assert (turn["feedback"] is None) == (turn["hidden"] == 1) and turn["code"].startswith("xs = ")
    same = evaluated(tmp_path / "same.jsonl", [1.0, 1.0, 1.0])
    assert examples(same, same) == []


def test_examples_on_wrong_tests_are_of_the_trained_model_where_it_has_any(tmp_path):
    before = evaluated(tmp_path / "reference.jsonl", [0.5, 0.5, 0.5], n=6)
    after = evaluated(tmp_path / "cobalt.jsonl", [0.5, 0.5, 0.5], n=6)
    rows = [json.loads(line) for line in after.open()]
    said = {"role": "user", "content": "feedback:\nInput:\n1\nExpected Output:\n2"}
    for number, row in enumerate(rows):
        row["all_pass_rates"] = [[1.0, 1.0, 1.0] if number == 4 else [0.0, 0.0, 0.0]] * 2
        for messages in row["conversations"]:  # shown a wrong test, whatever they are
            messages[3] = said
    after.write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = [row["id"] for row in rows]
    files = {"reference": before, "cobalt": after}
    places = {"reference": [[names[0], 0, 1]], "cobalt": [[names[2], 1, 2], [names[3], 0, 1]]}
    bent, right = wrong_test_examples(files, places)
    assert [bent[key] for key in ("model", "id", "turn", "fits")] == ["cobalt", names[2], 2, 2]
    assert len(bent["turns"]) == 3 and right["rule"] == "right, and stays so"
    assert [right[key] for key in ("model", "id", "turn")] == ["cobalt", names[4], 1]
    assert [turn["hidden"] for turn in right["turns"]] == [1.0, 1.0]
    bent, _ = wrong_test_examples(files, places | {"cobalt": []})
    assert (bent["rule"], bent["model"], bent["id"]) == ("accepts the wrong test", "reference", names[0])
