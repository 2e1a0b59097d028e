"""What trainings leave: metrics over several launches, checkpoints, exports, private folders."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cobalt.errors import InfraError, InputError
from cobalt.training import checkpoint, leftovers, process, result
from cobalt.training.launch import _counted
from cobalt.training.result import TrainResult


def launch(output, *records, torn=""):
    folder = result.new_launch(output)
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in records]
    (folder / "metrics.jsonl").write_text("".join(lines) + torn)
    return folder


def test_metrics_of_all_launches_are_one_list(tmp_path):
    # killed in step 4 while writing, with a checkpoint of step 2: steps 3 and 4 are made again
    steps = [(step, {"loss": step / 10}) for step in (1, 2, 3)]
    first = launch(tmp_path, *steps, torn='{"step": 4, "da')
    second = launch(tmp_path, (3, {"loss": 0.33}), (4, {"loss": 0.4}))
    assert result.launch_folders(tmp_path) == [first, second]
    metrics = result.read_metrics(folder / "metrics.jsonl" for folder in (first, second))
    assert [(each["step"], each["loss"]) for each in metrics] == [(1, 0.1), (2, 0.2), (3, 0.33), (4, 0.4)]


def test_an_evaluator_that_others_use_is_counted_by_this_launch(tmp_path):
    counted = {"reward/tests": 10.0, "reward/infra_errors": 1.0}
    launch(tmp_path, (1, counted))
    folder = launch(tmp_path, (2, counted), (3, counted))
    done = TrainResult(tmp_path, {}, log=folder / "train.log", evaluator={"isolation": "landlock"})
    assert _counted(done) == {"tests": 20.0, "infra_errors": 2.0, "isolation": "landlock"}
    (folder / "metrics.jsonl").write_text('{"step": 1, "data": {"offline/loss": 1.0}}\n')
    assert _counted(done) == {"isolation": "landlock"}


def test_the_latest_checkpoint(tmp_path):
    assert checkpoint.checkpoint_step(tmp_path) == 0
    (tmp_path / checkpoint.LATEST).write_text("20")
    with pytest.raises(InputError, match="checkpoint of step 20 is gone"):
        checkpoint.checkpoint_step(tmp_path)
    (tmp_path / "global_step_20" / "actor").mkdir(parents=True)
    assert checkpoint.checkpoint_step(tmp_path) == 20
    (tmp_path / checkpoint.LATEST).write_text("twenty")
    with pytest.raises(InputError, match="expected a step number, found 'twenty'"):
        checkpoint.checkpoint_step(tmp_path)


def test_an_export_replaces_and_leaves_the_checkpoint_alone(tmp_path):
    source, target = tmp_path / "global_step_1" / "actor" / "huggingface", tmp_path / "model"
    source.mkdir(parents=True)
    target.mkdir()
    (target / "old").touch()
    for name, text, lacks in (
        ("config.json", '{"dtype": "bfloat16", "torch_dtype": "bfloat16"}', "no exported model"),
        ("model.safetensors", "weights", "no exported model"),
        ("tokenizer.json", "{}", "has no tokenizer"),
    ):
        with pytest.raises(InfraError, match=lacks):
            checkpoint.export_model(tmp_path / "global_step_1", target, fp32=True)
        (source / name).write_text(text)
    checkpoint.export_model(tmp_path / "global_step_1", target, fp32=True)
    assert {path.name for path in target.iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    assert json.loads((target / "config.json").read_text()) == {"dtype": "float32"}
    assert json.loads((source / "config.json").read_text())["dtype"] == "bfloat16"


def test_an_output_folder_has_one_training(tmp_path):
    busy = pytest.raises(InputError, match="another training is writing there")
    with process.output_lock(tmp_path), busy, process.output_lock(tmp_path, wait_s=0.3):
        pass
    with process.output_lock(tmp_path):
        pass


def test_the_folder_of_a_training_that_is_ending_is_waited_for(tmp_path, capsys):
    held = threading.Event()

    def old():
        with process.writer_lock(tmp_path):
            held.set()
            time.sleep(1)

    writer = threading.Thread(target=old)
    writer.start()
    held.wait()
    with (
        pytest.raises(InputError, match="another training is writing there"),
        process.output_lock(tmp_path, ".writer", wait_s=0.3),
    ):
        pass
    with process.writer_lock(tmp_path):
        assert "waiting for the training that still writes" in capsys.readouterr().out
    writer.join()


def sleeper(folder: Path) -> subprocess.Popen[bytes]:
    """A process that carries the mark of a run."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={leftovers.MARK: str(folder)}, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def test_private_folders_go_with_their_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with process.private_folder() as folder:
        assert folder.parent == tmp_path
        left = sleeper(folder)
        left.stdout.readline()
    assert left.wait(5) == -9 and list(tmp_path.iterdir()) == []

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    stale = tmp_path / "cobalt-stale"
    stale.mkdir()
    (stale / "launcher").write_text(str(dead.pid))
    orphan = sleeper(stale)
    orphan.stdout.readline()
    with process.private_folder() as folder, process.private_folder() as other:
        assert sorted(tmp_path.iterdir()) == sorted([folder, other])  # the killed launcher's is gone
    assert orphan.wait(5) == -9


