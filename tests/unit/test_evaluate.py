"""Hidden-test evaluation on a scripted judge: rows, statistics by hand, faults, bad input, controls."""

import json
import math

import pytest
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, seeded_reply, task

from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.evaluation.controls import best_of_n, choices, feedback_control
from cobalt.evaluation.evaluate import hidden_tests, summary_path
from cobalt.evaluation.evaluated_rows import Outcomes
from cobalt.evaluation.summary import report_lines, summarize
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import read_rows

ALL = "pass 0 1 2 3 4"  # public tests are 0 and 1, hidden ones 2, 3 and 4
THIRD = 1 / 3


def dialogue(*codes):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for code in codes:
        text = fence(code) if code else "no code"
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "f"}]
    return messages


def row(key, *samples, **more):
    """A row with only what evaluation needs, and some difficulty and group."""
    kept = {"id": key, "hidden_test_cases": task(0)["hidden_test_cases"]}
    return kept | {"conversations": [dialogue(*codes) for codes in samples]} | more


def rows_of(path):
    return [row for _, row in read_rows(path)]


ROWS = [
    row("a", (ALL, "pass 2", ALL), ("pass 0", None, ALL), difficulty="easy", group="g"),
    row("b", ("pass 2 3", ALL, ALL), ("pass 2", "pass 3", "pass"), difficulty="hard", group="h"),
]


async def evaluate(tmp_path, rows, judge=None, **how):
    done = await hidden_tests(rows, tmp_path / "e.jsonl", judge or ScriptedJudge(), **how)
    return done, done.summary


async def test_rows_and_numbers_by_hand(tmp_path):
    judge = ScriptedJudge()
    done, s = await evaluate(tmp_path, ROWS, judge)
    made = rows_of(tmp_path / "e.jsonl")
    assert [r.pop("all_pass_rates") for r in made] == [
        [[1.0, THIRD, 1.0], [0.0, 0.0, 1.0]], [[2 / 3, 1.0, 1.0], [THIRD, THIRD, 0.0]],
    ]  # fmt: skip
    assert made[0].pop("exec_status") == [["ok", "ok", "ok"], ["ok", "no_code", "ok"]]
    assert made[1].pop("exec_status") and made == ROWS
    assert s == json.loads(summary_path(tmp_path / "e.jsonl").read_text())
    assert (s["tasks"], s["turns"], s["groups"]) == (2, 3, 2)
    assert s["pass_at_1"] == [0.25, 0.25, 0.75]
    assert s["pass_at_k"] == {"1": [0.25, 0.25, 0.75], "2": [0.5, 0.5, 1.0]}
    assert s["relative_change_percent"] == pytest.approx([0, 0, 200])
    none = [[None, None]] * 3  # two tasks have no interval
    assert s["ci95_group"] == s["ci95"] == s["pass_at_k_ci95"]["1"] == none and s["se"] == [None] * 3
    steps = [[step[kind] for kind in ("right_to_wrong", "wrong_to_right")] for step in s["transitions"]]
    assert [[(each["count"], each["of"]) for each in step] for step in steps] == [
        [(1, 1), (1, 3)], [(0, 1), (2, 3)],
    ]  # fmt: skip
    assert steps[1][1]["rate"] == 2 / 3 and s["no_code"] == [0.0, 0.25, 0.0]
    assert s["gain"][0] == {"points": 0.0, "ci95": [None, None]} and s["gain"][2]["points"] == 50.0
    assert s["by_difficulty"] == {
        "easy": {"tasks": 1, "pass_at_1": [0.5, 0.0, 1.0], "ci95": none},
        "hard": {"tasks": 1, "pass_at_1": [0.0, 0.5, 0.5], "ci95": none},
    }
    # a: two and one that pass nothing hidden ("pass 2", "pass 0"), b: five different programs, all once
    assert s["counts"]["distinct_programs"] == 3 + 5 and s["counts"]["programs"] == 12
    assert len(judge.calls) == 3 + 5 + 1  # and the message without code
    apart = ScriptedJudge()
    found = await hidden_tests(ROWS, tmp_path / "apart.jsonl", apart, shared_verdicts=False)
    assert len(apart.calls) == 12 and found.summary["pass_at_1"] == s["pass_at_1"]
    assert s["public"] is None and s["infra_errors"] == 0 and done.exit_code == 0
    assert report_lines(s)[:4] == [
        "Hidden Test Cases Pass @ 1: [25.0, 25.0, 75.0]",
        "Relative Changes: [0.0, 0.0, 200.0]",
        "Pass@1 per turn (%): 25.00 25.00 75.00",
        "Change against turn 1 (%): +0.00 +0.00 +200.00",
    ]


