"""Two steps of every rival by the real launcher: it trains, and what is its own shows in the metrics."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from training_assets import PROGRAMS, TESTS, make_model, rows, write

from cobalt.training.launch import train

pytestmark = pytest.mark.full
SIZES = ("data.max_prompt_length=32", "actor_rollout_ref.rollout.n=4", "data.train_batch_size=8")
DIALOGUES = ("data.max_response_length=300", "cobalt.dialogue.max_turn_tokens=3")


def contexts(folder):
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    return {
        f"{name}_file": write(
            folder / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, 20)]
        )
        for name, split in (("train", "train"), ("val", "test"))
    }


def groups(folder):
    """Second programs: a right and a wrong one, after first programs of which half passed."""
    made = [{"text": f"```python\n{text}\n```", "pass_rate": rate, "baseline": 0.5}
            for text, rate in zip(PROGRAMS[:2], (1.0, 0.25), strict=True)]  # fmt: skip
    table = [
        {"prompt": row["prompt"], "completions": made, "extra_info": {"split": "train"}}
        for row in rows("train", 16)
    ]
    pd.DataFrame(table).to_parquet(folder / "groups.parquet")
    return {"train_file": folder / "groups.parquet"}


# What is the method's own, of the metrics of the first step.
OWN = {
    "rloo": lambda step: step["critic/advantages/max"] > 0 > step["critic/advantages/min"],
    # the sum over every response's tokens, over 8 tokens
    "dr_grpo": lambda step: (
        step["actor/pg_loss"]
        == pytest.approx(-step["critic/advantages/mean"] * step["response_length/mean"] / 8, rel=1e-3)
    ),
    "maxrl": lambda step: step["critic/advantages/min"] >= -1,
    "dynamic_sampling": lambda step: step["training/filter_groups/kept"] == 8,
    "noise_corrected": lambda step: (
        step["reward/shaped"] == pytest.approx((step["reward/verdict"] - 0.1) / 0.7)
        and step["critic/score/min"] == pytest.approx(-0.1 / 0.7)
    ),
    "prefix_rl": lambda step: step["critic/advantages/max"] > 0,
    "murphy": lambda step: step["critic/advantages/max"] > 0 > step["critic/advantages/min"],
    "echo": lambda step: 0 < step["actor/feedback_nats"] < 10,
    "cocos": lambda step: abs(step["critic/advantages/max"]) <= 2,
    "rltf_sd": lambda step: step["offline/loss"] != 0,
}  # fmt: skip
MORE = {
    "murphy": ("cobalt.dialogue.branches=[2,2,1]",),
    "noise_corrected": ("cobalt.constants.p0=0.1", "cobalt.constants.p1=0.2"),
}


@pytest.mark.parametrize("name", OWN)
def test_two_steps(name, tmp_path):
    online = name != "rltf_sd"
    sizes = (*SIZES, *(DIALOGUES if name in ("murphy", "echo", "cocos") else ("data.max_response_length=8",)))
    done = train(
        **(contexts if online else groups)(tmp_path), model=make_model(tmp_path / "model", positions=512),
        output=tmp_path / "out", steps=2, recipe=name, say=lambda _: None,
        overrides=(*sizes, "actor_rollout_ref.actor.ppo_mini_batch_size=8", *MORE.get(name, ())),
    )  # fmt: skip
    assert [step["step"] for step in done.metrics] == [1, 2]
    loss = "actor/pg_loss" if online else "offline/loss"
    assert all(math.isfinite(step[loss]) for step in done.metrics)
    assert OWN[name](done.metrics[0]), done.metrics[0]
    assert (done.model / "config.json").is_file()
