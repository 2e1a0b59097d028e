"""Hidden-test evaluation on a scripted judge: rows, statistics by hand, faults, bad input, controls."""

import json
import math

import pytest
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, seeded_reply, task

from cobalt.analysis.controls import best_of_n, choices, feedback_control
from cobalt.analysis.hidden_tests import hidden_tests, summary_path
from cobalt.analysis.outcomes import Outcomes
from cobalt.analysis.summary import report_lines, summarize
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import read_rows
from cobalt.stats import clustered_mean

ALL = "pass 0 1 2 3 4"  # public tests are 0 and 1, hidden ones 2, 3 and 4


def dialogue(*codes):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for code in codes:
        messages += [
            {"role": "assistant", "content": (code and fence(code)) or "no code"},
            {"role": "user", "content": "f"},
        ]
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


async def test_rows_and_numbers_by_hand(tmp_path):
    judge = ScriptedJudge()
    done = await hidden_tests(ROWS, tmp_path / "e.jsonl", judge)
    made = rows_of(tmp_path / "e.jsonl")
    third, two = 1 / 3, 2 / 3
    assert [r["all_pass_rates"] for r in made] == [
        [[1.0, third, 1.0], [0.0, 0.0, 1.0]],
        [[two, 1.0, 1.0], [third, third, 0.0]],
    ]
    assert made[0]["exec_status"] == [["ok", "ok", "ok"], ["ok", "no_code", "ok"]]
    assert [{k: v for k, v in r.items() if k not in ("all_pass_rates", "exec_status")} for r in made] == ROWS
    s = done.summary
    assert s == json.loads(summary_path(tmp_path / "e.jsonl").read_text())
    assert (s["tasks"], s["samples_per_task"], s["turns"], s["groups"]) == (2, 2, 3, 2)
    assert s["pass_at_1"] == [0.25, 0.25, 0.75]
    assert s["pass_at_k"] == {"1": [0.25, 0.25, 0.75], "2": [0.5, 0.5, 1.0]}
    assert s["mean_pass_rate"] == pytest.approx([(0.5 + 0.5) / 2, (third / 2 + two) / 2, (1 + 0.5) / 2])
    assert s["solved_by_turn"] == [0.25, 0.5, 0.75]
    assert s["relative_change_percent"] == pytest.approx([0, 0, 200])
    # two tasks with means 1/2 and 0: se = sqrt(2/1 * 2 * (1/4)^2) / 2 = 1/4, t(0.975, 1) = 12.7062
    assert s["se"] == pytest.approx([0.25] * 3)
    assert s["ci95"][0] == pytest.approx([0.25 - 12.7062 / 4, 0.25 + 12.7062 / 4], abs=1e-4)
    assert s["ci95_group"] == s["ci95"]  # every task is a group of its own here
    first, second = s["transitions"]
    assert first["right_to_wrong"] == {"count": 1, "of": 1, "rate": 1.0}
    assert first["wrong_to_right"] == {"count": 1, "of": 3, "rate": third}
    assert second["right_to_wrong"] == {"count": 0, "of": 1, "rate": 0.0}
    assert second["wrong_to_right"] == {"count": 2, "of": 3, "rate": two}
    assert s["no_code"] == [0.0, 0.25, 0.0]
    assert s["gain"][0] == {"points": 0.0, "ci95": [0.0, 0.0]} and s["gain"][2]["points"] == 50.0
    none = [[None, None]] * 3  # one task has no interval
    assert s["by_difficulty"] == {
        "easy": {"tasks": 1, "pass_at_1": [0.5, 0.0, 1.0], "ci95": none},
        "hard": {"tasks": 1, "pass_at_1": [0.0, 0.5, 0.5], "ci95": none},
    }
    assert s["by_subset"]["stdin"]["tasks"] == 2 and set(s["by_subset"]) == {"stdin"}
    # Pass@2 of both tasks: (1, 0), (1, 0), (1, 1)
    assert s["pass_at_k_se"]["2"] == pytest.approx([0.5, 0.5, 0.0])
    assert s["pass_at_k_ci95"]["1"] == s["ci95"] and s["se_group"] == s["se"]
    assert s["by_turn"] == [{"tasks": 2, "programs": 4, "missing": 0}] * 3
    # a: two and one that pass nothing hidden ("pass 2", "pass 0"), b: five different programs, all once
    assert s["counts"]["distinct_programs"] == 3 + 5
    assert len(judge.calls) == 3 + 5 + 1  # and the message without code
    assert s["public"] is None and s["infra_errors"] == 0 and done.exit_code == 0
    assert s["counts"]["programs"] == 12 and s["counts"]["missing_programs"] == 0
    assert report_lines(s)[:4] == [
        "Hidden Test Cases Pass @ 1: [25.0, 25.0, 75.0]",
        "Relative Changes: [0.0, 0.0, 200.0]",
        "Pass@1 per turn (%): 25.00 25.00 75.00",
        "Change against turn 0 (%): +0.00 +0.00 +200.00",
    ]