LAUNCHER = """
import subprocess, sys, time
from cobalt.training import leftovers, process
child = "import socket, time; from multiprocessing.shared_memory import SharedMemory as S; " \
    "held = S(create=True, size=8); wire = socket.socket(socket.AF_UNIX); " \
    f"wire.bind('/tmp/rl-colocate-zmq-{sys.argv[1]}-0.sock'); print(held.name, flush=True); time.sleep(600)"
with process.private_folder() as folder:
    print(folder, flush=True)
    env = {leftovers.MARK: str(folder), "RAY_JOB_ID": sys.argv[1]}
    subprocess.Popen([sys.executable, "-c", child], env=env, start_new_session=True)
    time.sleep(600)
"""


def test_nothing_stays_when_the_launcher_is_killed(tmp_path):
    """Shared memory too, whose owner was killed, and verl's sockets, but for one that somebody else has."""
    job = f"test{os.getpid()}"
    ours = Path(f"/tmp/rl-colocate-zmq-{job}-0.sock")
    others = socket.socket(socket.AF_UNIX)
    others.bind(str(ours.with_name(f"rl-colocate-zmq-{job}-1.sock")))
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, job], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    folder, segment = (Path(launcher.stdout.readline().strip()) for _ in range(2))
    noted = folder / "outside"
    deadline = time.monotonic() + 60
    while not (noted.exists() and f"/dev/shm/{segment}" in noted.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert leftovers.marked(folder) and (Path("/dev/shm") / segment).exists() and ours.exists()
    launcher.kill()
    launcher.wait()
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert leftovers.marked(folder) == [] and not (Path("/dev/shm") / segment).exists()
    assert not ours.exists() and Path(others.getsockname()).exists()
    Path(others.getsockname()).unlink()
    others.close()


@pytest.mark.slow
def test_who_waits_for_a_dead_engine_is_ended(tmp_path):
    """The trainer's worker that does nothing more; one that still works is left alone until it waits too."""

    def start(title: str, works_s: float = 0) -> subprocess.Popen[bytes]:
        code = f"import time\nend = time.time() + {works_s}\nwhile time.time() < end: pass\ntime.sleep(600)"
        return subprocess.Popen(
            ["bash", "-c", 'exec -a "$0" "$@"', title, sys.executable, "-c", code],
            env={leftovers.MARK: str(folder), "PATH": os.environ["PATH"]},
        )

    (folder := tmp_path / "run").mkdir()
    leftovers.watch(folder, os.getpid())
    busy_s = 12
    engine, other = start("VLLM::Worker_TP0"), start("ray::RewardLoopWorker")
    waits, works = start("ray::WorkerDict.update"), start("ray::WorkerDict", busy_s)
    time.sleep(3)  # the watch has seen them
    engine.kill()
    engine.wait()
    killed = time.monotonic()
    assert waits.wait(15) == -9 and works.poll() is None
    assert (folder / leftovers.ENGINE).read_text() == f"VLLM::Worker_TP0 (process {engine.pid})"
    assert works.wait(30) == -9 and time.monotonic() - killed > busy_s - 4
    assert other.poll() is None
    other.kill()
    other.wait()
    leftovers.remove(folder)


def test_the_first_worker_of_a_node_starts_its_watch(tmp_path, monkeypatch):
    watched = []
    monkeypatch.setattr(leftovers, "watch", watched.append)
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", "")
    for name in ("run", "run", "not/here"):  # the last one cannot be made
        monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
        monkeypatch.setenv(leftovers.MARK, str(tmp_path / name))
        leftovers.on_node()
        assert os.environ.get("VLLM_RPC_BASE_PATH") == (str(tmp_path / "run") if name == "run" else None)
    assert watched == [tmp_path / "run"]


def test_the_training_ends_when_the_caller_is_interrupted(tmp_path):
    (tmp_path / "config.yaml").write_text("trainer: {device: cpu}")
    given = {
        "trainer": {"device": "cpu", "default_local_dir": str(tmp_path / "out" / "checkpoints")},
        "cobalt": {"threads": 1, "env": {}, "recipe_file": None},
    }
    env = process.environment(tmp_path, OmegaConf.create(given), tmp_path / "metrics.jsonl")

    def tick():  # first called while the process is still importing
        raise KeyboardInterrupt

    with (tmp_path / "log").open("wb") as log, pytest.raises(KeyboardInterrupt):
        process.run_worker([str(tmp_path / "config.yaml")], env, log, tick)
    assert leftovers.marked(tmp_path) == []
