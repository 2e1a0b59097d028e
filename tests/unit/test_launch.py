"""The command line of the training scripts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.training import cli
from cobalt.training.result import TrainResult

ROOT = Path(__file__).resolve().parents[2]


def script(name, *arguments, cwd, **environment):
    return subprocess.run(
        ["bash", ROOT / "scripts" / f"train_{name}.sh", *arguments],
        cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("grpo_multi_turn", "verl_preproc_multi_turn.py --local_dir data"),
        ("grpo_single_turn", "verl_preproc_single_turn.py --local_dir data"),
        ("verpo", "verl_preproc_single_turn.py"),
        ("offline_rl", "cobalt stored_groups"),
    ],
)
def test_scripts_say_what_is_missing(name, maker, tmp_path):
    told = script(name, cwd=tmp_path)
    assert told.returncode == 2 and told.stderr.startswith("error: there is no data/train.parquet here")
    assert maker in told.stderr and "Traceback" not in told.stderr
    missing = script(
        name, "--seed", "1", "trainer.save_freq=5", cwd=tmp_path,
        TRAIN_FILE=str(tmp_path / "none.parquet"), PROFILE="cpu", MODEL=str(tmp_path), OUTPUT="out",
    )  # fmt: skip
    assert missing.returncode == 2 and missing.stderr.startswith("error: --model")
    assert list(tmp_path.iterdir()) == []


def test_help_of_a_script_tells_its_variables_and_the_flags(tmp_path):
    said = script("verpo", "--help", cwd=tmp_path).stdout
    assert re.search(r"(?s)MODEL .*TRAIN_FILE .*OUTPUT .*GPUS NODES.*usage: cobalt train.*--val_file", said)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Runs the command line in an empty folder and returns what would be trained."""
    given = {}

    def train(**arguments):
        given.update(arguments)
        return TrainResult(output=Path("out"), plan={})

    def run(*arguments):
        given.clear()
        assert cli.main([*arguments, "--dry_run"]) == 0
        return given

    monkeypatch.setattr(cli, "train", train)
    monkeypatch.chdir(tmp_path)
    return run


def test_the_published_files_are_the_defaults(asked, tmp_path):
    base = ["--model", "m", "-o", "out"]
    with pytest.raises(InputError, match=r"no data/train\.parquet here"):
        asked(*base)
    for folder in ("verl/data", "data", "mine"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.parquet").touch()
        (tmp_path / folder / "test.parquet").touch()
        found = asked(*base)
        place = "data" if folder == "mine" else folder
        assert [str(found[name]) for name in ("train_file", "val_file")] == [
            f"{place}/train.parquet", f"{place}/test.parquet",
        ]  # fmt: skip
    found = asked(*base, "--train_file", "mine/train.parquet")
    assert str(found["val_file"]) == "mine/test.parquet"
    found = asked(*base, "--train_file", "elsewhere/a.parquet", "--val_file", "b.parquet")
    assert (found["train_file"], found["val_file"]) == ("elsewhere/a.parquet", "b.parquet")
    assert asked(*base, "--train_file", "elsewhere/a.parquet")["val_file"] is None


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data.train_files=a.parquet"], {"train_file": "a.parquet"}),
        (["data.train_files=[a.parquet]", "data.val_files=['b c.parquet']"],
         {"train_file": "a.parquet", "val_file": "b c.parquet"}),
        (["data.train_files=[\"a.parquet\", b.parquet]"], {"train_file": ["a.parquet", "b.parquet"]}),
        (["++data.val_files=b.parquet"], {"val_file": "b.parquet"}),
        (["data.val_files=b.parquet", "data.val_files=c.parquet"], {"val_file": "c.parquet"}),
        (["actor_rollout_ref.model.path=Qwen/Qwen3-8B"], {"model": "Qwen/Qwen3-8B"}),
        (["trainer.default_local_dir=~/mine"], {"output": str(Path("~/mine").expanduser())}),
        (["trainer.default_local_dir=a b (c)"], {"output": "a b (c)"}),
    ],
)  # fmt: skip
def test_overrides_of_the_published_scripts_mean_our_flags(asked, overrides, expected):
    flags = ["--train_file", "x", "--val_file", "y", "--model", "m", "-o", "out"]
    plain = {"train_file": "x", "val_file": "y", "model": "m", "output": "out"}
    found = asked(*flags, "trainer.nnodes=1", *overrides)
    assert {name: found[name] for name in plain} == plain | expected
    assert found["overrides"] == ["trainer.nnodes=1"]


def test_flags_and_overrides_may_be_mixed_and_overrides_are_enough(asked):
    found = asked("data.train_files=a", "actor_rollout_ref.model.path=m", "trainer.default_local_dir=out")
    assert (found["train_file"], found["model"], found["output"], found["overrides"]) == ("a", "m", "out", [])
    found = asked(
        "trainer.nnodes=2", "--train-file", "a", "--val_file", "b", "data.seed=3", "--model", "m",
        "-o", "out", "--steps", "7", "+data.extra=1",
    )  # fmt: skip
    assert found["overrides"] == ["trainer.nnodes=2", "data.seed=3", "+data.extra=1"]
    assert (found["steps"], found["train_file"], found["profile"]) == (7, "a", "gpu")


def test_stopped_and_finished_runs_both_end_with_0(monkeypatch, capsys):
    result = TrainResult(output=Path("out"), plan={"steps": 9, "first_step": 1}, steps=4, stopped=True)
    given = {}

    def train(**arguments):
        given.update(arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        assert arguments["stop"]()
        return result

    monkeypatch.setattr(cli, "train", train)
    before = signal.getsignal(signal.SIGTERM)
    arguments = ["--train_file", "a", "--model", "m", "-o", "out", "--recipe", "offline_rl", "--wandb"]
    assert cli.main(arguments) == 0
    assert "stopped after step 4 of 9; the same command goes on" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is before
    assert given["overrides"] == ["trainer.logger=[console,file,tensorboard,wandb]"]
    assert given["val_file"] is None and given["recipe"] == "offline_rl"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "ppo"], "'ppo' is unknown; there are: cobalt, cobalt_ptb"),
        (["--resume", "elsewhere"], "--resume elsewhere: not auto, never or a folder global_step_N"),
        (["--recipe", "cobalt_ptb", "--val_file", "b"], "--ptb_file"),
        (["--ptb_file", "c", "--val_file", "b"], "belongs to recipes that mix them in"),
        ([], "--val_file is missing, which recipe cobalt needs"),
        (["--recipe", "offline_rl"], "cannot be read as Parquet"),
        (["--recipe", "offline_rl", "cobalt.reward=a:b"], "recipe offline_rl takes cobalt.offline.reward"),
        (["--evaluator", "serve", "--val_file", "b"], "the CPU profile trains in a Ray cluster of its own"),
        (["--val_file", "b", "data.train_batch_sise=4"], "train_batch_sise"),
        (["data.train_files=[a"], "configuration: "),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path, arguments, message, capsys):
    out = tmp_path / "out"
    given = [
        "--train_file",
        "none",
        "--model",
        str(ROOT / "models" / "tiny-reference"),
        "-o",
        str(out),
        "--profile",
        "cpu",
    ]
    with pytest.raises((InputError, SystemExit)) as error:
        cli.main([*given, *arguments])
    assert message in f"{error.value}{capsys.readouterr().err}" and not out.exists()
