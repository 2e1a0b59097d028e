"""First turns of a model are sampled once, however many stages ask for them."""

import asyncio
import json
from dataclasses import replace

from rollout_tools import ScriptedEngine, ScriptedJudge, fence, task

from cobalt.engines.base import Sampling
from cobalt.prompts import DEFAULT
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.run.first_turns import FirstTurns


def model() -> ScriptedEngine:
    """Its n-th completion is numbered, so that one sampled twice differs."""
    made = iter(range(10_000))
    return ScriptedEngine(lambda messages, sampling, index: fence(f"pass {next(made)}"))


def test_stages_share_what_they_ask_for_alike(tmp_path):
    inner, tasks = model(), [task(key) for key in range(3)]
    tests = tasks[0]["public_test_cases"].replace("out0", "other")
    swapped = [row | {"perturbed_public_test_cases": tests} for row in tasks]

    def dialogues(number, given, **change):
        """The programs, and how many first turns were sampled until now."""
        engine, target = FirstTurns(inner, tmp_path / "first.jsonl"), tmp_path / f"{number}.jsonl"
        settings = replace(MultiTurnSettings(n=4, turns=2, first_turn=True, seed=5), **change)
        assert asyncio.run(multi_turn(given, target, engine, ScriptedJudge(), settings)).failed == 0
        sampled = sum(sampling.n for messages, sampling in inner.requests if len(messages) == 2)
        return {row["id"]: row["responses"] for row in map(json.loads, target.open())}, sampled

    clean, sampled = dialogues(0, tasks)
    assert sampled == 12
    assert dialogues(1, swapped, tests="perturbed") == (clean, 12)  # none anew
    assert dialogues(2, tasks, n=2) == ({key: texts[:2] for key, texts in clean.items()}, 12)
    more, sampled = dialogues(3, tasks, n=6)
    assert {key: texts[:4] for key, texts in more.items()} == clean and sampled == 18
    others = [{"seed": 6}, {"temperature": 0.5}, {"prompts": replace(DEFAULT, system="Other.")}]
    assert [dialogues(4 + n, tasks, **other)[1] for n, other in enumerate(others)] == [30, 42, 54]


def test_a_torn_line_is_sampled_again_and_further_turns_are_not_kept(tmp_path):
    inner, path = model(), tmp_path / "first.jsonl"
    opening = DEFAULT.messages("statement")
    first = asyncio.run(FirstTurns(inner, path).chat(opening, Sampling(n=2, seed=1)))
    path.write_bytes(path.read_bytes()[:-9])
    again = asyncio.run(FirstTurns(inner, path).chat(opening, Sampling(n=2, seed=1)))
    assert again[0] == first[0] and again[1] != first[1] and len(inner.requests) == 2
    engine = FirstTurns(inner, path)
    longer = [*opening, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    for messages, sampling in ((longer, Sampling(seed=1)), (opening, Sampling(seed=None))):
        answers = [asyncio.run(engine.chat(messages, sampling)) for _ in range(2)]
        assert answers[0] != answers[1]
