"""The two runners on a scripted model and a scripted judge: whole rows, seeds, faults, resume, bad input."""

import asyncio
import json
import os
import signal
import time

import pytest
from cobalt.rollouts.feedback import BlankFeedback, OtherTaskFeedback
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, json_tests, seeded_reply, task

from cobalt.engines.base import Completion
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.runner import BudgetReached, Gate
from cobalt.rollouts.settings import Budget, MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import single_turn
from cobalt.rows import read_rows

TWO_TURNS = MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True)


def rows_of(path):
    return [row for _, row in read_rows(path)]


async def run(tmp_path, rows, settings, reply=seeded_reply, judge=None, name="out.jsonl", **kw):
    engine = reply if isinstance(reply, ScriptedEngine) else ScriptedEngine(reply)
    stage = multi_turn if isinstance(settings, MultiTurnSettings) else single_turn
    summary = await stage(rows, tmp_path / name, engine, judge or ScriptedJudge(), settings, **kw)
    return summary, rows_of(tmp_path / name) if (tmp_path / name).exists() else []


async def test_single_turn_row(tmp_path):
    texts = ["text " + fence("pass 0 1 2"), "no program here"]
    summary, (row,) = await run(
        tmp_path, [task(0)], RolloutSettings(n=2, prompts=TINY), lambda m, s, i: texts[i]
    )
    assert summary.exit_code == 0
    results = row.pop("exec_results")
    assert [r["passing"] for r in results] == [[True] * 3 + [False] * 2, [False] * 5]
    assert [r["status"] for r in results] == ["ok", "no_code"]
    size = len(str(TINY.messages("statement 0")))
    assert row == task(0) | {
        "responses": texts,
        "finish_reasons": ["stop", "stop"],
        "usage": [{"prompt_tokens": size, "completion_tokens": len(text)} for text in texts],
    }


