"""Every figure of the report against a calculation by hand."""

import json
import math
from pathlib import Path

import pytest
from cobalt.report.examples import examples
from cobalt.report.paired_arms import Arm, Evaluations, arm_gain, by_slot, read_results, statistics
from report_data import SLOTS, evaluated, results

from cobalt.errors import InfraError, InputError
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun
from cobalt.evaluation.format import points
from cobalt.evaluation.summary import summarize
from cobalt.output import write_jsonl


def rows(path: Path, rates: dict[str, list[list[float]]], **more: dict[str, object]) -> Path:
    """Evaluated rows from `all_pass_rates` [sample][turn] by id; `more`: further fields by name and id."""
    write_jsonl(
        path,
        [
            {"id": key, "all_pass_rates": table, **{name: value[key] for name, value in more.items()}}
            for key, table in rates.items()
        ],
    )
    return path


GROUPS = {"t1": "g1", "t2": "g1", "t3": "g2", "t4": "g3"}
SLOT_OF = {"t1": ["format"], "t2": ["format", "constant"], "t3": [], "t4": ["constant"]}
OLD = {"t1": [[0, 0], [0, 1]], "t2": [[0, 0], [0, 0]], "t3": [[1, 1], [1, 0]], "t4": [[0, 0], [0.5, 0.5]]}
NEW = {"t1": [[0, 1], [0, 1]], "t2": [[0, 1], [0, 0]], "t3": [[1, 1], [1, 1]], "t4": [[0, 0], [0, 0]]}


@pytest.fixture
def arms(tmp_path):
    return [
        Arm(rows(tmp_path / f"{name}.jsonl", table, group=GROUPS, slots=SLOT_OF))
        for name, table in (("old", OLD), ("new", NEW))
    ]


def test_pass_at_1_is_the_mean_over_tasks_of_the_share_right(arms):
    old, new = arms
    assert old.pass_at_1()["pass_at_1"] == [0.25, 0.25]
    assert new.pass_at_1()["pass_at_1"] == [0.25, 0.625]


def test_the_interval_by_task_is_the_t_interval(arms):
    # shares .5 0 .5 0: mean .25, standard deviation .2887, standard error .1443, t(3) = 3.1824
    lo, hi = arms[0].pass_at_1()["ci95"][1]
    half = 3.182446305 * math.sqrt(1 / 12) / 2
    assert (lo, hi) == pytest.approx((0.25 - half, 0.25 + half))


def test_the_interval_by_structure_keeps_a_structures_tasks_together(arms):
    # deviations by structure: g1 .25 - .25 = 0, g2 .25, g3 -.25; se^2 = 3/2 * .125 / 16; t(2) = 4.3027
    lo, hi = arms[0].pass_at_1()["ci95_by_structure"][1]
    half = 4.302652730 * math.sqrt(1.5 * 0.125) / 4
    assert (lo, hi) == pytest.approx((0.25 - half, 0.25 + half))


def test_the_gain_is_paired_by_task(arms):
    old, new = arms
    gain = arm_gain(new, old, seed=0)
    assert gain["points"] == pytest.approx(100 * (0.5 + 0.5 + 0.5 + 0) / 4)
    assert gain["n"] == 4
    # Differences .5 .5 .5 0: resampled means lie in [0, 50] and 95 % of them do not reach below 12.5.
    assert gain["ci95"] == pytest.approx([12.5, 50])


def test_a_gain_can_be_against_another_turn(arms):
    _, new = arms
    assert arm_gain(new, new, old_turn=0, seed=0)["points"] == pytest.approx(37.5)


def test_the_slot_table_counts_also_and_only(arms):
    old, new = arms
    table = {(row["slot"], row["kind"]): row for row in by_slot(new, old, SLOTS, seed=0)}
    assert {key: row["n"] for key, row in table.items()} == {
        ("constant", "also"): 2,
        ("constant", "only"): 1,
        ("format", "also"): 2,
        ("format", "only"): 1,
        ("nothing", "only"): 1,
    }
    row = table["format", "also"]
    assert (row["before"], row["after"], row["points"]) == (0.25, 0.75, 50.0)
    assert table["constant", "only"]["points"] == 0.0
    # One structure only: no interval over structures.
    assert row["ci95_by_structure"] == [None, None]


def test_transitions_are_rates_over_pairs_of_programs(arms):
    old, new = arms
    assert old.behaviour()["right_to_wrong"] == {"count": 1, "of": 2, "rate": 0.5}
    assert old.behaviour()["wrong_to_right"] == {"count": 1, "of": 6, "rate": pytest.approx(1 / 6)}
    assert new.behaviour()["wrong_to_right"] == {"count": 3, "of": 6, "rate": 0.5}


def test_arms_of_other_tasks_are_not_compared(tmp_path):
    one = rows(tmp_path / "one.jsonl", OLD)
    other = rows(tmp_path / "other.jsonl", {"t1": [[0, 0]], "x": [[0, 0]]})
    with pytest.raises(InputError, match=r"not about the same tasks: 3 only in one .*, 1 only in other"):
        statistics(Evaluations(one, other), (), seed=0)


