"""Real trainings by verl on CPU: two steps, a stop on missing verdicts, a resume; many checks on each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from training_assets import PASS_RATES, TESTS, faulty_evaluator, make_model, rows, write

from cobalt.errors import InfraError, InputError
from cobalt.rewards.cobalt import PLAIN, shaped_reward
from cobalt.text import extract_code
from cobalt.training.launch import train
from cobalt.training.result import TrainResult

pytestmark = pytest.mark.slow
SMALL = (
    "data.max_prompt_length=32",
    "data.max_response_length=3",
    "cobalt.token_mean_over=2",
    # two mini-batches, and rollout and trainer compared: their log-probabilities must agree
    "algorithm.rollout_correction.bypass_mode=false",
)


class Steps:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int | None, dict[str, Any]]] = []

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        self.seen.append((label, done, total, fields))


@dataclass
class Runs:
    """What the trainings left: two steps, the stopped attempt to go on, the third step."""

    arguments: dict[str, Any]
    first: TrainResult
    progress: Steps
    said: list[str]
    dumps: Path
    stop: str
    resumed: TrainResult
    again: TrainResult


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    long = rows("train", 1)[0] | {"prompt": [{"role": "user", "content": "word" * 40}]}
    return {
        "train_file": write(folder / "train.parquet", [*rows("train", 20), long]),
        "val_file": write(folder / "test.parquet", rows("test", 4)),
        "model": make_model(folder / "model"),
        "output": folder / "out",
        "seed": 3,
    }


@pytest.fixture(scope="module")
def runs(arguments):
    dumps = arguments["output"].parent / "dumps"
    overrides = (*SMALL, f"trainer.rollout_data_dir={dumps}", "cobalt.max_masked_share=0.5")
    progress, said = Steps(), []
    with faulty_evaluator() as (url, faults):
        faults["evaluator broken once"] = 1
        shared = {**arguments, "evaluator": url, "say": said.append}
        first = train(**shared, steps=2, overrides=overrides, progress=progress, label="toy")
        with pytest.raises(InfraError) as stopped:
            train(**shared, steps=3, overrides=(*overrides, "cobalt.max_masked_share=0.0"))
        resumed = train(**shared, steps=3, overrides=overrides)
        again = train(**shared, steps=3, overrides=overrides)
    return Runs(arguments, first, progress, said, dumps, str(stopped.value), resumed, again)


def dumped(runs, step):
    lines = (runs.dumps / f"{step}.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if not row["uid"].startswith("pad")]


def test_every_step_was_made_and_reported(runs):
    assert (runs.first.steps, runs.first.samples) == (2, 256)
    assert [step["step"] for step in runs.first.metrics] == [1, 2]
    assert [seen[:3] for seen in runs.progress.seen] == [("toy", 1, 2), ("toy", 2, 2)]
    assert runs.first.plan["contexts"] == 20 and runs.first.plan["overlong"] == 1
    assert any("1 overlong left out" in line for line in runs.said)
    assert any("policy's tokenizer" in note for note in runs.first.notes)
    assert 0 < runs.first.first_step_s < runs.first.wall_s
    kept = [json.loads(line) for line in (runs.first.output / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in kept] == [1, 2, 3]


def test_rewards_are_the_shaped_ones_of_the_evaluators_verdicts(runs):
    for step in (1, 2):
        metrics, sample = runs.first.metrics[step - 1], dumped(runs, step)
        rates, shaped = [], []
        for row in sample:
            code = extract_code(row["output"])
            rates.append(PASS_RATES[code] if code else 0.0)
            best = 0.25 if "word" in row["input"] else 0.0
            expected = shaped_reward(
                row["output"], rates[-1], prev_best_pass_rate=best, count_tokens=len, profile=PLAIN
            )
            shaped.append(expected.total)
            assert row["score"] == pytest.approx(expected.total, abs=1e-6)
            assert json.loads(row["gts"]) == TESTS
        assert len(set(shaped)) >= 4  # right, partly right, wrong, no code
        assert metrics["reward/pass_rate"] == pytest.approx(sum(rates) / len(rates))
        assert metrics["reward/acc"] == pytest.approx(rates.count(1.0) / len(rates))
        assert metrics["reward/shaped"] == pytest.approx(sum(shaped) / len(shaped))
        no_code = sum(extract_code(row["output"]) is None for row in sample)
        assert metrics["reward/no_code"] == pytest.approx(no_code / len(sample))


def test_samples_without_a_verdict_are_masked_and_counted(runs):
    for step in (1, 2):
        sample = dumped(runs, step)
        assert not any("'broken evaluator'" in (extract_code(row["output"]) or "") for row in sample)
        assert runs.first.metrics[step - 1]["reward/masked"] == 128 - len(sample) > 0
    assert runs.first.masked == sum(step["reward/masked"] for step in runs.first.metrics)
    # a retried sample is not masked: each masked one counts two faults, the healed one another
    assert sum(step["reward/infra_errors"] for step in runs.first.metrics) == 2 * runs.first.masked + 1


def test_rollout_and_trainer_agree(runs):
    for step in runs.first.metrics:
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0


def test_too_many_masked_samples_stop_the_run(runs):
    assert "step 3" in runs.stop and "have no verdict" in runs.stop and "max_masked_share" in runs.stop


def test_checkpoint_and_export(runs):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert (runs.first.checkpoint / "actor" / "optim_world_size_1_rank_0.pt").is_file()
    before = AutoModelForCausalLM.from_pretrained(runs.arguments["model"])
    after = AutoModelForCausalLM.from_pretrained(runs.resumed.model)
    assert all(parameter.dtype == torch.float32 for parameter in after.parameters())
    changes = [
        (one - other).abs().max().item()
        for one, other in zip(before.parameters(), after.parameters(), strict=True)
    ]
    assert max(changes) > 1e-5 and max(changes) < 0.1
    tokenizer = AutoTokenizer.from_pretrained(runs.resumed.model)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Task 1"}], add_generation_prompt=True, tokenize=False
    )
    assert text == "<|im_start|>user\nTask 1<|im_end|><|im_start|>assistant\n"


def test_resume_goes_on_and_keeps_earlier_metrics(runs):
    assert runs.resumed.plan["first_step"] == 3 and runs.resumed.steps == 3
    assert runs.resumed.metrics[:2] == runs.first.metrics
    assert [step["step"] for step in runs.resumed.metrics] == [1, 2, 3]
    assert runs.resumed.checkpoint.name == "global_step_3"
    assert runs.resumed.metrics[2]["actor/lr"] == pytest.approx(4e-4 * 3 / 5)  # warm-up went on
    assert dumped(runs, 3) != dumped(runs, 1)  # data order and random streams went on too


def test_a_finished_training_is_not_repeated(runs):
    assert runs.again.metrics == runs.resumed.metrics
    assert runs.again.first_step_s is None and runs.again.model == runs.resumed.model


def test_nothing_is_left_behind(runs):
    owners = [path.read_text() for path in Path(tempfile.gettempdir()).glob("cobalt-*/launcher")]
    assert str(os.getpid()) not in owners
    mine = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(runs.arguments["output"]).encode() in environment:
            mine.append(entry.name)
    assert mine == []


def test_the_published_script_starts_without_arguments(arguments, tmp_path):
    """On CPU, where the default model is too large; then with another file, as an override with a list."""
    (tmp_path / "data").mkdir()
    for name in ("train", "test"):
        shutil.copy(arguments[f"{name.replace('test', 'val')}_file"], tmp_path / "data" / f"{name}.parquet")
    script = ["bash", Path(__file__).parents[2] / "scripts" / "train_grpo_multi_turn.sh", "--dry_run", *SMALL]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where there is no .venv
    environment = {**os.environ, "PROFILE": "cpu", "MODEL": str(arguments["model"]), "PATH": path}
    files = "data.train_files=[data/train.parquet,data/train.parquet]"
    for more, contexts in (([], 20), ([files, "data.val_files=data/test.parquet"], 40)):
        told = subprocess.run(
            [*script, *more], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        assert f"{contexts} contexts" in told.stdout and "everything is in place" in told.stdout
    assert not any((tmp_path / "outputs").rglob("launches"))


def test_dry_run_checks_and_stops(arguments, tmp_path):
    said: list[str] = []
    result = train(
        **arguments | {"output": tmp_path / "dry", "say": said.append}, steps=5, overrides=SMALL, dry_run=True
    )
    assert result.plan["steps"] == 5 and result.plan["samples"] == 5 * 128 and result.metrics == []
    assert any("5" in line and "16 contexts x 8" in line for line in said)
    assert not (tmp_path / "dry" / "checkpoints").exists()


def test_a_dry_run_for_gpus_names_the_attention(arguments, tmp_path):
    import torch

    from cobalt.training.attention import FLASH, missing

    said: list[str] = []
    few = ("cobalt.token_counter=policy", "data.train_batch_size=8", "trainer.n_gpus_per_node=1")
    asked = arguments | {"profile": "gpu", "output": tmp_path / "dry", "dry_run": True, "say": said.append}
    overrides = (*SMALL[:2], *few, "actor_rollout_ref.actor.ppo_mini_batch_size=8")
    train(**asked, scale="tiny", steps=2, overrides=overrides)
    lacking = missing(FLASH)
    chosen = f"packed_sdpa ({lacking}" if lacking else FLASH
    assert any(f"attention: {chosen}" in line for line in said)
    assert any("not on this machine" in line for line in said) == (torch.cuda.device_count() < 1)
    if lacking:
        wanted = "+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"
        with pytest.raises(InputError, match=r"attn_implementation=flash_attention_2: .*leave the setting"):
            train(**asked, scale="tiny", steps=2, overrides=(*overrides, wanted))


def test_prompts_that_are_all_too_long_are_one_message(arguments, tmp_path):
    with pytest.raises(InputError, match=r"every one of the 21 prompts .* data.max_prompt_length=2"):
        train(
            **arguments | {"output": tmp_path / "out"},
            steps=1,
            overrides=(*SMALL, "data.max_prompt_length=2"),
        )