async def test_multi_turn_row(tmp_path):
    """Two samples, three programs each; the first turn is stored."""
    stored = task("t", responses=[fence("pass 0"), "nothing"], exec_results=["kept"])
    answers = {
        ("t", 1): fence("pass 0 1"),
        ("nothing", 1): fence("pass 1"),
        ("t", 2): "gone",
        ("nothing", 2): fence("pass 1 0 2 3 4"),
    }

    def reply(messages, sampling, index):
        return answers["nothing" if messages[2]["content"] == "nothing" else "t", len(messages) // 2 - 1]

    settings = MultiTurnSettings(prompts=TINY, turns=3)
    summary, (row,) = await run(tmp_path, [stored], settings, reply)
    failing = "Here is the execution feedback:\n"
    passed = failing + "The code has passed all public test cases. Check the edge cases."
    opening = [
        {"role": "system", "content": "Write a Python program."},
        {"role": "user", "content": "statement t"},
    ]

    def dialogue(*contents):
        roles = ["assistant", "user"] * 3
        return opening + [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]

    second = failing + "Input:\nin1\nfailed"
    first = failing + "Input:\nin0\nfailed"
    nothing = failing + "No code block could be extracted."
    conversations = [
        dialogue(fence("pass 0"), second, fence("pass 0 1"), passed, "gone", nothing),
        dialogue("nothing", nothing, fence("pass 1"), first, fence("pass 1 0 2 3 4"), passed),
    ]
    public = row.pop("public_exec_results")
    usage = row.pop("usage")
    assert row == stored | {
        "raw_responses": [
            [fence("pass 0"), "nothing"],
            [fence("pass 0 1"), fence("pass 1")],
            ["gone", fence("pass 1 0 2 3 4")],
        ],
        "conversations": conversations,
        "public_pass_rates": [[0.5, 0.0], [1.0, 0.5], [0.0, 1.0]],
        "finish_reasons": [[None, None], ["stop", "stop"], ["stop", "stop"]],
    }
    assert [[r["passing"] for r in turn] for turn in public] == [
        [[True, False], [False, False]], [[True, True], [False, True]], [[False, False], [True, True]],
    ]  # fmt: skip
    assert [[r["status"] for r in turn] for turn in public] == [
        ["ok", "no_code"],
        ["ok", "ok"],
        ["no_code", "ok"],
    ]
    assert usage[0] == [None, None] and usage[1][0]["completion_tokens"] == len(fence("pass 0 1"))
    assert all(len(c) == 2 + 2 * 3 for c in row["conversations"]) and summary.written == 1


async def test_first_turn_equals_the_single_turn_runner(tmp_path):
    rows = [task(i) for i in range(3)]
    _, single = await run(tmp_path, rows, RolloutSettings(n=2, prompts=TINY, seed=4), name="single.jsonl")
    settings = MultiTurnSettings(n=2, prompts=TINY, seed=4, turns=3)
    _, apart = await run(tmp_path, tmp_path / "single.jsonl", settings, name="apart.jsonl")
    joined = MultiTurnSettings(n=2, prompts=TINY, seed=4, turns=3, first_turn=True)
    _, together = await run(tmp_path, rows, joined, name="together.jsonl")
    for a, b, s in zip(apart, together, single, strict=True):
        assert a["conversations"] == b["conversations"] and a["responses"] == b["responses"] == s["responses"]
        assert a["usage"] == b["usage"] and a["usage"][0] == s["usage"] and "exec_results" not in b


async def test_samples_depend_on_seed_task_sample_and_turn_only(tmp_path):
    rows = [task(i) for i in range(4)]
    _, base = await run(tmp_path, rows, TWO_TURNS)
    _, other_order = await run(tmp_path, rows[::-1], TWO_TURNS, name="b.jsonl", concurrency=1)
    assert [r["conversations"] for r in other_order[::-1]] == [r["conversations"] for r in base]
    engine = ScriptedEngine(seeded_reply)
    await run(tmp_path, rows, TWO_TURNS, engine, name="c.jsonl")
    seeds = [sampling.seed for _, sampling in engine.requests]
    assert len(set(seeds)) == len(seeds) == 4 + 8
    changed = MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True, seed=1)
    _, reseeded = await run(tmp_path, rows, changed, name="d.jsonl")
    assert [r["conversations"] for r in reseeded] != [r["conversations"] for r in base]


async def test_trajectories_do_not_wait_for_each_other(tmp_path):
    """One sample's second turn hangs; the other sample and the other task run to their end meanwhile."""
    finished, release = [], asyncio.Event()

    class Engine(ScriptedEngine):
        async def chat(self, messages, sampling):
            if (
                messages[1]["content"] == "statement 0"
                and len(messages) == 4
                and messages[2]["content"] == "slow"
            ):
                await release.wait()
            finished.append((messages[1]["content"], len(messages)))
            return await super().chat(messages, sampling)

    rows = [task(0, responses=["slow", "fast"]), task(1, responses=["a", "b"])]
    settings = MultiTurnSettings(prompts=TINY, turns=4)
    work = asyncio.create_task(run(tmp_path, rows, settings, Engine(seeded_reply), concurrency=4))
    while len(finished) < 9 and not work.done():  # 3 turns of each of the three others
        await asyncio.sleep(0.01)
    assert not work.done()
    release.set()
    await work
    assert len(finished) == 12