async def test_zero_at_the_first_turn_has_no_relative_change(tmp_path):
    done = await hidden_tests([row(0, ("pass", ALL))], tmp_path / "e.jsonl", ScriptedJudge())
    assert done.summary["relative_change_percent"] == [None, None]
    lines = report_lines(done.summary)
    assert lines[1] == "Relative Changes: [nan, inf]"
    assert lines[3].endswith("n/a n/a") and lines[4].endswith("[n/a] [n/a]")  # one task has no interval
    assert done.summary["ci95"] == [[None, None], [None, None]]
    assert done.summary["ci95_group"] is None


async def test_public_rates_give_the_gap(tmp_path):
    rates = [[1.0, 0.5], [0.5, 0.0], [1.0, 1.0]]  # [turn][sample]
    rows = [ROWS[0] | {"public_pass_rates": rates}, ROWS[1] | {"public_pass_rates": rates}]
    s = (await hidden_tests(rows, tmp_path / "e.jsonl", ScriptedJudge())).summary
    assert s["public"] == {"pass_at_1": [0.5, 0.0, 1.0], "gap": [0.25, -0.25, 0.25]}


async def test_ragged_turns_and_samples_are_reported(tmp_path):
    rows = [row(0, (ALL, ALL, ALL), ("pass",)), row(1, (ALL,))]
    done = await hidden_tests(rows, tmp_path / "e.jsonl", ScriptedJudge())
    s = done.summary
    assert s["pass_at_1"] == [0.75, 1.0, 1.0] and s["samples_per_task"] is None and s["turns"] == 3
    assert s["pass_at_k"] == {"1": [0.75, 1.0, 1.0], "2": [None, None, None]}
    assert s["counts"]["missing_programs"] == 4 and s["counts"]["trajectories"] == 3
    assert any("ragged: 4 programs" in note and "by turn: 3 1 1" in note for note in done.notes)
    assert s["counts"]["missing_samples"] == 1 and any("1 samples are missing" in n for n in done.notes)


async def test_sharing_can_be_switched_off_and_the_status_of_every_test_kept(tmp_path):
    judge = ScriptedJudge()
    rows = [row(0, (ALL, ALL), (ALL, "pass 2"))]
    await hidden_tests(rows, tmp_path / "e.jsonl", judge, shared_verdicts=False, per_test=True)
    assert len(judge.calls) == 4
    passed, failed = ["passed"] * 3, ["passed", "wrong_answer", "wrong_answer"]
    assert rows_of(tmp_path / "e.jsonl")[0]["hidden_test_status"] == [[passed, passed], [passed, failed]]


@pytest.mark.parametrize(
    "more, subset",
    [
        ({"starter_code": "class Solution:\n    def f(self):"}, "functional"),
        ({"metadata": '{"func_name": "f"}'}, "functional"),
        ({"metadata": {"func_name": "f"}, "starter_code": ""}, "functional"),
        ({"hidden_test_cases": '{"fn_name": "f", "inputs": [[1]], "outputs": [1]}'}, "functional"),
        ({"is_functional": True}, "functional"),
        ({"is_functional": False, "starter_code": "class Solution: ..."}, "stdin"),
        ({"metadata": "{}", "starter_code": ""}, "stdin"),
        ({"metadata": "func_name, but not JSON"}, "stdin"),
        ({}, "stdin"),
    ],
)
def test_functional_tasks_are_told_by_what_they_ask_for(more, subset):
    outcome = Outcomes.of({"id": 0, "all_pass_rates": [[1.0]]} | more, "f:1")
    assert summarize([outcome])["by_subset"] == {
        subset: {"tasks": 1, "pass_at_1": [1.0], "ci95": [[None, None]]}
    }