async def test_public_rates_give_the_gap_and_the_status_of_every_test_can_be_kept(tmp_path):
    rates = {"public_pass_rates": [[1.0, 0.5], [0.5, 0.0], [1.0, 1.0]]}  # [turn][sample]
    _, s = await evaluate(tmp_path, [each | rates for each in ROWS], per_test=True)
    assert s["public"] == {"pass_at_1": [0.5, 0.0, 1.0], "gap": [0.25, -0.25, 0.25]}
    passed, failed = ["passed"] * 3, ["passed", "wrong_answer", "wrong_answer"]
    assert rows_of(tmp_path / "e.jsonl")[0]["hidden_test_status"][0] == [passed, failed, passed]


def test_functional_tasks_are_told_by_what_they_ask_for():
    for more in (
        {"starter_code": "class Solution:\n    def f(self):"}, {"metadata": '{"func_name": "f"}'},
        {"hidden_test_cases": '{"fn_name": "f", "inputs": [[1]], "outputs": [1]}'}, {"is_functional": True},
    ):  # fmt: skip
        outcome = Outcomes.of({"id": 0, "all_pass_rates": [[1.0]]} | more, "f:1")
        assert list(summarize([outcome])["by_subset"]) == ["functional"]


async def test_ragged_and_stopped_trajectories_and_zero_at_first(tmp_path):
    _, s = await evaluate(tmp_path, [row(0, ("pass", ALL))])
    lines = report_lines(s)
    assert s["relative_change_percent"] == [None, None] and lines[1] == "Relative Changes: [nan, inf]"
    assert lines[4].endswith("[cannot tell] [cannot tell]") and "too few to tell" in lines[-2]
    (tmp_path / "e.jsonl").unlink()
    done, s = await evaluate(tmp_path, [row(0, (ALL, ALL, ALL), ("pass",)), row(1, (ALL,))])
    assert s["pass_at_1"] == [0.75, 1.0, 1.0] and s["turns"] == 3
    assert s["pass_at_k"] == {"1": [0.75, 1.0, 1.0], "2": [None, None, None]}
    assert (s["counts"]["missing_programs"], s["counts"]["missing_samples"]) == (4, 1)
    assert "4 programs are missing" in done.notes[0] and "1 samples are missing" in done.notes[1]
    (tmp_path / "e.jsonl").unlink()
    rows = [row(0, (ALL,), ("pass", "pass 2", ALL), stopped_when_passed=[True, False])]
    _, s = await evaluate(tmp_path, rows)  # success is carried forward
    assert s["pass_at_1"] == [0.5, 0.5, 1.0]
    assert [s["counts"][name] for name in ("carried_forward", "missing_programs", "programs")] == [2, 0, 4]


async def test_faults_are_masked_counted_and_tried_again_and_settings_compared(tmp_path):
    rows = [row(0, (ALL, "broken"), (ALL, ALL)), row(1, ("pass", "pass"), ("pass", "pass"))]
    done, s = await evaluate(tmp_path, rows)
    made = rows_of(tmp_path / "e.jsonl")[0]
    assert made["all_pass_rates"] == [[1.0, None], [1.0, 1.0]] and made["exec_status"][0][1] == "infra_error"
    assert (s["pass_at_1"], s["infra_errors"], done.exit_code) == ([0.5, 0.5], 1, 1)
    assert s["transitions"][0]["right_to_wrong"] == {"count": 0, "of": 1, "rate": 0.0}
    before = (tmp_path / "e.jsonl").read_bytes()
    with pytest.raises(SettingsChanged):
        await evaluate(tmp_path, ROWS)
    assert (tmp_path / "e.jsonl").read_bytes() == before

    class Mended(ScriptedJudge):
        async def aevaluate(self, code, test_cases):
            return await super().aevaluate("pass" if code == "broken" else code, test_cases)

    judge = Mended()
    again, s = await evaluate(tmp_path, rows, judge)
    assert again.exit_code == 0 and s["pass_at_1"] == [0.5, 0.25] and again.run.resumed == 1
    assert [code for code, _ in judge.calls] == [ALL, "pass"]  # of the row with the fault only
    assert [r["id"] for r in rows_of(tmp_path / "e.jsonl")] == [0, 1]