async def test_thinking_is_cut_from_messages_and_flagged(tmp_path):
    long = "<think>x</think>" + "y" * 6000 + fence("pass 0 1")
    raws = [
        "<think>" + fence("pass 0") + "</think>\nso: " + fence("pass 1"),
        long,
        fence("pass 0") + " still thinking",
    ]
    row = task(0, responses=raws)
    settings = MultiTurnSettings(prompts=TINY, turns=1, enable_thinking=True)
    _, (made,) = await run(tmp_path, [row], settings)
    contents = [c[2]["content"] for c in made["conversations"]]
    assert contents == ["so: " + fence("pass 1"), "y" * 6000, fence("pass 0") + " still thinking"]
    assert made["raw_responses"] == [raws]
    assert made["public_pass_rates"] == [[0.5, 1.0, 0.5]]  # public tests run the program of the raw text
    assert made["turn_flags"] == [[[], ["truncated", "code_differs"], ["unfinished_thinking"]]]
    strict = MultiTurnSettings(prompts=TINY, turns=1, enable_thinking=True, unfinished_thinking="no_code")
    _, (made,) = await run(tmp_path, [row], strict, name="strict.jsonl")
    assert made["public_pass_rates"] == [[0.5, 1.0, 0.0]]
    _, (plain,) = await run(tmp_path, [row], MultiTurnSettings(prompts=TINY, turns=1), name="plain.jsonl")
    assert [c[2]["content"] for c in plain["conversations"]] == raws and "turn_flags" not in plain


async def test_context_overflow_is_data(tmp_path):
    def reply(messages, sampling, index):
        return Completion("", "context_overflow", 9, 0) if len(messages) > 4 else fence("pass 0")

    engine = ScriptedEngine(reply)
    settings = MultiTurnSettings(prompts=TINY, turns=5, n=1, first_turn=True)
    summary, (row,) = await run(tmp_path, [task(0)], settings, engine)
    assert row["finish_reasons"] == [["stop"], ["stop"]] + [["context_overflow"]] * 3
    assert row["public_pass_rates"] == [[0.5], [0.5], [0.0], [0.0], [0.0]] and summary.failed == 0
    assert row["context_overflow"] == [[False], [False], [True], [True], [True]]
    assert len(row["conversations"][0]) == 2 + 2 * 5
    assert len(engine.requests) == 3  # it is not asked again for a dialogue that has outgrown it


async def test_stop_when_passed_ends_a_trajectory_and_says_so(tmp_path):
    row = task(0, responses=[fence("pass 0 1"), fence("pass 0")])
    settings = MultiTurnSettings(prompts=TINY, turns=3, stop_when_passed=True)
    _, (made,) = await run(tmp_path, [row], settings, lambda m, s, i: fence("pass 0"))
    assert [len(c) for c in made["conversations"]] == [4, 8]
    assert made["public_pass_rates"] == [[1.0, 0.5], [None, 0.5], [None, 0.5]]
    assert made["stopped_when_passed"] == [True, False]
    _, (whole,) = await run(
        tmp_path,
        [row],
        MultiTurnSettings(prompts=TINY, turns=3),
        lambda m, s, i: fence("pass 0"),
        name="whole.jsonl",
    )
    assert [len(c) for c in whole["conversations"]] == [8, 8] and "stopped_when_passed" not in whole


async def test_a_faulty_judge_is_asked_again_and_never_scores(tmp_path):
    summary, (row,) = await run(tmp_path, [task(0)], TWO_TURNS, judge=ScriptedJudge(faults=2))
    assert summary.failed == 0 and {r["status"] for turn in row["public_exec_results"] for r in turn} == {
        "ok"
    }


async def test_a_failing_task_is_recorded_and_the_run_goes_on(tmp_path):
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


async def test_a_faulty_judge_does_not_cost_completions(tmp_path):
    engine = ScriptedEngine(seeded_reply)
    settings = RolloutSettings(prompts=TINY, n=2)
    summary, (row,) = await run(tmp_path, [task(0)], settings, engine, ScriptedJudge(faults=3))
    assert (summary.failed, len(engine.requests)) == (0, 1) and summary.retried
    assert {result["status"] for result in row["exec_results"]} == {"ok"}