async def test_trajectories_stopped_at_success_are_carried_forward(tmp_path):
    rows = [row(0, (ALL,), ("pass", "pass 2", ALL), stopped_when_passed=[True, False])]
    s = (await hidden_tests(rows, tmp_path / "e.jsonl", ScriptedJudge())).summary
    assert s["pass_at_1"] == [0.5, 0.5, 1.0]
    assert (s["counts"]["carried_forward"], s["counts"]["missing_programs"], s["counts"]["programs"]) == (
        2,
        0,
        4,
    )


async def test_faults_are_masked_counted_and_tried_again(tmp_path):
    rows = [row(0, (ALL, "broken"), (ALL, ALL)), row(1, ("pass", "pass"), ("pass", "pass"))]
    done = await hidden_tests(rows, tmp_path / "e.jsonl", ScriptedJudge())
    made = rows_of(tmp_path / "e.jsonl")
    assert (
        made[0]["all_pass_rates"] == [[1.0, None], [1.0, 1.0]]
        and made[0]["exec_status"][0][1] == "infra_error"
    )
    assert (
        done.summary["pass_at_1"] == [0.5, 0.5] and done.summary["infra_errors"] == 1 and done.exit_code == 1
    )
    assert done.summary["transitions"][0]["right_to_wrong"] == {"count": 0, "of": 1, "rate": 0.0}

    class Mended(ScriptedJudge):
        async def aevaluate(self, code, test_cases):
            return await super().aevaluate("pass" if code == "broken" else code, test_cases)

    judge = Mended()
    again = await hidden_tests(rows, tmp_path / "e.jsonl", judge)
    assert again.exit_code == 0 and again.summary["pass_at_1"] == [0.5, 0.25] and again.run.resumed == 1
    # Only the row with the fault was done again, each of its two programs once.
    assert [code for code, _ in judge.calls] == [ALL, "pass"]
    assert [r["id"] for r in rows_of(tmp_path / "e.jsonl")] == [0, 1]


async def test_other_settings_leave_the_output_alone(tmp_path):
    path = tmp_path / "e.jsonl"
    await hidden_tests([row(0, ("broken",))], path, ScriptedJudge())
    before = path.read_bytes()
    with pytest.raises(SettingsChanged):
        await hidden_tests(ROWS, path, ScriptedJudge())
    assert path.read_bytes() == before


async def test_code_from_raw_evaluates_the_uncut_response(tmp_path):
    settings = MultiTurnSettings(prompts=TINY, turns=1, enable_thinking=True)
    stored = task(
        0, responses=["<think></think>" + "y" * 6000 + fence(ALL), fence(ALL) + "</think>" + fence("pass 0")]
    )
    await multi_turn([stored], tmp_path / "m.jsonl", ScriptedEngine(seeded_reply), ScriptedJudge(), settings)
    done = await hidden_tests(tmp_path / "m.jsonl", tmp_path / "message.jsonl", ScriptedJudge())
    assert done.summary["no_code"] == [0.5] and done.summary["pass_at_1"] == [0.0]
    assert done.summary["counts"]["code_differs"] == 1 and any(
        "--code_from raw" in note for note in done.notes
    )
    raw = await hidden_tests(tmp_path / "m.jsonl", tmp_path / "raw.jsonl", ScriptedJudge(), code_from="raw")
    assert raw.summary["no_code"] == [0.0] and raw.summary["pass_at_1"] == [0.5]


GOOD = row(0, (ALL, ALL))


