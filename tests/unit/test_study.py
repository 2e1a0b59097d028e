"""What a study trains and for how long, with trainings and evaluations stood in for by their records."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cobalt.commands import study as module
from cobalt.commands.study import LEARNING_RATES, TIMED_ROUNDS, TIMED_STEPS, WALL_ARM, Study

PACE = {"cobalt": 2.0, "mt_grpo": 10.0, "offline_rl": 0.5}
DATA = {"contexts": 80.0, "groups": 30.0}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study that notes its trainings as (arm, rate, seed, steps) in ``asked``; 4e-4 is the better rate."""
    monkeypatch.setattr(module, "opened", lambda config, out: contextlib.nullcontext(None))
    monkeypatch.setattr(module, "_collect", lambda job, meter: DATA)
    made = Study(
        SimpleNamespace(model="reference-model"), tmp_path, tmp_path / "c.yaml", 30, 3, lambda _: None
    )
    made.asked = []

    def train(arm, rate, seed, steps=None, *, name=None):
        made.asked.append((arm, rate, seed, steps))
        pace = PACE[arm.removesuffix("_equal_wall")]
        # the first step is slow, and one of the others was disturbed
        return {
            "steps": steps or 30,
            "seed": seed,
            "model": f"{arm}-{rate}",
            "step_s": [9 * pace, 9 * pace] + [pace] * 4,
        }

    def evaluate(name, model, split):
        right = 2 if str(model).endswith(str(LEARNING_RATES[1])) else 1
        path = Path(tmp_path, f"{name}.{split}.jsonl")
        rows = [{"id": i, "all_pass_rates": [[0.0, float(i < right)]]} for i in range(4)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    monkeypatch.setattr(made, "train", train)
    monkeypatch.setattr(made, "evaluate", evaluate)
    return made


def test_the_rate_is_chosen_on_development_tasks_with_one_seed(study):
    assert study.tuned("cobalt") == LEARNING_RATES[1]
    assert study.asked == [("cobalt", rate, 0, None) for rate in LEARNING_RATES]


def test_equal_wall_time_counts_the_making_of_contexts(study):
    results = study.run(["cobalt", "mt_grpo", "offline_rl"], equal_wall=True)
    assert results["timing"] == {**DATA, "cobalt": 2.0, "mt_grpo": 10.0}  # medians, first steps left out
    trainings = [asked for asked in study.asked if asked[0] == WALL_ARM]
    assert trainings == [(WALL_ARM, LEARNING_RATES[1], seed, 14) for seed in range(3)]  # (80 + 30 x 2) / 10
    assert list(results["arms"]) == ["reference", "cobalt", "mt_grpo", "offline_rl", WALL_ARM]
    assert [results["arms"][arm]["reads"] for arm in list(results["arms"])[1:]] == [
        "contexts",
        "tasks",
        "groups",
        "tasks",
    ]
    timed = [asked for asked in study.asked if asked[3] == TIMED_STEPS]
    assert [asked[0] for asked in timed] == ["cobalt", "mt_grpo"] * TIMED_ROUNDS  # in turns


def test_timing_is_measured_once(study):
    first = study.timing({"cobalt": 1e-4})
    count = len(study.asked)
    assert study.timing({"cobalt": 1e-4}) == first and len(study.asked) == count


def test_without_equal_wall_time(study):
    results = study.run(["cobalt"], equal_wall=False)
    assert list(results["arms"]) == ["reference", "cobalt"]
    assert results["arms"]["reference"]["files"]["heldout"] != results["arms"]["cobalt"]["files"]["heldout"]
    assert len(results["arms"]["cobalt"]["files"]["heldout_ptb"]) == 3