async def test_code_from_raw_evaluates_the_uncut_response(tmp_path):
    settings = MultiTurnSettings(prompts=TINY, turns=1, enable_thinking=True)
    cut = "<think></think>" + "y" * 6000 + fence(ALL)
    stored = task(0, responses=[cut, fence(ALL) + "</think>" + fence("pass 0")])
    await multi_turn([stored], tmp_path / "m.jsonl", ScriptedEngine(seeded_reply), ScriptedJudge(), settings)
    done, s = await evaluate(tmp_path, tmp_path / "m.jsonl")
    assert (s["no_code"], s["pass_at_1"], s["counts"]["code_differs"]) == ([0.5], [0.0], 1)
    assert "--code_from raw" in done.notes[0]
    (tmp_path / "e.jsonl").unlink()
    _, s = await evaluate(tmp_path, tmp_path / "m.jsonl", code_from="raw")
    assert (s["no_code"], s["pass_at_1"]) == ([0.0], [0.5])


GOOD = row(0, (ALL, ALL))


@pytest.mark.parametrize(
    "change, says",
    [
        ({"conversations": None}, "field 'conversations' must be a list"),
        ({"hidden_test_cases": None}, "field 'hidden_test_cases' is missing"),
        ({"conversations": []}, "holds no samples"),
        ({"conversations": [dialogue()]}, r"conversations\[0\] must be a list of at least three"),
        ({"conversations": [dialogue(ALL), dialogue(ALL)[1:]]}, r"conversations\[1\]\[0\] must be"),
        ({"conversations": [[*dialogue(ALL), dialogue()[1]]]}, r"\[4\] must be.*'assistant'"),
        ({"conversations": [[*dialogue(), {"role": "assistant", "content": 3}]]}, "must be a text"),
    ],
)
async def test_rows_of_another_stage_are_refused(tmp_path, change, says):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(GOOD | {"id": "good"}) + "\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{says}"):
        await evaluate(tmp_path, path)
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("rates", [[[math.nan]], [[1.5]], [["x"]], [[True]], [[1], []], [], None])
def test_rates_that_are_none(rates):
    with pytest.raises(InputError, match=r"f:1: .*all_pass_rates"):
        Outcomes.of({"id": 0, "all_pass_rates": rates}, "f:1")


async def test_best_of_n_takes_the_first_best_by_public_tests(tmp_path):
    rates = [[0], [1], [0], [1], [0], [0]]
    made = {"public_pass_rates": [[0.5, 1.0, 1.0, 0.0, 0.0, 0.0]], "all_pass_rates": rates}
    assert choices(made, 3) == [1.0, 1.0] and choices(made, 2) == [1.0, 0.0, 0.0]
    replies = [fence(code) for code in ("pass 0", ALL, "pass 0 1", "pass", "pass 1", "pass 2 3 4")]
    settings, engine = (
        MultiTurnSettings(prompts=TINY, turns=3, n=2),
        ScriptedEngine(lambda m, s, i: replies[i]),
    )
    best = await best_of_n(3, [task(0), task(1)], tmp_path, engine, ScriptedJudge(), settings)
    assert best == {0: 0.5, 1: 0.5} and (tmp_path / "best_of_3_eval.jsonl.summary.json").exists()


async def test_feedback_controls_take_the_feedback_away(tmp_path):
    def reply(messages, sampling, index):
        """Right only if told about the failing input of the own task."""
        told = messages[-1]["content"].endswith(f"{messages[1]['content'].split()[-1]}\nfailed")
        return fence(ALL if told else "pass")

    class Judge(ScriptedJudge):
        @staticmethod
        def _result(passing, status, feedback):
            return ScriptedJudge._result(passing, status, [text.replace("in", "", 1) for text in feedback])

    tests = [json.dumps({"inputs": [f"in{i}"], "outputs": ["x"]}) for i in range(6)]
    tasks = [task(i, public_test_cases=tests[i]) for i in range(6)]
    settings = MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True)
    for kind in ("blank", "other"):
        done = await feedback_control(kind, tasks, tmp_path, ScriptedEngine(reply), Judge(), settings)
        assert done.summary["pass_at_1"] == [0.0, 0.0]
        assert done.run.output == tmp_path / f"control_{kind}_eval.jsonl"
    with pytest.raises(InputError, match="unknown feedback control"):
        await feedback_control("nope", tasks, tmp_path, ScriptedEngine(reply), Judge(), settings)


async def test_a_control_with_a_failed_task_is_an_error_and_begun_anew(tmp_path):
    async def control(kind, code):
        engine = ScriptedEngine(lambda m, s, i: fence(code))
        settings = MultiTurnSettings(prompts=TINY, turns=1, n=1, first_turn=True)
        return await feedback_control(
            kind, [task(0), task(1)], tmp_path, engine, ScriptedJudge(), settings
        )  # fmt: skip

    for kind in ("blank", "other"):
        with pytest.raises(InfraError, match="tasks of"):
            await control(kind, "broken")
    assert (await control("other", ALL)).summary["pass_at_1"] == [1.0]
