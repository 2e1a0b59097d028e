"""Offline training by the real launcher: what a resumed run learns is what an uninterrupted one does."""

from __future__ import annotations

import json
import shutil
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


def run(groups, output, *more, **given):
    small = (
        "data.train_batch_size=4",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "trainer.save_freq=2",
        *more,
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


def test_a_stop_that_is_asked_for_early_makes_no_step(groups, tmp_path):
    done = run(groups, tmp_path / "early", stop=lambda: True)
    assert (done.steps, done.stopped, done.metrics, done.model) == (0, True, [], None)
    assert run(groups, tmp_path / "early").steps == 4


def test_two_processes_learn_what_one_does_and_go_on_from_its_checkpoint(groups, tmp_path):
    two = ("trainer.n_gpus_per_node=2",)
    whole = run(groups, tmp_path / "whole")
    sharded = run(groups, tmp_path / "sharded", *two)
    half = run(groups, tmp_path / "half", *two, resume=str(whole.checkpoint.with_name("global_step_2")))
    assert any("2 devices" in note for note in sharded.notes)
    for done in (sharded, half):
        for name in ("offline/loss", "actor/grad_norm"):
            there = [step[name] for step in whole.metrics[-len(done.metrics) :]]
            assert [step[name] for step in done.metrics] == pytest.approx(there, rel=1e-3)
        one, other = (load_file(each.model / "model.safetensors") for each in (whole, done))
        assert one.keys() == other.keys()
        assert all(one[name].allclose(other[name], atol=1e-4) for name in one)
    assert not list((tmp_path / "sharded").rglob("store"))


def test_adapters_learn_are_merged_and_go_on(groups, tmp_path):
    adapters = (
        "actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8",
        "actor_rollout_ref.actor.optim.lr=1e-2", "trainer.n_gpus_per_node=2", "cobalt.offline.objective=sft",
    )  # fmt: skip
    whole = run(groups, tmp_path / "whole", *adapters)
    half = run(groups, tmp_path / "half", *adapters, resume=str(whole.checkpoint.with_name("global_step_2")))
    one, other = (load_file(done.model / "model.safetensors") for done in (whole, half))
    before = load_file(MODEL / "model.safetensors")
    assert one.keys() == before.keys() and all(one[name].equal(other[name]) for name in one)
    changed = {name for name in one if not one[name].equal(before[name])}
    assert changed == {name for name in one if "_proj" in name}
    assert whole.metrics[-1]["offline/loss"] < whole.metrics[0]["offline/loss"]


def test_a_training_that_cannot_fit_is_refused_before_anything_is_loaded(groups, tmp_path):
    model = tmp_path / "large"
    shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("*.safetensors"))
    large = {
        "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936, "tie_word_embeddings": False,
        "layer_types": ["full_attention"] * 36,
    }  # fmt: skip
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | large))
    given = {
        "train_file": groups,
        "model": model,
        "recipe": "rejection_sft",
        "profile": "gpu",
        "dry_run": True,
    }
    quiet = {"output": tmp_path / "out", "say": lambda _: None}
    sizes = ("data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=8")
    said = (
        r"does not fit: 8,190.4 M parameters, .* on 1 device: each weights 30.5 \+ gradients 30.5 "
        r"\+ optimiser 61.0 .*vocabulary 151,936; .* has 80.0 GiB"
    )
    with pytest.raises(InputError, match=said):
        train(**given, **quiet, overrides=[*sizes, "trainer.n_gpus_per_node=1"])
    assert not (tmp_path / "out" / "launches").exists()
    four = train(**given, **quiet, overrides=sizes)  # the profile's four
    assert any("weights 7.63 + gradients 7.63 + optimiser 15.3" in note for note in four.notes)
    adapters = [*sizes, "trainer.n_gpus_per_node=1", "actor_rollout_ref.model.lora_rank=32"]
    one = train(**given, **quiet, overrides=adapters)
    assert any("87.3 M trained (adapters of rank 32)" in note for note in one.notes)
