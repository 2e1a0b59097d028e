"""A reward (that of docs/howto/reward.md), an advantage estimator and a policy loss of one's own."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
import yaml
from docs_blocks import ROOT, blocks
from training_assets import TESTS, make_model, rows, write

from cobalt.errors import InputError
from cobalt.training.launch import train

pytestmark = pytest.mark.slow
RECIPE = """
defaults: [mt_grpo]
algorithm: {adv_estimator: by_turn}
actor_rollout_ref: {actor: {policy_loss: {loss_mode: counted}}}
cobalt:
  plugins: [own_parts]
  feedback: shown.py:feedback
  environment: shown.py:Printed
  dialogue: {turns: 2, max_turn_tokens: 3, every_turn: true}
"""
PARTS = """
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn, register_adv_est, register_policy_loss

from cobalt.training.advantages import turns_of_rows


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
PAGE = ROOT / "docs" / "howto" / "reward.md"

SHOWN = """
from pathlib import Path


def feedback(code, turn):
    Path(__file__).with_name("shown").write_text(f"{turn} {code}")
    return "again"


class Printed:
    def accepts(self, output, run):
        Path(__file__).with_name("judged").touch()
        return run.returncode == 0 and run.stdout.strip() == output.strip()
"""


@pytest.fixture
def given(tmp_path):
    """The page's two files, with the rest of RECIPE beside; the arguments of a training."""
    code, own = (next(b.text for b in blocks(PAGE) if b.language == name) for name in ("python", "yaml"))
    file, recipe = re.findall(r"`(my_\w+\.\w+)`", PAGE.read_text())[:2]
    assert len(code.splitlines()) <= 15
    (tmp_path / file).write_text(code)
    whole, said = yaml.safe_load(RECIPE), yaml.safe_load(own)["cobalt"]
    (tmp_path / recipe).write_text(yaml.safe_dump(whole | {"cobalt": whole["cobalt"] | said}))
    (tmp_path / "own_parts.py").write_text(PARTS)
    (tmp_path / "shown.py").write_text(SHOWN)
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    files = {
        f"{name}_file": write(
            tmp_path / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, 20)]
        )
        for name, split in (("train", "train"), ("val", "test"))
    }
    return {
        **files, "model": make_model(tmp_path / "model"), "output": tmp_path / "out", "steps": 1,
        "recipe": str(tmp_path / recipe), "say": lambda _: None,
        "overrides": ("data.max_prompt_length=32", "data.max_response_length=300"),
    }  # fmt: skip


def test_parts_of_ones_own_reach_every_process(given, tmp_path):
    done = train(**given)
    (metrics,) = done.metrics
    assert metrics["actor/own_loss"] == pytest.approx(7.0)
    assert 0.0 < metrics["reward/passed"] < 1.0 and metrics["reward/length"] < 0.0
    assert metrics["reward/shaped"] == pytest.approx(
        sum(metrics[f"reward/{name}"] for name in ("passed", "gain", "length"))
    )
    assert metrics["critic/advantages/max"] == len(TESTS["inputs"]) and metrics["reward/failed"] == 0.0
    assert (tmp_path / "shown").read_text().startswith("0 ") and (tmp_path / "judged").exists()
    for name, line in (("feedback", 5), ("environment", 10)):
        assert any(f"{name}: {tmp_path}/shown.py" in note and f":{line}, sha" in note for note in done.notes)
    assert any(f"reward: {tmp_path}/my_reward.py:reward" in note for note in done.notes)
    sha256 = hashlib.sha256((tmp_path / "my_reward.py").read_bytes()).hexdigest()
    card = (done.model / "README.md").read_text()
    assert f"| reward | `my_reward.py:reward`, sha256 {sha256}, price 0.0002 |" in card
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["plan"]["functions"]["reward"] == {
        "function": f"{tmp_path}/my_reward.py:reward", "where": f"{tmp_path}/my_reward.py:4",
        "sha256": sha256, "constants": {"price": 0.0002},
    }  # fmt: skip


def test_a_reward_that_always_fails_is_told_before_anything_starts(given, tmp_path):
    (tmp_path / "bad.py").write_text("def reward(info):\n    return info['nowhere']\n")
    changed = (
        *given["overrides"],
        f"cobalt.reward='{tmp_path}/bad.py:reward'",
        "cobalt.constants={price: 1}",
    )
    with pytest.raises(InputError, match=r"cobalt\.constants\.price: no function"):
        train(**given | {"overrides": changed, "dry_run": True})
    (tmp_path / "bad.py").write_text("def reward(info, price=1.0):\n    return info['nowhere']\n")
    with pytest.raises(InputError, match=rf"^{tmp_path}/bad\.py:2: cobalt\.reward=.*: KeyError: 'nowhere'"):
        train(**given | {"overrides": changed, "dry_run": True})
