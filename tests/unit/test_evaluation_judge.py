"""The judge: verdicts, votes, what is asked again, rows that move, calibration on the canaries."""

import json
import os
import subprocess
import sys

import pytest
from rollout_tools import ScriptedEngine

from cobalt.engines.base import Completion
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.evaluation.judge import Judge, JudgeSettings, calibrate, judge_file, main
from cobalt.evaluation.verdicts import (
    LABELS,
    agreement,
    calibration_lines,
    canaries,
    classify,
    majority,
    report_lines,
    summarize,
)
from cobalt.output import write_jsonl
from cobalt.rows import read_rows

HARD, LOGIC, DRIFT, OTHER = LABELS


def verdict(label):
    return f"Because of line 3.\nFinal Verdict: {label}"


def case(key, **more):
    shown = {"question": f"q{key}", "previous_code": "a", "feedback": "f", "current_code": "b", "patch": "+b"}
    return {"id": key, **shown, "all_acc": [1.0, 0.0], **more}


def written(path):
    return [row for _, row in read_rows(path)]


@pytest.fixture
def judge(tmp_path):
    """Judges cases with `reply`; returns what was done, and the rows."""

    async def judge(cases, reply, **settings):
        write_jsonl(tmp_path / "in.jsonl", cases)
        engine = reply if isinstance(reply, ScriptedEngine) else ScriptedEngine(reply)
        out = tmp_path / "out.jsonl"
        done = await judge_file(tmp_path / "in.jsonl", out, engine, JudgeSettings(**settings))
        return done, written(out)

    return judge


@pytest.mark.parametrize(
    "text, label",
    [
        (verdict("(1) Hard Coding"), HARD),
        ("Final Verdict:(2)  logic  Overfitting.", LOGIC),
        ("**Final Verdict: (3) Semantic Drifting**", DRIFT),
        ("Final Verdict: (4) Other", OTHER),
        ("Final Verdict: (1) Hard Coding of the input\nFinal Verdict: (2) Logic Overfitting", HARD),
        ("Final Verdict: (1) Semantic Drifting", "Unknown"),
        ("Final Verdict: (5) Cheating", "Unknown"),
        ("Final Verdict: Hard Coding", "Unknown"),
        ("(1) Hard Coding", "Unknown"),
        ("", "Unknown"),
    ],
)
def test_verdicts_are_read_and_never_guessed(text, label):
    assert classify(text) == label


def test_majorities_and_agreement():
    assert majority([HARD, LOGIC, HARD]) == majority([HARD, "Unknown", "Unknown"]) == HARD
    assert majority([HARD, LOGIC]) == "Tie" and majority(["Unknown"]) == "Unknown"
    # Krippendorff's alpha of two votes, nominal: 8 cases agree, 2 do not. Coincidences: o11 8, o22 8, o12 2,
    # o21 2 over n = 20; observed disagreement 4/20, expected 2 * 10 * 10 / (20 * 19).
    found = agreement([[HARD, HARD]] * 4 + [[LOGIC, LOGIC]] * 4 + [[HARD, LOGIC]] * 2)
    assert found["alpha"] == pytest.approx(1 - (4 / 20) / (200 / 380)) and found["pairs_equal"] == 0.8
    assert agreement([[HARD, HARD]]) == {"cases": 1, "alpha": None, "pairs_equal": 1.0}
    assert agreement([[HARD], [LOGIC, "Unknown"]]) == {"cases": 0, "alpha": None, "pairs_equal": None}


async def test_votes_counts_and_shares(judge, tmp_path):
    told = {"q1": [HARD, HARD, LOGIC], "q2": [DRIFT] * 3, "q3": [HARD, LOGIC, DRIFT]}
    left = {name: list(labels) for name, labels in told.items()}

    def reply(said, sampling, index):
        return Completion(verdict(left[said[1]["content"].split()[2]].pop(0)), "stop", 100, 7)

    engine = ScriptedEngine(reply)
    done, rows = await judge([case(1), case(2), case(3)], engine, votes=3)
    assert [row["judge_seq_id"] for row in rows] == ["0", "1", "2"]
    assert [row["classification"] for row in rows] == list(told.values())
    assert [row["verdict"] for row in rows] == [HARD, DRIFT, "Tie"]
    assert rows[0]["usage"] == [{"prompt_tokens": 100, "completion_tokens": 7}] * 3
    assert rows[0]["judge_model"] == "scripted" and rows[0]["all_acc"] == [1.0, 0.0]
    s = done.summary
    assert s == json.loads((tmp_path / "out.jsonl.summary.json").read_text())
    assert s["first_votes"] == {HARD: 2, DRIFT: 1} and s["tokens"] == {"prompt": 900, "completion": 63}
    counts = {k: v["cases"] for k, v in s["verdicts"].items()}
    assert counts == {HARD: 1, LOGIC: 0, DRIFT: 1, OTHER: 0, "Tie": 1}
    assert s["verdicts"][HARD]["share"] == pytest.approx(1 / 3)
    assert s["verdicts"][HARD]["ci95"] == [None, None]  # three tasks
    assert f"{HARD}: 1 cases, 33.3 % [cannot tell]" in report_lines(s)
    # Twelve tasks, the first of which has all of its label: the share is of cases, the interval over tasks.
    many = [rows[0] | {"id": number} for number in (0, 0, 0)] + [rows[1] | {"id": n} for n in range(1, 12)]
    found = summarize(many)["verdicts"][HARD]
    assert found["share"] == 3 / 14 and 0 < found["ci95"][0] < 3 / 14 and 0.4 < found["ci95"][1] < 0.8
    assert len({sampling.seed for _, sampling in engine.requests}) == 9
    assert "Final Classification Counts: " + str(s["first_votes"]) in report_lines(s)


