"""The command line of the training scripts."""

from __future__ import annotations

import os
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


def test_an_unknown_override_is_the_users_mistake(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"configuration: .*train_batch_sise"):
        launch.main([
            "--train_file", "a", "--val_file", "b", "--model", str(tmp_path), "-o", "out",
            "--profile", "cpu", "data.train_batch_sise=4",
        ])  # fmt: skip
