"""First turns of a model are sampled once, however many stages ask for them."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, task

from cobalt.engines.base import Sampling
from cobalt.prompts import DEFAULT
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import single_turn
from cobalt.run.first_turns import FirstTurns


def model() -> ScriptedEngine:
    """Its n-th completion is numbered, so that one sampled twice differs."""
    made = iter(range(10_000))
    return ScriptedEngine(lambda messages, sampling, index: fence(f"pass {next(made)}"))


def firsts(engine: ScriptedEngine) -> int:
    return sum(sampling.n for messages, sampling in engine.requests if len(messages) == 2)


def test_stages_share_what_they_ask_for_alike(tmp_path):
    inner, path = model(), tmp_path / "first.jsonl"
    tasks = [task(key) for key in range(3)]
    swapped = [
        row | {"perturbed_public_test_cases": row["public_test_cases"].replace("out0", "other")}
        for row in tasks
    ]
    judge = ScriptedJudge()
    settings = MultiTurnSettings(n=4, turns=2, first_turn=True, seed=5)

    def rows(name):
        return {row["id"]: row for row in map(json.loads, (tmp_path / f"{name}.jsonl").open())}

    def dialogues(name, given, **change):
        engine = FirstTurns(inner, path)  # every stage opens the file anew
        work = multi_turn(given, tmp_path / f"{name}.jsonl", engine, judge, replace(settings, **change))
        assert asyncio.run(work).failed == 0
        return rows(name)

    clean = dialogues("clean", tasks)
    assert firsts(inner) == 12
    perturbed = dialogues("perturbed", swapped, tests="perturbed")
    assert firsts(inner) == 12  # none anew
    assert [clean[key]["responses"] for key in range(3)] == [perturbed[key]["responses"] for key in range(3)]
    fewer = dialogues("fewer", tasks, n=2)
    assert fewer[1]["responses"] == clean[1]["responses"][:2] and firsts(inner) == 12
    more = dialogues("more", tasks, n=6)
    assert more[1]["responses"][:4] == clean[1]["responses"] and firsts(inner) == 18

    alone = tmp_path / "single.jsonl"
    work = single_turn(tasks, alone, FirstTurns(inner, path), judge, RolloutSettings(n=4, seed=5))
    asyncio.run(work)
    assert rows("single")[2]["responses"] == clean[2]["responses"] and firsts(inner) == 18
    for change in ({"seed": 6}, {"temperature": 0.5}, {"prompts": replace(DEFAULT, system="Other.")}):
        before = firsts(inner)
        dialogues(f"other-{'-'.join(change)}", tasks, **change)
        assert firsts(inner) == before + 12


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