async def test_a_retry_pays_for_unfinished_turns_only(tmp_path):
    failed = []

    def reply(messages, sampling, index):
        if len(messages) == 6 and not failed:
            failed.append(1)
            return InfraError("the engine stumbled")
        return fence("pass 0")

    engine = ScriptedEngine(reply)
    settings = MultiTurnSettings(prompts=TINY, turns=4, n=2, first_turn=True)
    summary, _ = await run(tmp_path, [task(0)], settings, engine)
    assert (summary.failed, summary.retried) == (0, 1)
    assert len(engine.requests) == 1 + 2 * 3 + 1  # first turns, three turns of two samples, one again


async def test_resume_keeps_rows_and_refuses_other_settings(tmp_path):
    rows = [task(key) for key in (0, 1, "x")]
    _, whole = await run(tmp_path, rows, TWO_TURNS, name="whole.jsonl")
    await run(tmp_path, rows, TWO_TURNS, name="out.jsonl")
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "out.jsonl").write_bytes(lines[0] + lines[1][:40])  # killed while writing the second row
    engine = ScriptedEngine(seeded_reply)
    summary, made = await run(tmp_path, rows, TWO_TURNS, engine)
    assert made == whole and (summary.resumed, summary.written) == (1, 2)
    assert "statement 0" not in {messages[1]["content"] for messages, _ in engine.requests}
    before = (tmp_path / "out.jsonl").read_bytes()
    for settings in (
        MultiTurnSettings(prompts=TINY, turns=3, n=2, first_turn=True),
        MultiTurnSettings(turns=2, n=2, first_turn=True),
        MultiTurnSettings(prompts=TINY, turns=2, n=2, first_turn=True, temperature=0.7),
    ):
        with pytest.raises(SettingsChanged):
            await run(tmp_path, rows, settings)
    with pytest.raises(SettingsChanged, match="input_sha256"):
        await run(tmp_path, rows[:2], TWO_TURNS)
    assert (tmp_path / "out.jsonl").read_bytes() == before


async def test_perturbed_tests_are_shown_only_when_asked_for(tmp_path):
    row = task(
        0,
        responses=[fence("pass 7")],
        perturbed_public_test_cases=json.dumps({"inputs": ["in7"], "outputs": ["x"]}),
    )
    with pytest.raises(InputError, match="--tests public or --tests perturbed"):
        await run(tmp_path, [row], MultiTurnSettings(prompts=TINY, turns=1))
    for tests, rate in (("public", 0.0), ("perturbed", 1.0)):
        settings = MultiTurnSettings(prompts=TINY, turns=1, tests=tests)
        _, (made,) = await run(tmp_path, [row], settings, name=f"{tests}.jsonl")
        assert made["public_pass_rates"] == [[rate]]
    same = row | {"perturbed_public_test_cases": row["public_test_cases"]}
    _, (made,) = await run(tmp_path, [same], MultiTurnSettings(prompts=TINY, turns=1), name="same.jsonl")
    assert made["public_pass_rates"] == [[0.0]]


async def test_blank_feedback_says_nothing(tmp_path):
    row = task(0, responses=[fence("pass 0"), fence("pass 0 1")])
    settings = MultiTurnSettings(prompts=TINY, turns=2)
    _, (made,) = await run(tmp_path, [row], settings, policy=BlankFeedback(TINY))
    assert {c[i]["content"] for c in made["conversations"] for i in (3, 5)} == {
        "Here is the execution feedback:\n"
    }
    assert made["public_pass_rates"][0] == [0.5, 1.0]


async def test_feedback_of_another_task(tmp_path):
    """Task i is shown what task i + 2 (of 5) was told at the same sample and turn."""
    rows = [task(i, responses=[fence(f"pass {i}"), fence("pass 0 1")]) for i in range(5)]
    settings = MultiTurnSettings(prompts=TINY, turns=3)
    _, honest = await run(tmp_path, rows, settings, lambda m, s, i: m[2]["content"], name="honest.jsonl")
    _, made = await run(
        tmp_path, rows, settings, lambda m, s, i: m[2]["content"], policy=OtherTaskFeedback(5), concurrency=2
    )
    for i in range(5):
        for sample in range(2):
            for turn in range(3):
                shown = made[i]["conversations"][sample][3 + 2 * turn]
                assert shown == honest[(i + 2) % 5]["conversations"][sample][3 + 2 * turn]
    with pytest.raises(SettingsChanged, match="feedback"):
        await run(tmp_path, rows, settings)


