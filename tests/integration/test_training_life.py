"""One training that lives through an evaluator's death, SIGTERM and its own; and the online recipes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from serve_session import free_port
from training_assets import PASS_RATES, TESTS, make_model, rows, write

from cobalt.text import extract_code
from cobalt.training import checkpoint, result
from cobalt.training.launch import train

pytestmark = [pytest.mark.slow, pytest.mark.full]
STEPS = 9


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("life")
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    made = {}
    for split, count in (("train", 20), ("test", 4)):
        made[split] = write(
            folder / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, count)]
        )
    made["model"] = make_model(folder / "model")
    return made


def evaluator(port):
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("evaluator_process.py"), str(port)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process):
    """kill -9, its sandbox workers included."""
    for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    process.wait()


def launch(assets, output, port):
    flags = {
        "train_file": assets["train"], "val_file": assets["test"], "model": assets["model"], "output": output,
        "profile": "cpu", "steps": STEPS, "seed": 3, "evaluator": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    overrides = {
        "data.max_prompt_length": 32, "data.max_response_length": 3, "trainer.save_freq": 3,
        "trainer.test_freq": 3, "trainer.rollout_data_dir": output / "dumps",
    }  # fmt: skip
    command = [sys.executable, "-m", "cobalt", "train"]
    command += [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    command += [f"{name}={value}" for name, value in overrides.items()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def steps(output):
    files = [folder / result.METRICS for folder in result.launch_folders(output)]
    return [
        step["step"] for step in result.read_metrics(path for path in files if path.exists()) if step["step"]
    ]


def until(condition, process, seconds=180.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def life(assets, tmp_path_factory):
    output, port = tmp_path_factory.mktemp("run") / "out", free_port()
    judge = evaluator(port)
    try:
        first = launch(assets, output, port)
        until(lambda: len(steps(output)) >= 1, first)
        kill(judge)
        time.sleep(4)
        before = len(steps(output))
        time.sleep(1)
        assert len(steps(output)) == before < STEPS  # it waits
        judge = evaluator(port)
        until(lambda: len(steps(output)) > before, first)
        first.send_signal(signal.SIGTERM)
        said = first.communicate(timeout=120)[0]
        stopped = checkpoint.checkpoint_step(output / "checkpoints")

        second = launch(assets, output, port)
        until(lambda: steps(output)[-1] > stopped, second)
        (entry,) = (
            p for p in psutil.Process(second.pid).children() if "cobalt.training.worker" in p.cmdline()
        )
        os.kill(entry.pid, signal.SIGKILL)
        killed = second.communicate(timeout=120)[0]

        third = launch(assets, output, port)
        ended = third.communicate(timeout=300)[0]
    finally:
        kill(judge)
    return {
        "output": output, "said": said, "codes": (first.returncode, second.returncode, third.returncode),
        "stopped": stopped, "killed": killed, "ended": ended,
    }  # fmt: skip


def test_sigterm_saves_and_ends_cleanly(life):
    assert life["codes"][0] == 0 and f"stopped after step {life['stopped']} of {STEPS}" in life["said"]
    assert 1 < life["stopped"] < STEPS


def test_a_killed_trainer_is_an_error_and_the_next_launch_goes_on(life):
    assert life["codes"][1:] == (1, 0) and "signal 9" in life["killed"]
    written = json.loads((life["output"] / "result.json").read_text())
    assert (
        written["steps"] == STEPS
        and not written["stopped"]
        and len(result.launch_folders(life["output"])) == 3
    )
    assert steps(life["output"]) == list(range(1, STEPS + 1))
    assert not (life["output"] / checkpoint.STOP_REQUEST).exists()  # the first launch's was taken back


def test_an_evaluator_that_was_away_costs_time_and_no_sample(life):
    files = [folder / result.METRICS for folder in result.launch_folders(life["output"])]
    metrics = [m for m in result.read_metrics(files) if m["step"] and "reward/masked" in m]
    assert (
        sum(m["reward/masked"] for m in metrics) == 0 and sum(m["reward/infra_errors"] for m in metrics) > 0
    )
    dumps = sorted((life["output"] / "dumps").glob("*.jsonl"))
    assert len(dumps) == STEPS
    for path in dumps:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        judged = [row for row in rows if not row["uid"].startswith("pad")]
        assert judged
        for row in judged:
            code = extract_code(row["output"])
            rate = PASS_RATES[code] if code else None
            expected = {None: (-1.0,), 1.0: (1.0,), 0.25: (0.0, -0.1), 0.0: (-0.1, -0.2)}[rate]
            assert min(abs(row["score"] - each) for each in expected) < 1e-6


def test_the_best_validated_model_is_kept(life):
    best = json.loads((life["output"] / "best" / "best.json").read_text())
    assert best["step"] % 3 == 0 and 0.0 <= best["score"] <= 1.0
    assert (life["output"] / "best" / "model.safetensors").is_file()
    assert "trained by `cobalt`" in (life["output"] / "model" / "README.md").read_text()
    assert any((life["output"] / "tensorboard").iterdir())


def test_another_recipe_or_model_does_not_go_on_from_there(life, assets, tmp_path):
    from cobalt.errors import InputError

    given = {"train_file": assets["train"], "val_file": assets["test"], "output": life["output"], "steps": 20}
    small = ("data.max_prompt_length=32", "data.max_response_length=3")
    with pytest.raises(InputError, match="made by recipe cobalt, not single_turn_grpo"):
        train(**given, model=assets["model"], recipe="single_turn_grpo", overrides=small, dry_run=True)
    with pytest.raises(InputError, match="--resume never"):
        train(**given, model=assets["model"], resume="never", overrides=small, dry_run=True)
    reference = Path(__file__).parents[2] / "models" / "tiny-reference"
    with pytest.raises(InputError, match="checkpoint of another model"):
        train(**given, model=reference, overrides=small, dry_run=True)


@pytest.mark.parametrize("recipe", ["mt_grpo", "verpo"])
def test_online_dialogues_train(assets, tmp_path, recipe):
    overrides = (
        "data.max_prompt_length=32", "data.max_response_length=300", "cobalt.dialogue.max_turn_tokens=3",
        "cobalt.dialogue.turns=2",
    )  # fmt: skip
    files = {"train_file": assets["train"], "val_file": assets["test"], "model": assets["model"]}
    done = train(
        **files, output=tmp_path / "out", recipe=recipe, steps=1, overrides=overrides, say=lambda _: None
    )
    (metrics,) = done.metrics
    assert metrics["reward/turns"] == pytest.approx(2.0) and metrics["actor/grad_norm"] > 0
    assert metrics["training/rollout_probs_diff_max"] < 1e-4  # the mask's tokens are the sampled ones


def test_a_resumed_training_learns_what_an_uninterrupted_one_does(assets, tmp_path):
    from safetensors.torch import load_file

    files = {"train_file": assets["train"], "val_file": assets["test"], "model": assets["model"]}
    small = (
        "data.max_prompt_length=32", "data.max_response_length=3", "data.train_batch_size=8",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    )  # fmt: skip

    def weights(name, *lengths):
        for steps in lengths:
            done = train(
                **files, output=tmp_path / name, steps=steps, seed=3, overrides=small, say=lambda _: None
            )
        return load_file(done.model / "model.safetensors")

    # two steps an epoch: stopped at the end of one, and within the next
    whole, parts = weights("whole", 5), weights("parts", 2, 3, 5)
    assert whole.keys() == parts.keys() and all(whole[name].equal(parts[name]) for name in whole)
    before = load_file(assets["model"] / "model.safetensors")
    assert any(not whole[name].equal(before[name]) for name in whole.keys() & before.keys())
