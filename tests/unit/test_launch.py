"""The command line of the training scripts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.training import launch
from cobalt.training.outcome import TrainResult

ROOT = Path(__file__).resolve().parents[2]


def script(name, *arguments, **environment):
    return subprocess.run(
        [ROOT / "scripts" / f"train_{name}.sh", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["grpo_multi_turn", "grpo_single_turn", "verpo"])
def test_scripts_say_what_is_missing(name, tmp_path):
    told = script(name)
    assert told.returncode == 2 and "--train_file" in told.stderr
    missing = script(
        name, "--seed", "1", "trainer.save_freq=5",
        TRAIN_FILE=str(tmp_path / "none.parquet"), PROFILE="cpu", MODEL=str(tmp_path), OUTPUT="out",
    )  # fmt: skip
    assert missing.returncode == 2 and missing.stderr.startswith("error: --model")
    assert list(tmp_path.iterdir()) == []


def test_flags_and_overrides_may_be_mixed(monkeypatch, capsys):
    given = {}

    def train(**arguments):
        given.update(arguments)
        return TrainResult(output=Path("out"), plan={})

    monkeypatch.setattr(launch, "train", train)
    arguments = [
        "trainer.nnodes=2", "--train-file", "a", "--val_file", "b", "data.seed=3", "--model", "m",
        "-o", "out", "--steps", "7", "+data.extra=1", "--dry_run",
    ]  # fmt: skip
    assert launch.main(arguments) == 0
    assert given["overrides"] == ["trainer.nnodes=2", "data.seed=3", "+data.extra=1"]
    assert (given["steps"], given["train_file"], given["profile"]) == (7, "a", "gpu")
    assert "everything is in place" in capsys.readouterr().out


def test_stopped_and_finished_runs_both_end_with_0(monkeypatch, capsys):
    result = TrainResult(output=Path("out"), plan={"steps": 9}, steps=4, stopped=True)
    given = {}

    def train(**arguments):
        given.update(arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        assert arguments["stop"]()
        return result

    monkeypatch.setattr(launch, "train", train)
    before = signal.getsignal(signal.SIGTERM)
    arguments = ["--train_file", "a", "--model", "m", "-o", "out", "--recipe", "offline_rl", "--wandb"]
    assert launch.main(arguments) == 0
    assert "stopped after step 4 of 9; the same command goes on" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is before
    assert given["overrides"] == ["trainer.logger=[console,file,tensorboard,wandb]"]
    assert given["val_file"] is None and given["recipe"] == "offline_rl"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "ppo"], "'ppo' is unknown; there are: cobalt, cobalt_ptb"),
        (["--resume", "elsewhere"], "--resume elsewhere: not auto, never or a folder global_step_N"),
        (
            ["--recipe", "cobalt_ptb", "--val_file", "b"],
            "--ptb_file (contexts from perturbed tests) is required",
        ),
        (["--ptb_file", "c", "--val_file", "b"], "belongs to recipes like cobalt_ptb"),
        ([], "--val_file is missing, which recipe cobalt needs"),
        (["--recipe", "offline_rl"], "cannot be read as Parquet"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path, arguments, message, capsys):
    (tmp_path / "config.json").write_text("{}")
    given = [
        "--train_file",
        "none",
        "--model",
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
        "--profile",
        "cpu",
    ]
    try:
        launch.main([*given, *arguments])
        said = ""
    except InputError as error:
        said = str(error)
    except SystemExit:
        said = capsys.readouterr().err
    assert message in said and not (tmp_path / "out").exists()


def test_an_unknown_override_is_the_users_mistake(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"configuration: .*train_batch_sise"):
        launch.main([
            "--train_file", "a", "--val_file", "b", "--model", str(tmp_path), "-o", "out",
            "--profile", "cpu", "data.train_batch_sise=4",
        ])  # fmt: skip