async def test_a_failure_does_not_hang_those_that_wait_for_it(tmp_path):
    rows = [task(i, responses=[fence("broken" if i == 2 else "pass 0")]) for i in range(3)]
    settings = MultiTurnSettings(prompts=TINY, turns=3)
    summary, made = await asyncio.wait_for(
        run(tmp_path, rows, settings, policy=OtherTaskFeedback(3)), timeout=20
    )
    assert summary.failed == 3 and made == []


async def test_the_gate_bounds_completions_in_flight():
    gate, flying, most = Gate(4), 0, 0

    async def one(n):
        nonlocal flying, most
        async with gate.slots(n):
            flying += n
            most = max(most, flying)
            await asyncio.sleep(0.001)
            flying -= n

    await asyncio.gather(*(one(1 + i % 4) for i in range(40)))
    assert most == 4
    await asyncio.wait_for(one(9), 1)  # more than there are slots: takes all of them


GOOD = task(0, responses=["a"])


@pytest.mark.parametrize(
    "row, settings, says",
    [
        ({"id": 0}, TWO_TURNS, "field 'instruction' is missing"),
        (GOOD | {"id": None}, TWO_TURNS, "'id' must be"),
        (GOOD | {"public_test_cases": "{"}, TWO_TURNS, "not valid JSON"),
        (GOOD | {"public_test_cases": json_tests(0)}, TWO_TURNS, "holds no tests"),
        (GOOD | {"public_test_cases": {"inputs": ["1"], "outputs": []}}, TWO_TURNS, "1 inputs but 0 outputs"),
        (task(0), MultiTurnSettings(), "run_single_turn_vllm.py"),
        (GOOD | {"responses": []}, MultiTurnSettings(), "at least one text"),
        (GOOD | {"responses": [3]}, MultiTurnSettings(), "at least one text"),
        (GOOD, MultiTurnSettings(n=16), "1 responses, but --num_completions is 16"),
        (GOOD, MultiTurnSettings(tests="perturbed"), "'perturbed_public_test_cases' is missing"),
        ({k: v for k, v in GOOD.items() if k != "test_cases"}, RolloutSettings(), "'test_cases' is missing"),
    ],
)
async def test_bad_rows_are_refused_before_anything_is_written(tmp_path, row, settings, says):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(task("first", responses=["a"])) + "\n" + json.dumps(row) + "\n")
    engine = ScriptedEngine(seeded_reply)
    if says.startswith(("1 responses", "'perturbed")):  # the good row would be refused too
        path.write_text("\n" + json.dumps(row) + "\n")
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{says}"):
        await run(tmp_path, path, settings, engine)
    assert not engine.requests and [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


async def test_ids_must_be_unique_and_a_number_is_not_its_text(tmp_path):
    with pytest.raises(InputError, match="row 2: id 0 was used before, in row 1"):
        await run(tmp_path, [task(0), task(0)], TWO_TURNS)
    _, made = await run(tmp_path, [task(0), task("0")], TWO_TURNS)
    assert [row["id"] for row in made] == [0, "0"]
    assert made[0]["conversations"] != made[1]["conversations"]


async def test_paths_that_cannot_be_used(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(task(0)) + "\n")
    for rows, name, says in (
        (path, "in.jsonl", "is the input file"),
        (path, "in.jsonl/out.jsonl", "not a folder"),
        (tmp_path / "missing.jsonl", "out.jsonl", "cannot read"),
        ([], "out.jsonl", "no rows"),
    ):
        with pytest.raises(InputError, match=says):
            await multi_turn(rows, tmp_path / name, ScriptedEngine(seeded_reply), ScriptedJudge(), TWO_TURNS)
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    "made",
    [lambda: RolloutSettings(temperature=-1), lambda: RolloutSettings(top_p=0), lambda: RolloutSettings(n=0),
     lambda: MultiTurnSettings(turns=0), lambda: MultiTurnSettings(tests="both"),
     lambda: MultiTurnSettings(unfinished_thinking="x"), lambda: Gate(0)],
)  # fmt: skip
def test_settings_out_of_range(made):
    with pytest.raises(InputError):
        made()


