"""A reward, an advantage estimator and a policy loss of one's own: one file beside the recipe."""

from __future__ import annotations

import json
import re
from pathlib import Path

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


def trained(folder, recipe, *overrides):
    """One step of a recipe on made-up tasks."""
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    files = {
        f"{name}_file": write(
            folder / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, 20)]
        )
        for name, split in (("train", "train"), ("val", "test"))
    }
    return train(
        **files, model=make_model(folder / "model"), output=folder / "out", steps=1, recipe=str(recipe),
        say=lambda _: None,
        overrides=("data.max_prompt_length=32", "data.max_response_length=300", *overrides),
    )  # fmt: skip


def test_parts_of_ones_own_reach_every_process(tmp_path):
    (tmp_path / "mine.yaml").write_text(RECIPE)
    (tmp_path / "own_parts.py").write_text(PARTS)
    done = trained(tmp_path, tmp_path / "mine.yaml")
    (metrics,) = done.metrics
    assert metrics["actor/own_loss"] == pytest.approx(7.0)
    assert {metrics["critic/score/min"], metrics["critic/score/max"]} == {0.25, 0.75}
    assert 0.25 < metrics["reward/shaped"] < 0.75
    assert metrics["critic/advantages/max"] == len(TESTS["inputs"])
    assert any("reward: own_parts:reward" in note for note in done.notes)
    assert "| reward | `own_parts:reward` |" in (done.model / "README.md").read_text()


def test_the_files_of_the_page_on_estimators_and_losses_train(tmp_path):
    """Records of turns reach the estimator and the workers that update, from a tree too."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "estimator_and_loss.md").read_text()
    for name, text in re.findall(r"```\w+\n# (\w+\.\w+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(text.replace("by_turn.py:", f"{tmp_path}/by_turn.py:"))
    done = trained(
        tmp_path, tmp_path / "by_turn.yaml", "cobalt.dialogue.turns=2", "cobalt.dialogue.max_turn_tokens=3",
        f"cobalt.advantage={tmp_path}/handed_up.py:advantage", "cobalt.dialogue.branches=[2,4]",
        "cobalt.token_mean_over=2",
    )  # fmt: skip
    (metrics,) = done.metrics
    assert metrics["actor/feedback"] > 0 and metrics["actor/grad_norm"] > 0
    assert metrics["critic/advantages/max"] > 0 > metrics["critic/advantages/min"]
    notes = [note for note in done.notes if "sha256" in note]
    assert [note.partition(":")[0] for note in notes] == ["advantage", "policy loss"]
