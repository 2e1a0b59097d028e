"""Training data and plans: every unusable input is one message that names the file, the row and the field."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from omegaconf import OmegaConf

from cobalt.errors import InfraError, InputError
from cobalt.testcases import TestCases
from cobalt.training import launch, leftovers, result, worker
from cobalt.training.config import compose
from cobalt.training.data import DataCheck, check_file, check_files, fit_prompts, mix
from cobalt.training.fit import make_plan
from cobalt.training.launch import train
from cobalt.training.prepare import _divisor, _rows

TESTS = json.dumps({"inputs": ["1"], "outputs": ["2"]})


def row(words="one two three", **changes):
    return {
        "data_source": "code_taco_verified",
        "prompt": [{"role": "user", "content": words}],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": TESTS},
        "extra_info": {"split": "train", "index": 0, "prev_best_pass_rate": 0.5},
        **changes,
    }


def write(path, *rows):
    pd.DataFrame(rows, columns=list(row()) if not rows else None).to_parquet(path)
    return path


def read(path):
    return check_file(path, what="training data", validation=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": []}, "field 'prompt' must be a list of messages"),
        ({"prompt": [{"role": "user", "content": None}]}, "message without role or content"),
        ({"prompt": [{"role": "assistant", "content": "x"}]}, "must end with a user message"),
        ({"reward_model": {"style": "rule"}}, "has no 'ground_truth'"),
        ({"reward_model": {"ground_truth": "{"}}, "ground_truth: not valid JSON"),
        ({"reward_model": {"ground_truth": '{"inputs": [], "outputs": []}'}}, "has no tests"),
        ({"extra_info": {"split": "trian"}}, "extra_info.split must be 'train' or 'test', got 'trian'"),
        ({"extra_info": {"split": "test"}}, "'test' in a file for training"),
        ({"extra_info": {"split": "train", "prev_best_pass_rate": 2.0}}, "prev_best_pass_rate must be in"),
    ],
)
def test_a_bad_row_is_named(tmp_path, changes, message):
    path = write(tmp_path / "train.parquet", row(), row(**changes))
    with pytest.raises(InputError) as error:
        read(path)
    assert f"training data {path}: row 1" in str(error.value) and message in str(error.value)


def test_a_bad_file_is_named(tmp_path):
    (tmp_path / "text.parquet").write_text("no parquet")
    write(tmp_path / "empty.parquet")
    write(tmp_path / "lacking.parquet", {k: v for k, v in row().items() if k != "ability"})
    for name, said in (
        ("missing", "cannot be read as Parquet"), ("text", "cannot be read as Parquet"), ("empty", "no rows"),
        ("lacking", "column ability missing; make the file with preproc"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"{name}\.parquet: {said}"):
            read(tmp_path / f"{name}.parquet")


class Words:
    """A tokenizer of one token per word."""

    def apply_chat_template(self, messages, *, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize
        return " ".join(message["content"] for message in messages)

    def __call__(self, texts, *, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [text.split() for text in texts]}


def test_overlong_rows_are_left_out_and_counted(tmp_path):
    table = read(write(tmp_path / "train.parquet", row(), row("a b c d e f"), row()))
    target = tmp_path / "out" / "kept.parquet"
    whole = fit_prompts(table, "training data", Words(), 6, target)
    assert whole == DataCheck(target, 3, 0, 4.0, 6, whole.sha256)
    assert fit_prompts(table, "again", Words(), 6, target) == whole
    fitted = fit_prompts(table, "training data", Words(), 5, target)
    assert (fitted.rows, fitted.overlong, fitted.longest_prompt) == (2, 1, 3)
    assert [list(prompt) for prompt in pd.read_parquet(target)["prompt"]] == [row()["prompt"]] * 2
    with pytest.raises(InputError, match=r"every one of the 3 prompts is longer .*=2 \(shortest 3 tokens\)"):
        fit_prompts(table, "training data", Words(), 2, tmp_path / "none.parquet")


def test_only_what_is_read_travels(tmp_path):
    wide = row(public_test_cases="{}", test_cases="{}", instruction="x", agent_name="tools")
    wide["extra_info"] |= {"conversation": wide["prompt"], "tools_kwargs": {"a": 1}}
    table = read(write(tmp_path / "train.parquet", wide, wide))

    def kept(*columns):
        fit_prompts(table, "training data", Words(), 6, tmp_path / "kept.parquet", columns)
        return pd.read_parquet(tmp_path / "kept.parquet")

    left = kept()
    assert set(left.columns) == {"data_source", "prompt", "reward_model", "extra_info", "agent_name"}
    info = {key: value for key, value in wide["extra_info"].items() if key != "conversation"}
    assert left["extra_info"][0] == info
    assert set(kept("public_test_cases").columns) == {*left.columns, "public_test_cases"}
    assert set(kept("extra_info")["extra_info"][0]) == set(wide["extra_info"])


def test_the_digest_is_of_what_is_learnt_from(tmp_path):
    def digest(*data):
        table = read(write(tmp_path / "t.parquet", *data))
        return fit_prompts(table, "training data", Words(), 9, tmp_path / "k.parquet").sha256

    tests = row(reward_model={"ground_truth": '{"inputs": ["9"], "outputs": ["9"]}', "style": "rule"})
    other = row("another")
    assert digest(row(), other) == digest(row(ability="maths", more=1), other)
    assert len({digest(row(), other), digest(other, row()), digest(row()), digest(tests, other)}) == 4


def test_several_files_are_one(tmp_path):
    one = write(tmp_path / "one.parquet", row(), row())
    two = write(tmp_path / "two.parquet", row("a b", more=1))
    other = write(tmp_path / "other.parquet", row(ability=3))
    table = check_files([str(one), str(two)], what="training data", validation=False)
    assert table.num_rows == 3 and table.column("prompt")[2].as_py()[0]["content"] == "a b"
    with pytest.raises(InputError, match=r"one\.parquet, .*other\.parquet: columns differ .*ability"):
        check_files([one, other], what="training data", validation=False)


def test_mixing_takes_a_share_and_keeps_the_true_tests():
    def table(kind, count, tests):
        rows = [
            {"kind": kind, "prompt": f"{kind}{i}", "reward_model": {"ground_truth": tests},
             "extra_info": {"index": i % 5, "split": "train"}}
            for i in range(count)
        ]  # fmt: skip
        return pa.Table.from_pylist(rows)

    tests = TestCases(["1"], ["2"]).to_json()
    honest, perturbed = table("h", 20, tests), table("p", 8, tests)
    for share, kinds in ((0.25, {"h": 15, "p": 5}), (0.5, {"h": 8, "p": 8}), (1.0, {"p": 8})):
        mixed = mix(honest, perturbed, share, 3, "f").to_pylist()
        found = [row["kind"] for row in mixed]
        assert {kind: found.count(kind) for kind in set(found)} == kinds
        assert len({row["prompt"] for row in mixed}) == len(mixed)
    assert mix(honest, perturbed, 0.5, 3, "f").equals(mix(honest, perturbed, 0.5, 3, "f"))
    assert not mix(honest, perturbed, 0.5, 4, "f").equals(mix(honest, perturbed, 0.5, 3, "f"))
    swapped = table("p", 8, TestCases(["1"], ["3"]).to_json())
    for bent, share, said in (
        (swapped, 0.5, "row 0: .*true tests"), (perturbed, 0.0, "share must be in"),
        (perturbed, 1.5, "share must be in"), (perturbed.slice(0, 1), 0.001, "too few"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            mix(honest, bent, share, 3, "f")


@cache
def tiny():
    return OmegaConf.to_yaml(compose("multi_turn", "cpu", "tiny", {}))


@pytest.mark.parametrize("long", ["honest", "perturbed"])
def test_shares_of_perturbed_contexts_are_of_the_rows_that_fit(tmp_path, long):
    """Rows that are too long leave before the mix, whose shares would shift otherwise."""

    def contexts(name):
        short = [row(data_source=name, extra_info={"split": "train", "index": i}) for i in range(8)]
        more = [row("a b c d e f g h i j", data_source=name)] * (24 if name == long else 0)
        return str(write(tmp_path / f"{name}.parquet", *more, *short))

    config, test = OmegaConf.create(tiny()), row(extra_info={"split": "test", "index": 0})
    config.data.train_files, config.cobalt.ptb.file = contexts("honest"), contexts("perturbed")
    config.data.val_files = str(write(tmp_path / "v.parquet", test))
    config.data.seed, config.data.max_prompt_length, config.cobalt.ptb.share = 3, 9, 0.5
    config.trainer.default_local_dir = str(tmp_path / "out" / "checkpoints")
    notes = []
    found = _rows(config, Words(), notes)["train_files"]
    sources = list(pd.read_parquet(found.path)["data_source"])
    assert (sources.count("honest"), sources.count("perturbed"), found.overlong) == (4, 4, 24)
    assert notes == ["contexts: 4 honest and 4 perturbed (share 0.5)"]


def plan(steps=None, rows=100, done=0, **changes):
    config = OmegaConf.create(tiny())
    for key, value in changes.items():
        OmegaConf.update(config, key, value)
    check = DataCheck("train.parquet", rows, 3, 50.0, 90, "")
    return make_plan(config, check, check, steps, done)


def test_the_plan_adds_up():
    made = plan(steps=60, done=20)
    assert (made.samples, made.optimizer_steps, made.first_step) == (60 * 16 * 8, 2, 21)
    assert made.epochs == 10.0 and made.prompt_tokens == 60 * 128 * 50
    assert made.response_tokens_at_most == 60 * 128 * 64
    assert plan().steps == 12  # two epochs of six batches
    assert "steps 21 to 60 are left" in made.lines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actor_rollout_ref.actor.ppo_mini_batch_size": 5}, "is not a multiple of actor.ppo_mini"),
        ({"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 24}, "micro_batch_size_per_gpu=24"),
        ({"actor_rollout_ref.rollout.n": 1}, "at least 2 completions"),
        ({"trainer.n_gpus_per_node": 3}, "devices=3"),
        ({"actor_rollout_ref.rollout.tensor_model_parallel_size": 2}, "tensor_model_parallel_size=2"),
        ({"rows": 15}, "15 rows that fit are less than"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        plan(**arguments)


def test_passes_over_log_probabilities_are_equal():
    found = [_divisor(number, bound) for number, bound in ((64, 32), (16, 32), (24, 16), (7, 4), (0, 8))]
    assert found == [32, 16, 12, 1, 1]


def test_wrong_inputs_start_nothing(tmp_path):
    good = write(tmp_path / "train.parquet", row())
    val = write(tmp_path / "test.parquet", row(extra_info={"split": "test", "index": 0}))
    model = Path(__file__).parents[2] / "models" / "tiny-reference"
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    given = {"train_file": good, "val_file": val, "model": model, "output": tmp_path / "out"}
    for wrong, said in (
        ({"model": tmp_path / "empty"}, r"no config\.json there"),
        ({"model": "nowhere"}, "--model nowhere: no such folder"),
        ({"val_file": good}, "validation data .* in a file for validation"),
        ({"reward_profile": "kind"}, "reward profile 'kind' is unknown"),
        ({"output": tmp_path / "file"}, r"--output .*file.*: cannot be written"),
    ):
        with pytest.raises(InputError, match=said):
            train(**given | wrong)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fault", "starts"),
    [
        ("RayTaskError(DistNetworkError): ...\ntorch.distributed.DistNetworkError: The server socket has "
         "failed to listen on any local network address. port: 36947, code: -98, name: EADDRINUSE", 3),
        ("RuntimeError: not enough memory", 1),
    ],
)  # fmt: skip
def test_a_training_whose_port_was_taken_is_started_again(tmp_path, monkeypatch, fault, starts):
    """The process of the training is replaced by one that fails as verl does when it loses the race."""
    folders, said = [], []

    def failing(arguments, env, log, tick):
        folders.append(Path(env[leftovers.MARK]))
        (folders[-1] / worker.FAILURE).write_text(json.dumps({"kind": "fault", "message": fault}))
        return 1

    monkeypatch.setattr(launch, "run_worker", failing)
    files = {
        f"{name}_file": write(tmp_path / f"{split}.parquet", row(extra_info={"split": split, "index": 0}))
        for name, split in (("train", "train"), ("val", "test"))
    }
    with pytest.raises(InfraError, match=re.escape(fault.splitlines()[-1])):
        train(**files, model="models/tiny-reference", output=tmp_path / "out", say=said.append)
    assert len(folders) == len(set(folders)) == starts  # each with a folder of its own
    assert len(result.launch_folders(tmp_path / "out")) == starts
    assert sum("36947" in line and "starting again" in line for line in said) == starts - 1