@pytest.mark.parametrize(
    "bad, says",
    [
        ({k: v for k, v in GOOD.items() if k != "conversations"}, "field 'conversations' is missing"),
        ({k: v for k, v in GOOD.items() if k != "hidden_test_cases"}, "field 'hidden_test_cases' is missing"),
        (GOOD | {"conversations": []}, "holds no samples"),
        (GOOD | {"conversations": [dialogue()]}, r"conversations\[0\] must be a list of at least three"),
        (GOOD | {"conversations": [dialogue(ALL), dialogue(ALL)[1:]]}, r"conversations\[1\]\[0\] must be"),
        (
            GOOD | {"conversations": [[*dialogue(ALL), {"role": "user", "content": ""}]]},
            r"\[4\] must be.*'assistant'",
        ),
        (GOOD | {"conversations": [[*dialogue(), {"role": "assistant", "content": 3}]]}, "must be a text"),
        (GOOD | {"conversations": "text"}, "must be a list"),
    ],
)
async def test_rows_of_another_stage_are_refused(tmp_path, bad, says):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(GOOD | {"id": "good"}) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{says}"):
        await hidden_tests(path, tmp_path / "e.jsonl", ScriptedJudge())
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    "rates, says",
    [
        ([[math.nan]], "shares"),
        ([[1.5]], "shares"),
        ([["x"]], "shares"),
        ([], "no evaluated"),
        (None, "list"),
    ],
)
def test_rates_that_are_none(rates, says):
    with pytest.raises(InputError, match=says):
        summarize([] if rates == [] else [Outcomes.of({"id": 0, "all_pass_rates": rates}, "f:1")])


async def test_best_of_n_takes_the_first_best_by_public_tests(tmp_path):
    made = {
        "public_pass_rates": [[0.5, 1.0, 1.0, 0.0, 0.0, 0.0]],
        "all_pass_rates": [[0], [1], [0], [1], [0], [0]],
    }
    assert choices(made, 3) == [1.0, 1.0] and choices(made, 2) == [1.0, 0.0, 0.0]
    replies = [fence(code) for code in ("pass 0", ALL, "pass 0 1", "pass", "pass 1", "pass 2 3 4")]
    tasks = [task(0, group="g"), task(1, group="h"), task(2, group="h")]
    settings = MultiTurnSettings(prompts=TINY, turns=3, n=2)
    best = await best_of_n(
        3, tasks, tmp_path, ScriptedEngine(lambda m, s, i: replies[i]), ScriptedJudge(), settings
    )
    assert best.rates == {0: 0.5, 1: 0.5, 2: 0.5} and best.interval == clustered_mean([[1.0, 0.0]] * 3)
    assert best.interval_group.mean == 0.5 and (tmp_path / "best_of_3_eval.jsonl.summary.json").exists()


async def test_feedback_controls_run_end_to_end(tmp_path):
    def reply(messages, sampling, index):
        """Right only if told about a failing input of the own task."""
        told = messages[-1]["content"].endswith(f"{messages[1]['content'].split()[-1]}\nfailed")
        return fence(ALL if told else "pass")

    tasks = [
        task(i, public_test_cases=json.dumps({"inputs": [f"in{i}"], "outputs": ["x"]})) for i in range(6)
    ]

    class Judge(ScriptedJudge):
        @staticmethod
        def _result(passing, status, feedback):
            return ScriptedJudge._result(passing, status, [text.replace("in", "", 1) for text in feedback])

    tasks = [t | {"instruction": f"statement {i}"} for i, t in enumerate(tasks)]
    settings = MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True)
    shown = {}
    for kind in ("blank", "other"):
        done = await feedback_control(kind, tasks, tmp_path, ScriptedEngine(reply), Judge(), settings)
        shown[kind] = done.summary["pass_at_1"]
        assert done.run.output == tmp_path / f"control_{kind}_eval.jsonl"
    assert shown["blank"] == shown["other"] == [0.0, 0.0]
    with pytest.raises(InputError, match="unknown feedback control"):
        await feedback_control("nope", tasks, tmp_path, ScriptedEngine(reply), Judge(), settings)


async def test_a_control_with_a_failed_task_is_an_error(tmp_path):
    settings = MultiTurnSettings(prompts=TINY, turns=1, n=1, first_turn=True)
    for kind in ("blank", "other"):
        with pytest.raises(InfraError, match="tasks of"):
            await feedback_control(
                kind,
                [task(0), task(1)],
                tmp_path,
                ScriptedEngine(lambda m, s, i: fence("broken")),
                ScriptedJudge(),
                settings,
            )
    done = await feedback_control(
        "other",
        [task(0), task(1)],
        tmp_path,
        ScriptedEngine(lambda m, s, i: fence(ALL)),
        ScriptedJudge(),
        settings,
    )
    assert done.summary["pass_at_1"] == [1.0]
