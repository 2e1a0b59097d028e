"""Every figure of `results.json` against a calculation by hand."""

import json
import math

import pytest
from report_data import SLOTS, evaluated, results
from rollout_tools import rated

from cobalt.errors import InfraError, InputError
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun
from cobalt.evaluation.format import points
from cobalt.report.results import Arm, arm_gain, by_slot, examples, read_results, statistics

GROUPS = {"t1": "g1", "t2": "g1", "t3": "g2", "t4": "g3"}
SLOT_OF = {"t1": ["format"], "t2": ["format", "constant"], "t3": [], "t4": ["constant"]}
OLD = {"t1": [[0, 0], [0, 1]], "t2": [[0, 0], [0, 0]], "t3": [[1, 1], [1, 0]], "t4": [[0, 0], [0.5, 0.5]]}
NEW = {"t1": [[0, 1], [0, 1]], "t2": [[0, 1], [0, 0]], "t3": [[1, 1], [1, 1]], "t4": [[0, 0], [0, 0]]}


@pytest.fixture
def arms(tmp_path):
    return [
        Arm(rated(tmp_path / f"{name}.jsonl", table, group=GROUPS, slots=SLOT_OF))
        for name, table in (("old", OLD), ("new", NEW))
    ]


def test_rates_and_their_intervals(arms):
    old, new = (arm.pass_at_1() for arm in arms)
    assert old["pass_at_1"] == [0.25, 0.25] and new["pass_at_1"] == [0.25, 0.625]
    # By task: shares .5 0 .5 0: mean .25, standard deviation .2887, standard error .1443, t(3) = 3.1824
    half = 3.182446305 * math.sqrt(1 / 12) / 2
    assert old["ci95"][1] == pytest.approx([0.25 - half, 0.25 + half])
    # By structure: deviations g1 .25 - .25 = 0, g2 .25, g3 -.25; se^2 = 3/2 * .125 / 16; t(2) = 4.3027
    half = 4.302652730 * math.sqrt(1.5 * 0.125) / 4
    assert old["ci95_by_structure"][1] == pytest.approx([0.25 - half, 0.25 + half])
    found = arms[0].behaviour()  # over pairs of programs
    assert found["right_to_wrong"] == {"count": 1, "of": 2, "rate": 0.5}
    assert found["wrong_to_right"] == {"count": 1, "of": 6, "rate": pytest.approx(1 / 6)}


def test_the_gain_is_paired_by_task(arms):
    old, new = arms
    gain = arm_gain(new, old, seed=0)
    assert gain["points"] == pytest.approx(100 * (0.5 + 0.5 + 0.5 + 0) / 4) and gain["n"] == 4
    # Differences .5 .5 .5 0: resampled means lie in [0, 50] and 95 % of them do not reach below 12.5.
    assert gain["ci95"] == pytest.approx([12.5, 50])
    assert arm_gain(new, new, old_turn=0, seed=0)["points"] == pytest.approx(37.5)


def test_the_slot_table_counts_also_and_only(arms):
    rows = by_slot(arms[1], arms[0], SLOTS, seed=0)
    assert by_slot(arms[1], arms[0], (), seed=0) == rows  # by what the tasks' rows say
    table = {(row["slot"], row["kind"]): row for row in rows}
    assert {key: row["n"] for key, row in table.items()} == {
        ("constant", "also"): 2, ("constant", "only"): 1, ("format", "also"): 2, ("format", "only"): 1,
        ("nothing", "only"): 1,
    }  # fmt: skip
    row = table["format", "also"]
    assert (row["before"], row["after"], row["points"]) == (0.25, 0.75, 50.0)
    assert row["ci95_by_structure"] == [None, None]  # there is one structure only


def test_there_is_no_slot_table_where_nobody_says_what_is_vague(tmp_path):
    arm = Arm(rated(tmp_path / "one.jsonl", OLD))
    assert by_slot(arm, arm, (), seed=0) == []


def test_files_that_are_no_result_are_refused(tmp_path):
    one = rated(tmp_path / "one.jsonl", OLD)
    other = rated(tmp_path / "other.jsonl", {"t1": [[0, 0]], "x": [[0, 0]]})
    with pytest.raises(InputError, match=r"not about the same tasks: 3 only in one .*, 1 only in other"):
        statistics(one, other, {}, None, (), seed=0)
    longer = rated(tmp_path / "longer.jsonl", {key: [[*s, 1] for s in table] for key, table in OLD.items()})
    with pytest.raises(InputError, match="differ in samples or turns"):
        statistics(one, longer, {}, None, (), seed=0)
    fault = rated(tmp_path / "r.jsonl", {"t1": [[None, 1]]}, exec_status=[["infra_error", "ok"]])
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


def test_a_difference_has_one_interval_wherever_it_is_shown_and_examples_follow_their_rules(tmp_path):
    old = evaluated(tmp_path / "old.jsonl", [0.2, 0.3, 0.4])
    new = evaluated(tmp_path / "new.jsonl", [0.2, 0.7, 0.8])
    found = statistics(old, new, {}, None, SLOTS, seed=3)
    runs = compare([EvaluatedRun.read(path.stem, path) for path in (old, new)], seed=3)["comparisons"]
    for gain, row in zip(found["gain_by_turn"], runs, strict=True):
        assert (gain["ci95"], gain["ci95_by_structure"]) == (row["ci95"], row["ci95_group"])
        assert points(gain) == points(row)
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
