"""Real trainings by verl on CPU: two steps, a stop on missing verdicts, a resume; many checks on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from training_assets import PASS_RATES, TESTS, faulty_evaluator, make_model, rows, write
from transformers import AutoModelForCausalLM, AutoTokenizer

from cobalt.errors import InputError
from cobalt.rewards.cobalt import PLAIN, shaped_reward
from cobalt.text import extract_code
from cobalt.training.attention import FLASH, missing
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
        self.seen: list[tuple[str, int, int | None]] = []

    def advance(self, label: str, done: int, total: int | None, **_: Any) -> None:
        self.seen.append((label, done, total))


@dataclass
class Runs:
    """What the trainings left: two steps, then the third."""

    arguments: dict[str, Any]
    first: TrainResult
    progress: Steps
    said: list[str]
    resumed: TrainResult

    def dumped(self, step: int) -> list[dict[str, Any]]:
        lines = (self.first.output.parent / "dumps" / f"{step}.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if not row["uid"].startswith("pad")]


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    (folder / "data").mkdir()
    long = rows("train", 1)[0] | {"prompt": [{"role": "user", "content": "word" * 40}]}
    return {
        "train_file": write(folder / "data" / "train.parquet", [*rows("train", 20), long]),
        "val_file": write(folder / "data" / "test.parquet", rows("test", 4)),
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
        resumed = train(**shared, steps=3, overrides=overrides)
    return Runs(arguments, first, progress, said, resumed)


def test_every_step_was_made_and_reported(runs):
    first = runs.first
    assert (first.steps, first.samples, first.plan["contexts"], first.plan["overlong"]) == (2, 256, 20, 1)
    assert [step["step"] for step in first.metrics] == [1, 2]
    assert runs.progress.seen == [("toy", 1, 2), ("toy", 2, 2)]
    assert any("1 overlong left out" in line for line in runs.said)
    assert any("policy's tokenizer" in note for note in first.notes)
    assert 0 < first.first_step_s < first.wall_s
    kept = [json.loads(line) for line in (first.output / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in kept] == [1, 2, 3]


@pytest.mark.parametrize("step", [1, 2])
def test_rewards_are_the_shaped_ones_of_the_evaluators_verdicts(runs, step):
    metrics, sample, rates, shaped = runs.first.metrics[step - 1], runs.dumped(step), [], []
    for row in sample:
        code = extract_code(row["output"])
        rates.append(PASS_RATES[code] if code else 0.0)
        given = {"prev_best_pass_rate": 0.25 if "word" in row["input"] else 0.0, "profile": PLAIN}
        shaped.append(shaped_reward(row["output"], rates[-1], count_tokens=len, **given).total)
        assert row["score"] == pytest.approx(shaped[-1], abs=1e-6)
        assert json.loads(row["gts"]) == TESTS
    assert len(set(shaped)) >= 4  # right, partly right, wrong, no code
    for name, values in (("pass_rate", rates), ("acc", [rate == 1.0 for rate in rates]), ("shaped", shaped)):
        assert metrics[f"reward/{name}"] == pytest.approx(sum(values) / len(values))
    no_code = sum(extract_code(row["output"]) is None for row in sample)
    assert metrics["reward/no_code"] == pytest.approx(no_code / len(sample))
    # samples without a verdict are masked and counted
    assert not any("'broken evaluator'" in (extract_code(row["output"]) or "") for row in sample)
    assert metrics["reward/masked"] == 128 - len(sample) > 0
    # rollout and trainer agree
    assert metrics["training/rollout_probs_diff_max"] < 1e-4 and metrics["actor/grad_norm"] > 0


def test_a_retried_sample_is_not_masked(runs):
    assert runs.first.masked == sum(step["reward/masked"] for step in runs.first.metrics)
    # each masked one counts two faults, the healed one another
    assert sum(step["reward/infra_errors"] for step in runs.first.metrics) == 2 * runs.first.masked + 1


def test_checkpoint_and_export(runs):
    assert (runs.first.checkpoint / "actor" / "optim_world_size_1_rank_0.pt").is_file()
    before = AutoModelForCausalLM.from_pretrained(runs.arguments["model"])
    after = AutoModelForCausalLM.from_pretrained(runs.resumed.model)
    assert all(parameter.dtype == torch.float32 for parameter in after.parameters())
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    assert 1e-5 < max((one - other).abs().max().item() for one, other in pairs) < 0.1
    tokenizer, chat = (
        AutoTokenizer.from_pretrained(runs.resumed.model),
        [{"role": "user", "content": "Task 1"}],
    )
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\nTask 1<|im_end|><|im_start|>assistant\n"


def test_resume_goes_on_and_keeps_earlier_metrics(runs):
    assert runs.resumed.plan["first_step"] == 3 and runs.resumed.steps == 3
    assert runs.resumed.metrics[:2] == runs.first.metrics
    assert [step["step"] for step in runs.resumed.metrics] == [1, 2, 3]
    assert runs.resumed.checkpoint.name == "global_step_3"
    assert runs.resumed.metrics[2]["actor/lr"] == pytest.approx(4e-4 * 3 / 5)  # warm-up went on
    assert runs.dumped(3) != runs.dumped(1)  # data order and random streams went on too


def test_nothing_is_left_behind(runs):
    owners = [path.read_text() for path in Path(tempfile.gettempdir()).glob("cobalt-*/launcher")]
    assert str(os.getpid()) not in owners
    mine = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(runs.arguments["output"]).encode() in environment:
            mine.append(entry.name)
    assert mine == []


def test_the_published_script_starts_without_arguments(arguments):
    """On CPU, where the default model is too large, with the default file and an override with a list."""
    folder = arguments["output"].parent
    script = ["bash", Path(__file__).parents[2] / "scripts" / "train_grpo_multi_turn.sh", "--dry_run", *SMALL]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where there is no .venv
    told = subprocess.run(
        [*script, "data.val_files=[data/test.parquet,data/test.parquet]"], cwd=folder, text=True,
        env={**os.environ, "PROFILE": "cpu", "MODEL": str(arguments["model"]), "PATH": path},
        capture_output=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "20 contexts" in told.stdout and "8 validation rows" in told.stdout
    assert "everything is in place" in told.stdout and not any((folder / "outputs").rglob("launches"))


def test_a_dry_run_for_gpus_names_the_attention(arguments, tmp_path):
    said: list[str] = []
    few = ("cobalt.token_counter=policy", "data.train_batch_size=8", "trainer.n_gpus_per_node=1")
    asked = arguments | {"profile": "gpu", "output": tmp_path / "dry", "dry_run": True, "say": said.append}
    overrides = (*SMALL[:2], *few, "actor_rollout_ref.actor.ppo_mini_batch_size=8")
    result = train(**asked, scale="tiny", steps=2, overrides=overrides)
    assert result.plan["samples"] == 2 * 64 and result.metrics == []
    lacking = missing(FLASH)
    chosen = f"packed_sdpa ({lacking}" if lacking else FLASH
    assert any(f"attention: {chosen}" in line for line in said)
    assert any("not on this machine" in line for line in said) == (torch.cuda.device_count() < 1)
    assert not (tmp_path / "dry" / "checkpoints").exists()
    with pytest.raises(InputError, match=r"every one of the 21 prompts .* data.max_prompt_length=2"):
        train(**asked, scale="tiny", steps=2, overrides=(*overrides, "data.max_prompt_length=2"))
