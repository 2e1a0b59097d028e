"""A reward, an advantage estimator and a policy loss of one's own: one file beside the recipe."""

from __future__ import annotations

import json

import pytest
from training_assets import TESTS, make_model, rows, write

from cobalt.training.launch import train

pytestmark = pytest.mark.slow
RECIPE = """
defaults: [mt_grpo]
algorithm: {adv_estimator: by_turn}
actor_rollout_ref: {actor: {policy_loss: {loss_mode: counted}}}
cobalt:
  plugins: [own_parts]
  reward: own_parts:reward
  dialogue: {turns: 2, max_turn_tokens: 3, every_turn: true}
"""
PARTS = """
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn, register_adv_est, register_policy_loss

from cobalt.training.advantages import turns_of_rows


def reward(completion, result, best):
    return 0.25 + 0.5 * (sum(result["passing"]) > 0)


@register_adv_est("by_turn")
def by_turn(token_level_rewards, response_mask, index, **_):
    values = torch.zeros_like(response_mask, dtype=torch.float32)
    for row, turns in enumerate(turns_of_rows(response_mask)):
        for turn in reversed(turns or []):
            values[row, : turn["end"]] = len(turn["passing"])
    return values * response_mask, values


@register_policy_loss("counted")
def counted(*args, **given):
    loss, metrics = get_policy_loss_fn("vanilla")(*args, **given)
    return loss, {**metrics, "actor/own_loss": 7.0}
"""


def test_parts_of_ones_own_reach_every_process(tmp_path):
    (tmp_path / "mine.yaml").write_text(RECIPE)
    (tmp_path / "own_parts.py").write_text(PARTS)
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    files = {
        f"{name}_file": write(
            tmp_path / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, 20)]
        )
        for name, split in (("train", "train"), ("val", "test"))
    }
    done = train(
        **files, model=make_model(tmp_path / "model"), output=tmp_path / "out", steps=1,
        recipe=str(tmp_path / "mine.yaml"), say=lambda _: None,
        overrides=("data.max_prompt_length=32", "data.max_response_length=300"),
    )  # fmt: skip
    (metrics,) = done.metrics
    assert metrics["actor/own_loss"] == pytest.approx(7.0)
    assert {metrics["critic/score/min"], metrics["critic/score/max"]} == {0.25, 0.75}
    assert 0.25 < metrics["reward/shaped"] < 0.75
    assert metrics["critic/advantages/max"] == len(TESTS["inputs"])
    assert any("reward: own_parts:reward" in note for note in done.notes)
    assert "| reward | `own_parts:reward` |" in (done.model / "README.md").read_text()
