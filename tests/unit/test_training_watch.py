"""The launcher's eye on a run: collapse, the best model, reports, checkpoints of other models."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cobalt.errors import InfraError, InputError
from cobalt.training import checkpoint
from cobalt.training.fit import fit
from cobalt.training.memory import sizes
from cobalt.training.monitor import Collapse, Monitor, best, validation_score
from cobalt.training.result import TrainResult, card

BOUNDS = {
    "patience": 3, "max_no_code": 0.9, "max_format_broken": 0.95, "min_entropy": 1e-3,
    "max_length_share": 0.95, "max_rollout_probs_diff": 0.5,
}  # fmt: skip


def feed(*steps, **changes):
    """The step and message of the abort, or None."""
    rule = Collapse(BOUNDS | changes, 100)
    for number, data in enumerate(steps, start=1):
        try:
            rule(number, data)
        except InfraError as error:
            return number, str(error)
    return None


@pytest.mark.parametrize(
    ("metric", "good", "bad", "name"),
    [
        ("reward/no_code", 0.9, 0.91, "max_no_code"),
        ("reward/format_broken", 0.9, 1.0, "max_format_broken"),
        ("actor/entropy", 0.5, 1e-5, "min_entropy"),
        ("response_length/mean", 94.0, 96.0, "max_length_share"),
    ],
)
def test_collapse_needs_patience(metric, good, bad, name):
    bad, good = {metric: bad}, {metric: good}
    number, message = feed(good, bad, bad, bad)
    assert (
        number == 4 and metric in message and name in message and "checkpoints before it are kept" in message
    )
    assert feed(bad, bad, good, bad, bad) is None
    assert feed(bad, bad, {}, bad)[0] == 4  # a step without the metric neither counts nor clears
    assert feed(bad, bad, bad, **{name: None}) is None


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
@pytest.mark.parametrize(
    "metric",
    [
        "training/rollout_probs_diff_mean", "training/rollout_probs_diff_max", "reward/shaped",
        "actor/pg_loss", "actor/entropy", "offline/loss", "critic/advantages/mean", "val-core/s/acc/mean@1",
    ],
)  # fmt: skip
def test_what_must_be_a_number_ends_the_training_at_once(metric, value):
    off = dict.fromkeys(BOUNDS)
    number, message = feed({metric: 0.1}, {}, {metric: value}, **off)
    assert number == 3 and f"{metric} is not a number at step 3" in message


def test_what_may_be_undefined_does_not():
    assert feed({"training/rollout_actor_probs_pearson_corr": None, "perf/mfu/actor": None}) is None
    nothing = {"training/rollout_probs_diff_valid": 0, "training/rollout_probs_diff_mean": None}
    assert feed(nothing) is None  # a batch without a token of the policy


def test_gradients_that_are_not_finite_end_the_training_after_the_patience():
    bad, good = {"actor/grad_norm": None}, {"actor/grad_norm": 0.3}
    assert feed(bad, bad, good, bad, {}, bad, bad)[0] == 7
    assert "3 step(s) up to step 7" in feed(bad, bad, good, bad, {}, bad, bad)[1]
    assert feed(bad, bad, good, bad, bad) is None


def test_a_rollout_that_disagrees_is_a_fault_at_once():
    assert feed({"training/rollout_probs_diff_mean": 0.6})[0] == 1
    assert feed({"training/rollout_probs_diff_mean": 0.4}) is None


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 5))
def test_the_abort_comes_at_the_first_full_run_of_bad_steps(bad, patience):
    found = feed(*({"reward/no_code": 1.0 if flag else 0.0} for flag in bad), patience=patience)
    runs = [i + 1 for i in range(len(bad)) if i + 1 >= patience and all(bad[i + 1 - patience : i + 1])]
    assert (found[0] if found else None) == (runs[0] if runs else None)


def test_validation_pass_at_1_is_the_mean_over_sources():
    data = {"val-core/a/acc/mean@1": 0.5, "val-core/b/acc/mean@1": 0.7, "val-aux/a/acc/mean@1": 0.0, "x": 1.0}
    assert validation_score(data) == pytest.approx(0.6)
    assert validation_score({"reward/acc": 1.0}) is None
    assert validation_score(data | {"val-core/b/acc/mean@1": None}) is None


def config(folder, **model):
    return OmegaConf.create(
        {
            "trainer": {"default_local_dir": str(folder / "checkpoints"), "n_gpus_per_node": 1, "nnodes": 1,
                        "device": "cpu"},
            "cobalt": {"abort": BOUNDS, "recipe": "cobalt", "method": "verl", "scale": "tiny",
                       "reward_profile": "plain", "token_counter": "policy", "ptb": {"file": None},
                       "dialogue": {"turns": 1, "prompts": "tiny"}},
            "data": {"seed": 4, "max_response_length": 64, "train_files": str(folder / "train.parquet")},
            "actor_rollout_ref": {
                "model": {"path": str(folder / "base")},
                "actor": {"fsdp_config": {"model_dtype": "float32"}, "optim": {"lr": 1e-4}},
                "rollout": {"gpu_memory_utilization": 0.7},
            },
        }
    )  # fmt: skip


def stored_checkpoint(folder, step, **sizes):
    target = folder / "checkpoints" / f"global_step_{step}" / "actor" / "huggingface"
    target.mkdir(parents=True)
    (target / "config.json").write_text(json.dumps({"model_type": "qwen3", **sizes}))
    (target / "model.safetensors").write_text(f"step {step}")
    (target / "tokenizer.json").write_text("{}")
    return target.parents[1]


def test_steps_are_reported_and_the_best_checkpoint_is_kept(tmp_path):
    said, seen = [], []

    class Progress:
        def advance(self, label, done, total, **fields):
            seen.append((label, done, total, fields))

    watch = Monitor(
        tmp_path / "metrics.jsonl",
        tmp_path / "plan.json",
        tmp_path,
        config(tmp_path),
        Progress(),
        "x",
        said.append,
    )
    watch()  # nothing there yet
    (tmp_path / "plan.json").write_text(json.dumps({"plan": {"steps": 40}, "lines": ["l"], "notes": ["n"]}))
    scores = {0: 0.9, 10: 0.3, 20: 0.5, 30: 0.4, 35: 0.8}
    with watch.metrics.open("w") as file:
        for step, score in scores.items():
            if step in (10, 20, 30):
                stored_checkpoint(tmp_path, step)
            data = {"val-core/s/acc/mean@1": score, "reward/shaped": 0.1}
            file.write(json.dumps({"step": step, "data": data}) + "\n")
            file.flush()
            watch()
        file.write('{"step": 36, "da')  # torn: not yet
    watch()
    assert said[:2] == ["  l", "  n"] and [entry[1] for entry in seen] == [10, 20, 30, 35]
    assert best(tmp_path) == {
        "step": 20,
        "score": 0.5,
        "metric": "validation Pass@1",
    }  # 0 and 35: no checkpoint
    assert (tmp_path / "best" / "model.safetensors").read_text() == "step 20"
    assert json.loads((tmp_path / "best" / "config.json").read_text())["dtype"] == "float32"
    assert watch.first_step_s is not None and best(tmp_path / "none") is None


def watching(folder, said):
    (folder / "plan.json").write_text(json.dumps({"plan": {"steps": 9}, "lines": [], "notes": []}))
    files = folder / "metrics.jsonl", folder / "plan.json"
    return Monitor(*files, folder, config(folder), None, "x", said.append)


@pytest.mark.parametrize("step", [0, 3])
def test_a_null_is_a_fault_and_never_the_best_model(tmp_path, step):
    import orjson

    watch = watching(tmp_path, [])
    stored_checkpoint(tmp_path, step)
    record = {"step": step, "data": {"val-core/s/acc/mean@1": math.nan, "reward/shaped": 0.5}}
    watch.metrics.write_bytes(orjson.dumps(record) + b"\n")  # as verl's file logger does
    with pytest.raises(InfraError, match="val-core/s/acc/mean@1 is not a number"):
        watch()
    assert best(tmp_path) is None


def test_a_skipped_update_is_said(tmp_path):
    said = []
    watch = watching(tmp_path, said)
    record = {"step": 2, "data": {"actor/grad_norm": None, "reward/shaped": 0.1}}
    watch.metrics.write_text(json.dumps(record) + "\n")
    watch()
    assert any("step 2: the gradient was not finite" in line for line in said)


def made(folder, **changes):
    target = folder / "checkpoints" / "global_step_5"
    record = {
        "torch": "2.11.0+cu130", "transformers": "5.9.0", "verl": "0.9.1", "strategy": "fsdp", "devices": 2,
        "lora_rank": 0, "data_sha256": "abc",
    }  # fmt: skip
    (target / checkpoint.MADE_BY).write_text(json.dumps(record | changes))
    return target


def test_a_checkpoint_that_cannot_be_loaded_is_refused_with_advice(tmp_path, monkeypatch):
    stored_checkpoint(tmp_path, 5)
    here = config(tmp_path)
    extra = {"actor": {"strategy": "fsdp"}, "model": {"lora_rank": 0}}
    here = OmegaConf.merge(here, {"actor_rollout_ref": extra, "trainer": {"n_gpus_per_node": 2}})
    here.cobalt.data_sha256 = "abc"
    monkeypatch.setattr(checkpoint, "version", lambda name: "2.11.1" if name == "torch" else "1.0")
    saved = tmp_path / "checkpoints" / "global_step_5"
    checkpoint.check_loads(saved, here)  # from before there was a record
    for fine in ({}, {"torch": "2.9.0"}, {"transformers": "9.9.9"}):
        checkpoint.check_loads(made(tmp_path, **fine), here)
    for changes, message in (
        ({"torch": "2.13.0"}, r"torch 2\.13\.0 \(here the older 2\.11\.1\)"),
        ({"devices": 4}, r"devices 4 \(here 2\)"),
        ({"strategy": "fsdp2", "lora_rank": 8}, r"lora_rank 8 \(here 0\), strategy fsdp2 \(here fsdp\)"),
    ):
        with pytest.raises(InputError, match=message) as told:
            checkpoint.check_loads(made(tmp_path, **changes), here)
        assert f"--model {saved / 'actor' / 'huggingface'}" in str(told.value)
    (saved / "actor" / "lora_train_meta.json").touch()
    with pytest.raises(InputError, match=r"with another --output$"):  # its weights are not merged there
        checkpoint.check_loads(made(tmp_path, devices=4), here)
    here.cobalt.method = "offline"
    checkpoint.check_loads(made(tmp_path, torch="2.13.0", devices=4, strategy="offline"), here)


def test_a_resumed_run_has_the_same_rows(tmp_path):
    saved = stored_checkpoint(tmp_path, 5)
    assert checkpoint.check_same_data(saved, "abc", own=True) == []
    made(tmp_path)
    assert checkpoint.check_same_data(saved, "abc", own=True) == []
    with pytest.raises(InputError, match="trained on other rows"):
        checkpoint.check_same_data(saved, "def", own=True)
    (note,) = checkpoint.check_same_data(saved, "def", own=False)
    assert "global_step_5" in note


def test_a_checkpoint_of_another_model_or_recipe_is_refused(tmp_path):
    saved = stored_checkpoint(tmp_path, 5, hidden_size=64, vocab_size=10)
    model = tmp_path / "base"
    model.mkdir()
    (model / "config.json").write_text(
        json.dumps({"model_type": "qwen3", "hidden_size": 64, "vocab_size": 10})
    )
    checkpoint.check_same_model(saved, model)
    (model / "config.json").write_text(
        json.dumps({"model_type": "qwen3", "hidden_size": 32, "vocab_size": 10})
    )
    with pytest.raises(InputError, match=r"another model \(hidden_size 64, but .* has 32\)"):
        checkpoint.check_same_model(saved, model)
    folder = tmp_path / "checkpoints"
    checkpoint.check_same_recipe(folder, "cobalt")
    (folder / checkpoint.RECIPE).write_text("verpo\n")
    with pytest.raises(InputError, match="made by recipe verpo, not cobalt"):
        checkpoint.check_same_recipe(folder, "cobalt")
    assert checkpoint.step_of(saved) == 5 and checkpoint.step_of(folder) is None


def test_the_card_names_data_recipe_metrics_and_versions(tmp_path):
    (tmp_path / "train.parquet").write_text("rows")
    plan = {"steps": 9, "contexts_per_step": 16, "samples_per_context": 8, "optimizer_steps": 2}
    metrics = [
        {"step": 1, "reward/pass_rate": 0.25, "reward/acc": 0.1},
        {"step": 6, "reward/pass_rate": 0.5, "reward/acc": None},
    ]
    result = TrainResult(tmp_path, plan, steps=6, stopped=True, samples=768, masked=2, metrics=metrics)
    text = card(config(tmp_path), result)
    shown = "`cobalt`", "6 of 9 (stopped)", "16 x 8", "768, 2 of them", "sha256 ", "verl 0.9.1", "seed 4"
    for part in (*shown, "| `reward/pass_rate` | 0.2500 | 0.5000 |"):
        assert part in text
    assert text.startswith("---\nbase_model: base\n")


def test_memory_is_estimated_from_the_models_sizes(tmp_path):
    folder = tmp_path / "base"
    folder.mkdir()
    given = {
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 4, "intermediate_size": 16, "vocab_size": 100, "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(given))
    assert sizes(folder).parameters == 100 * 8 + 2 * (8 * 4 * (4 + 2) + 3 * 8 * 16)
    assert "parameters" in fit(config(tmp_path), 100)
    (folder / "config.json").write_text(json.dumps(given | {"num_experts": 8}))
    assert sizes(folder) is None
    (folder / "config.json").write_text("{}")
    assert sizes(folder) is None and "not estimated" in fit(config(tmp_path), 100)
