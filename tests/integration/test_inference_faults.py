"""1,000 trajectories on a server of which every fifth call fails: none lost, none double, no wrong score."""

import hashlib
import json

import pytest
from chat_server import PROGRAMS, add_task
from fault_server import FAULTS, fault_server

from cobalt.engines import connect
from cobalt.evaluator import LocalEvaluator
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.single_turn import single_turn
from cobalt.rows import read_rows

pytestmark = pytest.mark.slow
TASKS, SAMPLES, TURNS = 125, 8, 2


def rate_of(text, tests):
    """The share of tests that the program in a scripted text passes, worked out here."""
    right = {
        PROGRAMS[0]: lambda a, b: a + b,
        PROGRAMS[1]: lambda a, b: a - b,
        PROGRAMS[2]: lambda a, b: abs(a) + abs(b),
    }
    run = next((f for code, f in right.items() if f"\n{code}\n" in text), None)
    if run is None:
        return 0.0
    pairs = [tuple(map(int, line.split())) for line in tests["inputs"]]
    return sum(str(run(*p)) == out.strip() for p, out in zip(pairs, tests["outputs"], strict=True)) / len(
        pairs
    )


@pytest.mark.parametrize("engine_name", ["openai", "litellm"])
async def test_nothing_is_lost_doubled_or_misjudged(tmp_path, engine_name):
    few = engine_name == "litellm"
    tasks = [add_task(i) for i in range(TASKS // 12 if few else TASKS)]
    settings = MultiTurnSettings(n=SAMPLES, turns=TURNS, first_turn=True, prompts=TINY, seed=1)
    out = tmp_path / "out.jsonl"
    # A time-out so long that a busy machine does not make a good answer late, which would be paid for twice.
    with fault_server(hang_s=12.0) as (url, faults), LocalEvaluator(2) as evaluator:
        timeout_s = 1.0 if few else 5.0
        engine = connect(engine_name, "scripted", url, timeout_s=timeout_s, retries=12)
        summary = await multi_turn(tasks, out, engine, evaluator, settings, concurrency=64)
        await engine.aclose()
    assert (summary.failed, summary.written) == (0, len(tasks))
    assert few or set(faults.faulty) == set(FAULTS)
    assert sum(faults.faulty.values()) > 0.15 * faults.calls
    rows = [row for _, row in read_rows(out)]
    assert [row["id"] for row in rows] == [task["id"] for task in tasks]
    rates = set()
    for row in rows:
        public = json.loads(row["public_test_cases"])
        assert [len(c) for c in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        for t in range(TURNS):
            for s in range(SAMPLES):
                text = row["raw_responses"][t][s]
                assert row["public_pass_rates"][t][s] == rate_of(text, public), text
                rates.add(row["public_pass_rates"][t][s])
                assert row["public_exec_results"][t][s]["status"] in ("ok", "no_code")
    assert len(rates) > 1
    # Every conversation the rows hold was answered by the server, each once: no call was paid for twice.
    assert sum(faults.given.values()) == len(faults.given) or few  # litellm may drop an answer that came late
    assert len(faults.given) == len(tasks) * SAMPLES * TURNS
    assert not list(tmp_path.glob("*.journal")) and not list(tmp_path.glob("*.failures.jsonl"))


async def test_a_dead_service_is_a_failure_record_and_the_next_run_mends_it(tmp_path):
    tasks = [add_task(i) for i in range(4)]
    settings = MultiTurnSettings(n=3, turns=2, first_turn=True, prompts=TINY)
    out = tmp_path / "out.jsonl"
    with LocalEvaluator(1) as evaluator:
        with fault_server(share=0.75) as (url, faults):
            engine = connect("openai", "scripted", url, timeout_s=0.5, retries=1)
            summary = await multi_turn(tasks, out, engine, evaluator, settings, retries=0)
            await engine.aclose()
            paid = sum(faults.given.values())
        assert summary.exit_code == 1 and 0 < paid < 4 * 3 * 2
        failures = [row for _, row in read_rows(f"{out}.failures.jsonl")]
        assert len(failures) == summary.failed and all(
            "gave up after 2 tries" in f["error"] for f in failures
        )
        with fault_server(share=0.0) as (url, faults):
            engine = connect("openai", "scripted", url)
            summary = await multi_turn(tasks, out, engine, evaluator, settings)
            await engine.aclose()
            assert sum(faults.given.values()) == 4 * 3 * 2 - paid  # only what was missing is sampled
    assert summary.exit_code == 0 and len([*read_rows(out)]) == 4
    assert not list(tmp_path.glob("*.failures.jsonl")) and not list(tmp_path.glob("*.journal"))


async def test_single_turn_keeps_what_was_paid_for(tmp_path):
    tasks = [add_task(i) for i in range(4)]
    out = tmp_path / "out.jsonl"
    from cobalt.rollouts.settings import RolloutSettings

    settings = RolloutSettings(n=3, prompts=TINY)
    paid = 0
    with LocalEvaluator(1) as evaluator:
        for share in (0.7, 0.0):
            with fault_server(share=share) as (url, faults):
                engine = connect("openai", "scripted", url, timeout_s=0.5, retries=0)
                summary = await single_turn(tasks, out, engine, evaluator, settings, retries=0)
                await engine.aclose()
                paid += sum(faults.given.values())
            assert summary.exit_code == (1 if share else 0)
    assert paid == 4 * 3
    seen = {hashlib.sha256(t.encode()).hexdigest() for _, row in read_rows(out) for t in row["responses"]}
    assert len(seen) > 1