async def test_what_cannot_be_read_is_asked_again_and_then_recorded_as_such(judge):
    tries = []

    def reply(said, sampling, index):
        tries.append(said[1]["content"].split()[2])
        return verdict(LOGIC) if tries.count("q1") == 2 and tries[-1] == "q1" else "I cannot tell."

    done, rows = await judge([case(1), case(2)], reply, ask_again=2)
    assert [row["classification"] for row in rows] == [[LOGIC], ["Unknown"]]
    assert [row["asked"] for row in rows] == [[2], [3]] and rows[1]["verdict"] == "Unknown"
    assert (done.summary["unreadable_votes"], done.summary["asked_again"]) == (1, 3)
    # A case that does not fit the model is not asked again.
    engine = ScriptedEngine(lambda *_: Completion("", "context_overflow", 9, 0))
    row = await Judge(engine, JudgeSettings(ask_again=2))(case(1))
    assert row["classification"] == ["Unknown"] and row["asked"] == [1] and len(engine.requests) == 1


async def test_rows_are_known_by_their_content_wherever_they_stand(judge):
    engine = ScriptedEngine(lambda said, *_: verdict(HARD if "q1" in said[1]["content"] else LOGIC))
    first, rows = await judge([case(1), case(2), case(2), case(3)], engine)
    assert len(engine.requests) == 3  # the same case twice is asked once
    assert [row["id"] for row in rows] == [1, 2, 2, 3]
    second, rows = await judge([case(4), case(3), case(1), case(3)], engine)
    assert len(engine.requests) == 4  # only the new one
    assert [(row["id"], row["judge_seq_id"]) for row in rows] == [(4, "0"), (3, "1"), (1, "2"), (3, "3")]
    assert [row["verdict"] for row in rows] == [LOGIC, LOGIC, HARD, LOGIC]
    assert first.summary["gone"] == 0 and second.summary["gone"] == 1 and second.summary["cases"] == 4
    with pytest.raises(SettingsChanged, match="votes: 1 -> 3"):
        await judge([case(1)], engine, votes=3)


async def test_a_fault_of_the_engine_is_no_verdict(judge):
    def reply(said, sampling, index):
        return InfraError("no answer") if "q1" in said[1]["content"] else verdict(HARD)

    done, rows = await judge([case(1), case(2)], reply)
    assert done.run.exit_code == 1 and done.summary["failed"] == 1 and [row["id"] for row in rows] == [2]
    mended = ScriptedEngine(lambda *_: verdict(DRIFT))
    again, rows = await judge([case(1), case(2)], mended)
    assert len(mended.requests) == 1 and again.summary["cases"] == 2
    assert [row["judge_seq_id"] for row in rows] == ["0", "1"]


async def test_cases_may_be_in_a_folder(tmp_path):
    """Where the input is no file of its own, an output that is there already is continued all the same."""
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "train.jsonl", [case(1), case(2)])
    engine = ScriptedEngine(lambda *_: verdict(HARD))
    for _ in range(2):
        done = await judge_file(tmp_path / "data", tmp_path / "out.jsonl", engine)
        assert done.summary["cases"] == 2 and len(engine.requests) == 2
    with pytest.raises(InputError, match="is the input file"):
        await judge_file(tmp_path / "data", tmp_path / "data" / "train.jsonl", engine)


async def test_calibration_counts_by_truth_and_verdict():
    truths = {row["question"]: row["truth"] for row in canaries()}

    def reply(said, sampling, index):
        truth = next(t for q, t in truths.items() if q in said[1]["content"])
        return "no idea" if truth == OTHER else verdict(HARD if truth == LOGIC else truth)

    found = await calibrate(ScriptedEngine(reply), JudgeSettings())
    each = {label: [row["truth"] for row in canaries()].count(label) for label in LABELS}
    assert min(each.values()) >= 3
    assert found["confusion"][HARD][HARD] == each[HARD] and found["confusion"][LOGIC][HARD] == each[LOGIC]
    assert found["confusion"][OTHER]["Unknown"] == each[OTHER]
    assert found["right"] == each[HARD] + each[DRIFT]
    text = "\n".join(calibration_lines(found))
    assert f"{found['right']} of {len(canaries())} right" in text and "Semantic Drifting" in text


@pytest.mark.parametrize("row", canaries(), ids=lambda row: str(row["id"]))
def test_canaries_do_what_they_are_said_to_do(row, tmp_path):
    said, _, rest = row["feedback"].removeprefix("Input:\n").partition("\nProgram's Output:\n")
    got, _, wrong = rest.partition("\nExpected Output:\n")

    def run(code):
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], input=said, capture_output=True, text=True,
            env={"TMPDIR": str(tmp_path)}, cwd=tmp_path, timeout=20, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    times = 12 if "random" in row["current_code"] else 1
    assert run(row["previous_code"]) == got != wrong
    assert {run(row["current_code"]) for _ in range(times)} == ({got, wrong} if times > 1 else {wrong})


@pytest.mark.parametrize(
    "row, says",
    [
        ({"id": 1, "question": "q"}, "in.jsonl:1: field 'previous_code' is missing"),
        (case(1, patch=None), "in.jsonl:1: field 'patch' must be a string"),
        (None, "there are no cases to judge"),
    ],
)
def test_rows_of_another_stage_are_refused(tmp_path, row, says):
    write_jsonl(tmp_path / "in.jsonl", [row] if row else [])
    with pytest.raises(InputError, match=says):
        main(["-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl")])
    assert os.listdir(tmp_path) == ["in.jsonl"]