def test_a_program_without_verdict_is_no_result(tmp_path):
    path = rows(tmp_path / "r.jsonl", {"t1": [[None, 1]]}, exec_status={"t1": [["infra_error", "ok"]]})
    with pytest.raises(InfraError, match="no verdict"):
        Arm(path)


def test_other_rows_and_no_rows_are_refused(tmp_path):
    write_jsonl(tmp_path / "tasks.jsonl", [{"id": 1, "question": "?"}])
    with pytest.raises(InputError, match=r"tasks.jsonl:1: .*all_pass_rates"):
        Arm(tmp_path / "tasks.jsonl")
    write_jsonl(tmp_path / "none.jsonl", [])
    with pytest.raises(InputError, match="no evaluated rows"):
        Arm(tmp_path / "none.jsonl")


def test_results_have_the_agreed_schema(tmp_path):
    found = json.loads(json.dumps(results(tmp_path), allow_nan=False))
    turns = found["turns"]
    assert turns == 3 and found["tasks"] == 40 and found["samples_per_task"] == 2
    for name in ("reference", "cobalt"):
        rates, ends = found["pass_at_1"][name], found["ci95"][name]
        assert len(rates) == len(ends) == turns
        assert all(lo <= rate <= hi for rate, (lo, hi) in zip(rates, ends, strict=True))
    gain = found["final_turn_gain"]
    last = [found["pass_at_1"][name][-1] for name in ("reference", "cobalt")]
    assert gain["points"] == pytest.approx(100 * (last[1] - last[0]))
    assert gain["ci95"][0] < gain["points"] < gain["ci95"][1] and gain["paired_by"] == "task"
    assert set(found["controls"]) == {
        "single_turn_training",
        "blank_feedback",
        "other_feedback",
        "best_of_turns",
    }
    assert found["controls"]["best_of_turns"]["pass_at_1"] == [0.5]
    assert found["n_structures"] > 5


def test_evaluations_of_other_shape_are_refused(tmp_path):
    old = evaluated(tmp_path / "a.jsonl", [0.2, 0.3])
    new = evaluated(tmp_path / "b.jsonl", [0.2, 0.3, 0.4])
    with pytest.raises(InputError, match="differ in samples or turns"):
        statistics(Evaluations(old, new), SLOTS, seed=0)


def test_the_same_files_give_the_same_figures(tmp_path):
    first, second = results(tmp_path), results(tmp_path)
    assert first == second


def test_results_of_another_schema_are_refused(tmp_path):
    path = tmp_path / "results.json"
    for text in ("{", "[]", '{"schema": 99}'):
        path.write_text(text)
        with pytest.raises(InputError, match="results"):
            read_results(path)


def test_examples_follow_their_rules(tmp_path):
    old = evaluated(tmp_path / "old.jsonl", [0.2, 0.3, 0.4])
    new = evaluated(tmp_path / "new.jsonl", [0.2, 0.7, 0.8])
    chosen = examples(old, new)
    assert [example["rule"].startswith("both start wrong") for example in chosen] == [True, True, False]
    assert chosen[0]["slots"] != chosen[1]["slots"]
    for example in chosen[:2]:
        assert example["before"][-1]["hidden"] < 1 and example["after"][-1]["hidden"] == 1
        assert example["before"][0]["hidden"] < 1 and example["after"][0]["hidden"] < 1
    assert chosen[2]["after"][-1]["hidden"] < 1
    assert len({example["id"] for example in chosen}) == 3
    for turn in chosen[0]["before"] + chosen[0]["after"]:
        assert (turn["feedback"] is None) == (turn["hidden"] == 1)
        assert turn["code"].startswith("xs = ")


def test_a_difference_has_one_interval_wherever_it_is_shown(tmp_path):
    old = evaluated(tmp_path / "old.jsonl", [0.2, 0.3, 0.4])
    new = evaluated(tmp_path / "new.jsonl", [0.2, 0.7, 0.8])
    found = statistics(Evaluations(old, new), SLOTS, seed=3)
    rows = compare([EvaluatedRun.read(path.stem, path) for path in (old, new)], seed=3)["comparisons"]
    for gain, row in zip(found["gain_by_turn"], rows, strict=True):
        assert (gain["ci95"], gain["ci95_by_structure"]) == (row["ci95"], row["ci95_group"])
        assert points(gain) == points(row)
    assert found["final_turn_gain"]["ci95"] == rows[-1]["ci95"]
    same = statistics(Evaluations(old, new, {"again": new}), SLOTS, seed=3)["controls"]["again"]
    alone = summarize(list(Arm(new).run.outcomes.values()), seed=3)
    assert same["since_turn_1"]["ci95"] == alone["gain"][-1]["ci95"]


def test_no_example_is_made_up(tmp_path):
    same = evaluated(tmp_path / "same.jsonl", [1.0, 1.0, 1.0])
    assert examples(same, same) == []