async def test_the_runner_costs_little(tmp_path):
    """The runner's own cost: 150 tasks x 4 samples x 5 turns on a model and a judge that take no time."""
    settings = MultiTurnSettings(prompts=TINY, turns=5, n=4, first_turn=True)
    started = time.process_time()
    summary, _ = await run(tmp_path, [task(i) for i in range(150)], settings)
    assert summary.written == 150 and time.process_time() - started < 10


async def stopped_after(tmp_path, calls, settings, rows, **kw):
    """Run until the engine has been asked `calls` times, then interrupt it; returns the engine."""

    class Interrupting(ScriptedEngine):
        async def chat(self, messages, sampling):
            if len(self.requests) == calls:
                os.kill(os.getpid(), signal.SIGINT)
            return await super().chat(messages, sampling)

    engine = Interrupting(seeded_reply, delay=0.01)
    with pytest.raises(KeyboardInterrupt, match="run the same command again"):
        await run(tmp_path, rows, settings, engine, **kw)
    return engine


async def test_a_stop_drains_turns_not_rows_and_the_next_run_pays_for_the_rest_only(tmp_path):
    rows = [task(i) for i in range(6)]
    settings = MultiTurnSettings(prompts=TINY, turns=5, n=3, first_turn=True)
    _, whole = await run(tmp_path, rows, settings, name="whole.jsonl")
    engine = await stopped_after(tmp_path, 20, settings, rows, concurrency=4)
    asked = len(engine.requests)
    assert asked <= 20 + 4  # what was in flight, and no further turn
    assert (tmp_path / "out.jsonl.journal").exists()
    rest = ScriptedEngine(seeded_reply)
    summary, made = await run(tmp_path, rows, settings, rest)
    assert made == whole and summary.exit_code == 0
    assert asked + len(rest.requests) == 6 * (1 + 3 * 4) and not (tmp_path / "out.jsonl.journal").exists()


async def test_an_empty_output_with_a_journal_is_begun_all_the_same(tmp_path):
    rows = [task(i) for i in range(3)]
    settings = MultiTurnSettings(prompts=TINY, turns=9, n=2, first_turn=True)
    await stopped_after(tmp_path, 5, settings, rows, concurrency=2)
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    with pytest.raises(SettingsChanged, match=r"temperature: 0.6 -> 0.7"):
        await run(tmp_path, rows, MultiTurnSettings(
            prompts=TINY, turns=9, n=2, first_turn=True, temperature=0.7
        ))  # fmt: skip


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


async def test_one_failing_trajectory_does_not_cost_the_others(tmp_path):
    """Sample 1 fails for good at its second turn; the next run samples only that."""

    def reply(messages, sampling, index):
        bad = len(messages) == 4 and sampling.session == "[0, 1]"
        return InfraError("the engine stumbled") if bad else seeded_reply(messages, sampling, index)

    settings = MultiTurnSettings(prompts=TINY, turns=3, n=3, first_turn=True)
    _, whole = await run(tmp_path, [task(0)], settings, name="whole.jsonl")
    summary, made = await run(tmp_path, [task(0)], settings, reply, retries=0)
    assert (summary.failed, made) == (1, [])
    engine = ScriptedEngine(seeded_reply)
    summary, made = await run(tmp_path, [task(0)], settings, engine)
    assert made == whole and len(engine.requests) == 2  # its second and third turn
