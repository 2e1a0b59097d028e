"""The two runners on a scripted model and a scripted judge: whole rows, seeds, faults, resume, bad input."""

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, json_tests, seeded_reply, task

from cobalt.engines.base import Completion
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.runner import BudgetReached
from cobalt.rollouts.settings import Budget, MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import single_turn
from cobalt.rollouts.trajectory import BlankFeedback, OtherTaskFeedback
from cobalt.rows import read_rows

STORED = MultiTurnSettings(prompts=TINY, turns=1)  # first turns are in the rows
TWO_TURNS = MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True)


def rows_of(path):
    return [row for _, row in read_rows(path)]


async def run(tmp_path, rows, settings, reply=seeded_reply, judge=None, name="out.jsonl", **kw):
    engine = reply if isinstance(reply, ScriptedEngine) else ScriptedEngine(reply)
    stage = multi_turn if isinstance(settings, MultiTurnSettings) else single_turn
    summary = await stage(rows, tmp_path / name, engine, judge or ScriptedJudge(), settings, **kw)
    return summary, rows_of(tmp_path / name)


async def test_multi_turn_row(tmp_path):
    """Two samples, three programs each; the first turn is stored."""
    stored = task("t", responses=[fence("pass 0"), "nothing"], exec_results=["kept"])
    answers = {("t", 1): fence("pass 0 1"), ("nothing", 1): fence("pass 1"), ("t", 2): "gone",
               ("nothing", 2): fence("pass 1 0 2 3 4")}  # fmt: skip

    def reply(messages, sampling, index):
        return answers["nothing" if messages[2]["content"] == "nothing" else "t", len(messages) // 2 - 1]

    _, (row,) = await run(tmp_path, [stored], replace(STORED, turns=3), reply)
    opening = [("system", "Write a Python program."), ("user", "statement t")]
    told = "Here is the execution feedback:\n"
    passed = told + "The code has passed all public test cases. Check the edge cases."
    first, second = (f"{told}Input:\nin{i}\nfailed" for i in (0, 1))
    nothing = told + "No code block could be extracted."

    def dialogue(*contents):
        pairs = [*opening, *zip(["assistant", "user"] * 3, contents, strict=True)]
        return [{"role": role, "content": content} for role, content in pairs]

    public, usage = row.pop("public_exec_results"), row.pop("usage")
    assert row == stored | {
        "raw_responses": [[fence("pass 0"), "nothing"], [fence("pass 0 1"), fence("pass 1")],
                          ["gone", fence("pass 1 0 2 3 4")]],
        "conversations": [
            dialogue(fence("pass 0"), second, fence("pass 0 1"), passed, "gone", nothing),
            dialogue("nothing", nothing, fence("pass 1"), first, fence("pass 1 0 2 3 4"), passed),
        ],
        "public_pass_rates": [[0.5, 0.0], [1.0, 0.5], [0.0, 1.0]],
        "finish_reasons": [[None, None], ["stop", "stop"], ["stop", "stop"]],
    }  # fmt: skip
    assert [[(*r["passing"], r["status"]) for r in turn] for turn in public] == [
        [(True, False, "ok"), (False, False, "no_code")], [(True, True, "ok"), (False, True, "ok")],
        [(False, False, "no_code"), (True, True, "ok")],
    ]  # fmt: skip
    assert usage[0] == [None, None] and usage[1][0]["completion_tokens"] == len(fence("pass 0 1"))


async def test_samples_depend_on_seed_task_sample_and_turn_only(tmp_path):
    rows = [task(i) for i in range(4)]
    engine = ScriptedEngine(seeded_reply)
    _, base = await run(tmp_path, rows, TWO_TURNS, engine)
    seeds = [sampling.seed for _, sampling in engine.requests]
    assert len(set(seeds)) == len(seeds) == 4 + 8
    _, turned = await run(tmp_path, rows[::-1], TWO_TURNS, name="b.jsonl", concurrency=1)
    _, reseeded = await run(tmp_path, rows, replace(TWO_TURNS, seed=1), name="c.jsonl")
    assert turned[::-1] == base != reseeded
    # The first turn is that of the single-turn runner, whether it is read from its file or sampled again.
    single = RolloutSettings(n=2, prompts=TINY)
    _, firsts = await run(tmp_path, rows, single, name="single.jsonl")
    _, apart = await run(tmp_path, tmp_path / "single.jsonl", replace(STORED, turns=2), name="apart.jsonl")
    for joined, stored, first in zip(base, apart, firsts, strict=True):
        for name in ("conversations", "responses", "usage", "finish_reasons"):
            assert joined[name] == stored[name]
        assert joined["responses"] == first["responses"] and "exec_results" not in joined


async def test_thinking_is_cut_from_messages_and_flagged(tmp_path):
    raws = [
        "<think>" + fence("pass 0") + "</think>\nso: " + fence("pass 1"),
        "<think>x</think>" + "y" * 6000 + fence("pass 0 1"),
        fence("pass 0") + " still thinking",
    ]
    cut = ["so: " + fence("pass 1"), "y" * 6000, raws[2]]
    flags = [[[], ["truncated", "code_differs"], ["unfinished_thinking"]]]
    thinking = replace(STORED, enable_thinking=True)
    for name, settings, contents, rates, flagged in (
        ("thinking", thinking, cut, [0.5, 1.0, 0.5], flags),  # public tests run the program of the raw text
        ("strict", replace(thinking, unfinished_thinking="no_code"), cut, [0.5, 1.0, 0.0],
         [[*flags[0][:2], ["unfinished_thinking", "code_differs"]]]),
        ("plain", STORED, raws, [0.5, 1.0, 0.5], None),
    ):  # fmt: skip
        _, (made,) = await run(tmp_path, [task(0, responses=raws)], settings, name=f"{name}.jsonl")
        assert [c[2]["content"] for c in made["conversations"]] == contents
        assert made["raw_responses"] == [raws] and made["public_pass_rates"] == [rates]
        assert made.get("turn_flags") == flagged


async def test_context_overflow_is_data(tmp_path):
    def reply(messages, sampling, index):
        return Completion("", "context_overflow", 9, 0) if len(messages) > 4 else fence("pass 0")

    engine = ScriptedEngine(reply)
    summary, (row,) = await run(tmp_path, [task(0)], replace(TWO_TURNS, turns=5, n=1), engine)
    assert row["finish_reasons"] == [["stop"], ["stop"]] + [["context_overflow"]] * 3
    assert row["public_pass_rates"] == [[0.5], [0.5], [0.0], [0.0], [0.0]] and summary.failed == 0
    assert row["context_overflow"] == [[False], [False], [True], [True], [True]]
    assert len(engine.requests) == 3  # it is not asked again for a dialogue that has outgrown it


async def test_stop_when_passed_ends_a_trajectory_and_says_so(tmp_path):
    row = task(0, responses=[fence("pass 0 1"), fence("pass 0")])
    settings = replace(STORED, turns=3, stop_when_passed=True)
    _, (made,) = await run(tmp_path, [row], settings, lambda m, s, i: fence("pass 0"))
    assert [len(c) for c in made["conversations"]] == [4, 8]
    assert made["public_pass_rates"] == [[1.0, 0.5], [None, 0.5], [None, 0.5]]
    assert made["stopped_when_passed"] == [True, False]


async def test_faults_cost_no_row_no_score_and_no_completion(tmp_path):
    def reply(messages, sampling, index):
        return fence("broken" if messages[1]["content"] == "statement 1" else "pass 0")

    rows = [task(i) for i in range(3)]
    summary, made = await run(tmp_path, rows, TWO_TURNS, reply, retries=0)
    assert [row["id"] for row in made] == [0, 2] and (summary.failed, summary.exit_code) == (1, 1)
    (failure,) = rows_of(tmp_path / "out.jsonl.failures.jsonl")
    assert failure["id"] == 1 and "the sandbox failed" in failure["error"]
    summary, made = await run(tmp_path, rows, TWO_TURNS, lambda m, s, i: fence("pass 0"))
    assert [row["id"] for row in made] == [0, 1, 2] and (summary.resumed, summary.exit_code) == (2, 0)
    assert not (tmp_path / "out.jsonl.failures.jsonl").exists()
    # A judge that passes its faults is asked again about the programs there are.
    engine = ScriptedEngine(seeded_reply)
    settings = RolloutSettings(prompts=TINY, n=2)
    summary, (row,) = await run(
        tmp_path, [task(0)], settings, engine, ScriptedJudge(faults=3), "single.jsonl"
    )
    assert (summary.failed, len(engine.requests)) == (0, 1) and summary.retried
    assert {result["status"] for result in row["exec_results"]} == {"ok"}


@pytest.mark.parametrize("retries", [1, 0])
async def test_a_retry_or_the_next_run_pays_for_unfinished_turns_only(tmp_path, retries):
    failed = []

    def reply(messages, sampling, index):
        if len(messages) == 4 and sampling.session == "[0, 1]" and not failed:
            failed.append(1)
            return InfraError("the engine stumbled")
        return seeded_reply(messages, sampling, index)

    settings = replace(TWO_TURNS, turns=3, n=3)
    _, whole = await run(tmp_path, [task(0)], settings, name="whole.jsonl")
    engine = ScriptedEngine(reply)
    summary, made = await run(tmp_path, [task(0)], settings, engine, retries=retries)
    assert (summary.failed, summary.retried) == (1 - retries, retries)
    if not retries:
        assert made == []
        _, made = await run(tmp_path, [task(0)], settings, engine)
    assert made == whole and len(engine.requests) == 1 + 3 * 2 + 1  # first turns, two of each, one again


async def test_perturbed_tests_are_shown_only_when_asked_for(tmp_path):
    other = json.dumps({"inputs": ["in7"], "outputs": ["x"]})
    row = task(0, responses=[fence("pass 7")], perturbed_public_test_cases=other)
    with pytest.raises(InputError, match="--tests public or --tests perturbed"):
        await run(tmp_path, [row], STORED)
    same = row | {"perturbed_public_test_cases": row["public_test_cases"]}
    for given, tests, rate in ((row, "public", 0.0), (row, "perturbed", 1.0), (same, "auto", 0.0)):
        _, (made,) = await run(tmp_path, [given], replace(STORED, tests=tests), name=f"{tests}.jsonl")
        assert made["public_pass_rates"] == [[rate]]


async def test_feedback_of_control_experiments(tmp_path):
    """Blank feedback says nothing; of another task: task i is shown what task i + 2 (of 5) was told."""
    rows = [task(i, responses=[fence(f"pass {i}"), fence("pass 0 1")]) for i in range(5)]
    settings, reply = replace(STORED, turns=3), lambda m, s, i: m[2]["content"]
    _, honest = await run(tmp_path, rows, settings, reply, name="honest.jsonl")
    policy = OtherTaskFeedback(5)
    _, made = await run(tmp_path, rows, settings, reply, policy=policy, concurrency=2)
    for i in range(5):
        for told, shown in zip(honest[(i + 2) % 5]["conversations"], made[i]["conversations"], strict=True):
            assert told[3::2] == shown[3::2]
    with pytest.raises(SettingsChanged, match="feedback"):
        await run(tmp_path, rows, settings)
    _, made = await run(tmp_path, rows, settings, reply, name="blank.jsonl", policy=BlankFeedback(TINY))
    told = {message["content"] for row in made for c in row["conversations"] for message in c[3::2]}
    assert told == {"Here is the execution feedback:\n"}
    # A task that fails does not let those hang that wait for it.
    broken = [task(i, responses=[fence("broken" if i == 2 else "pass 0")]) for i in range(3)]
    work = run(tmp_path, broken, settings, name="broken.jsonl", policy=OtherTaskFeedback(3))
    summary, made = await asyncio.wait_for(work, timeout=20)
    assert summary.failed == 3 and made == []


GOOD = task(0, responses=["a"])


@pytest.mark.parametrize(
    "row, settings, says",
    [
        ({"id": 0}, TWO_TURNS, "field 'instruction' is missing"),
        (GOOD | {"id": None}, TWO_TURNS, "'id' must be"),
        (GOOD | {"id": "first"}, TWO_TURNS, "'id' 'first' occurs twice"),
        (GOOD | {"public_test_cases": "{"}, TWO_TURNS, "not valid JSON"),
        (GOOD | {"public_test_cases": json_tests(0)}, TWO_TURNS, "holds no tests"),
        (task(0), STORED, "run_single_turn_vllm.py"),
        (GOOD | {"responses": []}, STORED, "at least one text"),
        (
            GOOD | {"responses": ["a", "b"]},
            replace(STORED, n=1),
            "2 responses, but",
        ),
        ({k: v for k, v in GOOD.items() if k != "test_cases"}, RolloutSettings(), "'test_cases' is missing"),
    ],
)
async def test_bad_rows_are_refused_before_anything_is_written(tmp_path, row, settings, says):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(GOOD | {"id": "first"}) + "\n" + json.dumps(row) + "\n")
    engine = ScriptedEngine(seeded_reply)
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{says}"):
        await run(tmp_path, path, settings, engine)
    assert not engine.requests and [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


async def test_a_stop_drains_turns_not_rows_and_the_next_run_pays_for_the_rest_only(tmp_path):
    class Interrupting(ScriptedEngine):
        async def chat(self, messages, sampling):
            if len(self.requests) == 5:
                os.kill(os.getpid(), signal.SIGINT)
            return await super().chat(messages, sampling)

    rows, settings, out = [task(i) for i in range(3)], replace(TWO_TURNS, turns=9), tmp_path / "out.jsonl"
    _, whole = await run(tmp_path, rows, settings, name="whole.jsonl")
    engine = Interrupting(seeded_reply, delay=0.01)
    with pytest.raises(KeyboardInterrupt, match="run the same command again"):
        await run(tmp_path, rows, settings, engine, concurrency=4)
    asked = len(engine.requests)
    assert asked <= 5 + 4  # what was in flight, and no further turn
    assert out.read_bytes() == b"" and out.with_name("out.jsonl.journal").exists()
    for change in ({"turns": 3}, {"prompts": MultiTurnSettings().prompts}, {"temperature": 0.7}):
        with pytest.raises(SettingsChanged, match=f"{next(iter(change))}.*: .* -> "):  # there is no row yet
            await run(tmp_path, rows, replace(settings, **change))
    with pytest.raises(SettingsChanged, match="input_sha256"):
        await run(tmp_path, rows[:2], settings)
    rest = ScriptedEngine(seeded_reply)
    summary, made = await run(tmp_path, rows, settings, rest)
    assert made == whole and summary.exit_code == 0
    assert asked + len(rest.requests) == 3 * (1 + 2 * 8) and not out.with_name("out.jsonl.journal").exists()


class PricedEngine(ScriptedEngine):
    """Every completion costs a cent."""

    separate = True

    async def chat(self, messages, sampling):
        made = await super().chat(messages, sampling)
        return [Completion(c.text, c.finish_reason, 1, 1, cost=0.01) for c in made]


async def test_max_cost_ends_the_run_before_it_is_exceeded_and_counts_over_runs(tmp_path):
    rows = [task(i) for i in range(10)]
    paid = 0
    for limit, most in ((0.12, 12), (0.2, 20)):
        engine = PricedEngine(seeded_reply, delay=0.001)
        with pytest.raises(BudgetReached, match="--max_cost"):
            await run(tmp_path, rows, TWO_TURNS, engine, concurrency=8, budget=Budget(limit, first=0.01))
        paid += len(engine.requests)
        assert most - 1 <= paid <= most
    engine = PricedEngine(seeded_reply)
    summary, made = await run(tmp_path, rows, TWO_TURNS, engine, concurrency=8, budget=Budget(9.0))
    assert summary.exit_code == 0 and len(made) == 10 and paid + len(engine.requests) == 40
    tokens = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["tokens"]
    assert tokens["programs"] == 40 and tokens["cost_usd"] == pytest.approx(0.4)
