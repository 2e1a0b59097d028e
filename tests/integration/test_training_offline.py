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


def run(groups, output, *more, **given):
    sizes = "data.train_batch_size=4", "actor_rollout_ref.actor.ppo_mini_batch_size=2", "trainer.save_freq=2"
    fixed = {"model": MODEL, "recipe": "offline_rl", "steps": 4, "seed": 1, "say": lambda _: None}
    return train(train_file=groups, output=output, overrides=(*sizes, *more), **fixed | given)


@pytest.fixture(scope="module")
def whole(groups, tmp_path_factory):
    return run(groups, tmp_path_factory.mktemp("whole") / "out")


def halfway(done):
    return str(done.checkpoint.with_name("global_step_2"))


def same(one, other, close=0.0):
    first, second = (load_file(done.model / "model.safetensors") for done in (one, other))
    assert first.keys() == second.keys()
    return all(first[name].allclose(second[name], rtol=0.0, atol=close) for name in first)


def test_a_resumed_run_learns_what_an_uninterrupted_one_does(groups, whole, tmp_path):
    assert (whole.steps, whole.samples, whole.plan["optimizer_steps"]) == (4, 4 * 4 * 3, 2)
    assert [step["step"] for step in whole.metrics] == [1, 2, 3, 4]
    assert all(abs(step["offline/weight_mean"]) < 1e-6 for step in whole.metrics)  # advantages of groups
    half = run(groups, tmp_path / "half", resume=halfway(whole))
    assert [step["step"] for step in half.metrics] == [3, 4]
    for name in ("offline/loss", "actor/grad_norm", "actor/lr"):
        assert [step[name] for step in half.metrics] == [step[name] for step in whole.metrics[2:]]
    assert same(whole, half)
    one, before = (load_file(folder / "model.safetensors") for folder in (whole.model, MODEL))
    assert any(not one[name].equal(before[name]) for name in before)
    assert "trained by `offline_rl`" in (whole.model / "README.md").read_text() and whole.evaluator == {}
    assert json.loads((whole.output / "result.json").read_text())["steps"] == 4
    with pytest.raises(InputError, match="has a checkpoint; choose another --output"):
        run(groups, whole.output, resume="never")
    with pytest.raises(InputError, match="made by recipe offline_rl, not rejection_sft"):
        run(groups, whole.output, recipe="rejection_sft", dry_run=True)


def test_a_finished_training_is_not_repeated(groups, whole):
    again = run(groups, whole.output)
    assert again.metrics == whole.metrics and again.model == whole.model and again.first_step_s is None


def test_a_stop_that_is_asked_for_early_makes_no_step(groups, tmp_path):
    done = run(groups, tmp_path / "early", stop=lambda: True)
    assert (done.steps, done.stopped, done.metrics, done.model) == (0, True, [], None)
    assert run(groups, tmp_path / "early", steps=1).steps == 1


def test_two_processes_learn_what_one_does_and_go_on_from_its_checkpoint(groups, whole, tmp_path):
    for name, given in (("sharded", {}), ("half", {"resume": halfway(whole)})):
        done = run(groups, tmp_path / name, "trainer.n_gpus_per_node=2", **given)
        assert any("2 devices" in note for note in done.notes) and same(whole, done, 1e-4)
        for metric in ("offline/loss", "actor/grad_norm"):
            there = [step[metric] for step in whole.metrics[-len(done.metrics) :]]
            assert [step[metric] for step in done.metrics] == pytest.approx(there, rel=1e-3)


def test_adapters_learn_are_merged_and_go_on(groups, tmp_path):
    adapters = (
        "actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8",
        "actor_rollout_ref.actor.optim.lr=1e-2", "trainer.n_gpus_per_node=2", "cobalt.offline.objective=sft",
    )  # fmt: skip
    whole = run(groups, tmp_path / "whole", *adapters)
    half = run(groups, tmp_path / "half", *adapters, resume=halfway(whole))
    assert same(whole, half)
    one, before = (load_file(folder / "model.safetensors") for folder in (whole.model, MODEL))
    changed = {name for name in one if not one[name].equal(before[name])}
    assert one.keys() == before.keys() and changed == {name for name in one if "_proj" in name}
    assert whole.metrics[-1]["offline/loss"] < whole.metrics[0]["offline/loss"]


def test_a_training_that_cannot_fit_is_refused_before_anything_is_loaded(groups, tmp_path):
    small = "trainer.n_gpus_per_node=1", "cobalt.card_gib=0.5"
    said = r"does not fit: 0\.\d M parameters, .* on 1 device: each .* a card .* has 0.50 GiB\. "
    with pytest.raises(InputError, match=said):
        run(groups, tmp_path / "out", *small, recipe="rejection_sft", profile="gpu", dry_run=True)
    assert not (tmp_path / "out" / "launches").exists()
