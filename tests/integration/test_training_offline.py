"""Offline training by the real launcher: what a resumed run learns is what an uninterrupted one does."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from cobalt.errors import InputError
from cobalt.training.launch import train

pytestmark = pytest.mark.slow
MODEL = Path(__file__).parents[2] / "models" / "tiny-reference"


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "groups.parquet"
    rows = [
        {
            "prompt": [{"role": "user", "content": f"Read a list of integers. {i}"}],
            "completions": [
                {"text": f"```python\nprint({number})\n```", "pass_rate": float(number == i % 3)}
                for number in range(3)
            ],
            "extra_info": {"split": "train"},
        }
        for i in range(10)
    ]
    pd.DataFrame(rows).to_parquet(path)
    return path


def run(groups, output, **given):
    small = (
        "data.train_batch_size=4",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "trainer.save_freq=2",
    )
    fixed = {"model": MODEL, "recipe": "offline_rl", "steps": 4, "seed": 1, "overrides": small}
    return train(train_file=groups, output=output, say=lambda _: None, **fixed, **given)


def test_a_resumed_run_learns_what_an_uninterrupted_one_does(groups, tmp_path):
    whole = run(groups, tmp_path / "whole")
    assert (whole.steps, whole.samples, whole.plan["optimizer_steps"]) == (4, 4 * 4 * 3, 2)
    assert [step["step"] for step in whole.metrics] == [1, 2, 3, 4]
    assert all(
        abs(step["offline/weight_mean"]) < 1e-6 for step in whole.metrics
    )  # advantages of whole groups
    half = run(groups, tmp_path / "half", resume=str(whole.checkpoint.with_name("global_step_2")))
    assert [step["step"] for step in half.metrics] == [3, 4]
    for name in ("offline/loss", "actor/grad_norm", "actor/lr"):
        assert [step[name] for step in half.metrics] == [step[name] for step in whole.metrics[2:]]
    one, other = (load_file(done.model / "model.safetensors") for done in (whole, half))
    before = load_file(MODEL / "model.safetensors")
    assert all(one[name].equal(other[name]) for name in one)
    assert any(not one[name].equal(before[name]) for name in before)
    assert "trained by `offline_rl`" in (whole.model / "README.md").read_text()
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["steps"] == 4
    with pytest.raises(InputError, match="has a checkpoint; choose another --output"):
        run(groups, tmp_path / "whole", resume="never")
