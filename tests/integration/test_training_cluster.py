"""A training in a Ray cluster begun by `ray start`: whom it waits for, whom it refuses, how it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from serve_session import Cluster, end
from training_assets import make_model, rows, write

from cobalt.training import checkpoint, result
from cobalt.training.config import composed

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("cluster_training.py")


@pytest.fixture(scope="module")
def ray_cluster():
    folder = Path(tempfile.mkdtemp(prefix="r"))  # socket paths must be short
    made = Cluster(folder, None)
    made.env |= {"RAY_AUTH_MODE": "disabled", "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    try:
        made.start(
            f"ray start --head --block --port={made.port} --num-cpus=8 --num-gpus=1 --disable-usage-stats "
            "--include-dashboard=false --node-ip-address=127.0.0.1 --object-store-memory=200000000",
            "Ray runtime started", folder,
        )  # fmt: skip
        yield made
    finally:
        end(made.started)
        shutil.rmtree(folder, ignore_errors=True)


def begin(made, what, config, **env):
    """One of the programs; its report of what went wrong lies in the folder COBALT_RUN_DIR."""
    run = Path(tempfile.mkdtemp(prefix="run", dir=made.folder))
    env = (
        made.env
        | {"COBALT_RUN_DIR": str(run), "VERL_FILE_LOGGER_PATH": f"{config.parent}/metrics.jsonl"}
        | env
    )
    with (run / "log").open("wb") as sink:
        command = [sys.executable, PROGRAM, what, str(config)]
        process = subprocess.Popen(command, env=env, stdout=sink, stderr=subprocess.STDOUT)
    process.folder = run
    return process


def failure(process, seconds=120):
    process.wait(seconds)
    told = json.loads((process.folder / "failure.json").read_text())
    return told["kind"], told["message"]


def until(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, (process.folder / "log").read_text()
        assert time.monotonic() < deadline, (process.folder / "log").read_text()
        time.sleep(0.05)


def plain_config(output, **trainer):
    path = output / "launches" / "001" / "config.yaml"
    path.parent.mkdir(parents=True)
    settings = {"device": "cuda", "default_local_dir": str(output / "checkpoints"), **trainer}
    OmegaConf.save(OmegaConf.create({"trainer": settings, "cobalt": {"method": "verl"}}), path)
    return path


def test_a_running_training_is_refused_and_an_ending_one_waited_for(ray_cluster, tmp_path):
    ours, other = plain_config(tmp_path / "ours"), plain_config(tmp_path / "other")
    output, address = ours.parents[2], f"127.0.0.1:{ray_cluster.port}"
    old = begin(ray_cluster, "standin", ours, RAY_ADDRESS=address)
    until(lambda: (output / "runner").exists(), old)
    runner = int((output / "runner").read_text())

    named = begin(ray_cluster, "launch", other, RAY_ADDRESS=address)
    begun = begin(ray_cluster, "launch", other)  # found by what `ray start` notes
    alone = begin(ray_cluster, "launch", other, RAY_ADDRESS="local")
    for launched in (named, begun):
        kind, said = failure(launched)
        assert kind == "input" and "\n" not in said and "another training is running" in said
        assert f"{ours}; process {old.pid} on " in said and "RAY_ADDRESS=local" in said
    assert failure(alone) == ("input", "goes on from 0")

    new = begin(ray_cluster, "launch", ours, RAY_ADDRESS=address)
    until(lambda: "waiting for the end of" in (new.folder / "log").read_text(), new)
    old.kill()
    old.wait()
    (output / "killed").touch()
    assert failure(new) == ("input", "goes on from 8")
    assert not Path(f"/proc/{runner}").exists()


@pytest.mark.full
def test_the_runner_of_a_cluster_trains_and_says_what_failed(ray_cluster, tmp_path):
    names = ("VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")
    env = dict(zip(names, ("cpu", "cobalt.training.cpu.platform", "0"), strict=True))
    files = tuple(write(tmp_path / f"{split}.parquet", rows(split, 20)) for split in ("train", "test"))
    config = composed(
        tmp_path / "out", (*files, None), make_model(tmp_path / "model"), ("cobalt", "cpu", "tiny"),
        {"trainer.total_training_steps": 4, "cobalt.evaluator": "local"}, 0, "auto",
        [
            "data.max_prompt_length=32", "data.max_response_length=3", "trainer.save_freq=1",
            "trainer.test_freq=-1", "trainer.val_before_train=false", "trainer.logger=[file]",
            "cobalt.plugins=[cluster_training]", "algorithm.adv_estimator=fails_at_two",
            *(f"+cobalt.env.{name}='{value}'" for name, value in env.items()),
        ],
    )  # fmt: skip
    path = tmp_path / "config.yaml"
    OmegaConf.save(config, path)
    training = begin(ray_cluster, "train", path, RAY_ADDRESS=f"127.0.0.1:{ray_cluster.port}", **env)
    kind, said = failure(training, 300)
    assert kind == "fault" and said.startswith("the second step fails in "), said
    assert int(said.split()[-1]) not in (training.pid, os.getpid())
    (step,) = result.read_metrics([tmp_path / "metrics.jsonl"])
    assert step["step"] == 1 and step["actor/grad_norm"] > 0
    assert checkpoint.checkpoint_step(tmp_path / "out" / "checkpoints") == 1
    made = json.loads((tmp_path / "out/checkpoints/global_step_1" / checkpoint.MADE_BY).read_text())
    assert (made["devices"], made["strategy"]) == (1, "fsdp2") and len(made["data_sha256"]) == 64
