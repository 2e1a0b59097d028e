"""Trajectories on a server of which every fifth call fails: none lost, none double, no wrong score."""

import pytest
from chat_server import add_task, rates_of
from fault_server import FAULTS, fault_server

from cobalt.engines import connect
from cobalt.evaluator import LocalEvaluator
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import single_turn
from cobalt.rows import read_rows

pytestmark = pytest.mark.slow
SAMPLES, TURNS = 8, 2


@pytest.mark.parametrize(
    "engine_name, count",
    [("openai", 40), ("litellm", 10), pytest.param("openai", 125, marks=pytest.mark.full)],
)
async def test_nothing_is_lost_doubled_or_misjudged(tmp_path, engine_name, count):
    few, out = engine_name == "litellm", tmp_path / "out.jsonl"
    tasks = [add_task(i) for i in range(count)]
    settings = MultiTurnSettings(n=SAMPLES, turns=TURNS, first_turn=True, prompts=TINY, seed=1)
    # A time-out so long that a busy machine does not make a good answer late, which would be paid for twice.
    with fault_server(hang_s=12.0) as (url, faults), LocalEvaluator(2) as evaluator:
        engine = connect(engine_name, "scripted", url, timeout_s=1.0 if few else 5.0, retries=12)
        summary = await multi_turn(tasks, out, engine, evaluator, settings, concurrency=64)
        await engine.aclose()
    assert (summary.failed, summary.written) == (0, len(tasks))
    assert few or set(faults.faulty) == set(FAULTS)
    assert sum(faults.faulty.values()) > 0.15 * faults.calls
    rows = [row for _, row in read_rows(out)]
    assert [row["id"] for row in rows] == [task["id"] for task in tasks]
    for row in rows:
        assert [len(c) for c in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        for texts, rates in zip(row["raw_responses"], row["public_pass_rates"], strict=True):
            assert rates == [rates_of(text, row["id"])[0] for text in texts]
    # Every conversation the rows hold was answered by the server, each once: no call was paid for twice.
    assert sum(faults.given.values()) == len(faults.given) or few  # litellm may drop an answer that came late
    assert len(faults.given) == len(tasks) * SAMPLES * TURNS
    assert not list(tmp_path.glob("*.journal")) and not list(tmp_path.glob("*.failures.jsonl"))


@pytest.mark.parametrize("turns", [1, 2])
async def test_a_dead_service_is_a_failure_record_and_the_next_run_samples_what_is_missing(tmp_path, turns):
    tasks, out, paid = [add_task(i) for i in range(4)], tmp_path / "out.jsonl", 0
    stage, settings = multi_turn, MultiTurnSettings(n=3, turns=2, first_turn=True, prompts=TINY)
    if turns == 1:
        stage, settings = single_turn, RolloutSettings(n=3, prompts=TINY)
    with LocalEvaluator(1) as evaluator:
        for share in (0.75, 0.0):
            with fault_server(share=share) as (url, faults):
                engine = connect("openai", "scripted", url, timeout_s=0.5, retries=1)
                summary = await stage(tasks, out, engine, evaluator, settings, retries=0)
                await engine.aclose()
                paid += sum(faults.given.values())
            if share:
                failures = [row["error"] for _, row in read_rows(f"{out}.failures.jsonl")]
                assert len(failures) == summary.failed > 0 and 0 < paid < 4 * 3 * turns
                assert all("gave up after 2 tries" in error for error in failures)
    assert paid == 4 * 3 * turns and summary.exit_code == 0 and len([*read_rows(out)]) == 4
    assert not list(tmp_path.glob("*.failures.jsonl")) and not list(tmp_path.glob("*.journal"))
