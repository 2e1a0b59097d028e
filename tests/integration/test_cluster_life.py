"""The cluster scripts as processes: a small training on nodes of this machine, and nothing left of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from serve_session import free_port
from training_assets import make_model, rows, write

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "cluster"
STANDIN = Path(__file__).with_name("slurm_standin.py")
pytestmark = [pytest.mark.slow, pytest.mark.full]


class Place:
    """A folder with data, model, Slurm's commands, and the environment of a user there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.out = folder, folder / "jobs", folder / "out"
        bin = folder / "bin"
        for each in (self.jobs, bin, folder / "t"):
            each.mkdir()
        for name in ("sbatch", "srun", "scontrol", "scancel"):
            (bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" {name} "$@"\n')
            (bin / name).chmod(0o755)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "PATH": f"{bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLURM_STANDIN": str(self.jobs), "RAY_TMPDIR": str(folder), "TMPDIR": str(folder / "t"),
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"), "RAY_worker_niceness": "0", "PROFILE": "cpu",
            "MODEL": str(make_model(folder / "model")), "OUTPUT": str(self.out), "EVALUATOR_CPUS": "1",
            "TRAIN_FILE": str(write(folder / "train.parquet", rows("train", 40))),
            "RAY_PORT": str(free_port()), "SERVE_PORT": str(free_port()), "CPUS": "4", "GPUS": "1",
        }  # fmt: skip
        write(folder / "test.parquet", rows("test", 4))

    def run(self, *command, **environment):
        return subprocess.run(
            command, cwd=ROOT, env=self.env | environment, capture_output=True, text=True, check=True
        ).stdout

    def start(self, name, *command, **environment):
        log = (self.folder / f"{name}.log").open("wb")
        return subprocess.Popen(
            command, cwd=ROOT, env=self.env | environment, stdout=log, stderr=log, start_new_session=True
        )

    def text(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def steps(self):
        return sum(path.read_text().count("\n") for path in self.out.glob("launches/*/metrics.jsonl"))

    def state(self, job="1"):
        return (self.jobs / job / "state").read_text()

    def left(self):
        """Command lines of processes that know of this folder."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and str(self.folder) in str(process.environ()):
                    found.append(" ".join(process.cmdline())[:200])
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def listening(self):
        """Of the ports of head and Serve, those that still answer."""
        taken = {each.laddr.port for each in psutil.net_connections("tcp") if each.status == "LISTEN"}
        return taken & {int(self.env["RAY_PORT"]), int(self.env["SERVE_PORT"])}


def until(condition, what, seconds=240.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


@pytest.fixture
def place():
    folder = Path(tempfile.mkdtemp(prefix="k"))  # socket paths must be short
    made = Place(folder)
    shared = set(Path("/dev/shm").iterdir())
    try:
        yield made
        until(lambda: not made.left(), made.left, 30)
        assert not made.listening()
        assert not {path for path in set(Path("/dev/shm").iterdir()) - shared if "cobalt" in path.name}
    finally:
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and str(folder) in str(process.environ()):
                    process.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        shutil.rmtree(folder, ignore_errors=True)


def test_a_slurm_job_is_asked_to_stop_twice_and_ends_all_the_same(place):
    place.run(
        "sbatch", "--nodes=3", "--gpus-per-node=1", "--time=30", f"--output={place.folder}/job.log",
        "scripts/cluster/slurm.sbatch", "cobalt", "--steps", "6", "trainer.save_freq=100",
    )  # fmt: skip
    log = lambda: f"{place.state()}\n{place.text('job')}"  # noqa: E731
    until(lambda: "Ray runtime started" in place.text("job"), log)
    place.run("scancel", "--batch", "--signal=TERM", "1")  # while the cluster starts
    until(lambda: "stopped before the training began: requeueing job 1" in place.text("job"), log)
    until(lambda: place.steps() >= 2, log)
    place.run("scancel", "--batch", "--signal=TERM", "1")  # while it trains
    until(lambda: "with a checkpoint: requeueing job 1" in place.text("job"), log)
    stopped = json.loads((place.out / "result.json").read_text())
    assert stopped["stopped"] and 2 <= stopped["steps"] < 6
    until(lambda: place.state() not in ("RUNNING", "REQUEUED"), log)
    assert place.state() == "COMPLETED", log()
    ended = json.loads((place.out / "result.json").read_text())
    assert ended["steps"] == 6 and not ended["stopped"] and ended["masked"] == 0
    assert ended["plan"]["first_step"] == stopped["steps"] + 1
    assert (place.jobs / "1" / "left").read_text() == ""


def test_a_slurm_job_at_its_limit_saves_and_a_cancelled_one_leaves_nothing(place):
    place.run(
        "sbatch", "--nodes=1", "--gpus-per-node=1", "--time=0:6:0", "--signal=B:TERM@210",
        f"--output={place.folder}/job.log", "scripts/cluster/slurm.sbatch", "cobalt", "--steps", "1000",
        "trainer.save_freq=1000",
    )  # fmt: skip
    log = lambda: f"{place.state()}\n{place.text('job')}"  # noqa: E731
    until(lambda: "with a checkpoint: requeueing job 1" in place.text("job"), log, 400)
    assert json.loads((place.out / "result.json").read_text())["stopped"]
    until(lambda: len(list(place.out.glob("launches/*/metrics.jsonl"))) == 2, log)
    place.run("scancel", "1")
    until(lambda: place.state() == "CANCELLED", log)


def test_a_killed_shell_takes_one_node_with_it(place):
    shell = place.start("one", "scripts/cluster/one_node.sh", "cobalt", "--steps", "1000")
    until(lambda: place.steps() >= 2, lambda: place.text("one"))
    shell.send_signal(signal.SIGKILL)
    shell.wait()
    until(lambda: not place.left(), place.left, 60)
    shell = place.start("again", "scripts/cluster/one_node.sh", "cobalt", "--steps", str(place.steps() + 1))
    until(lambda: shell.poll() is not None, lambda: place.text("again"))
    assert shell.returncode == 0, place.text("again")


def test_a_training_is_handed_to_a_cluster_of_two(place):
    dashboard = str(free_port())
    head = place.start(
        "head", "scripts/cluster/head.sh", NODES="2", DASHBOARD="true", DASHBOARD_PORT=dashboard
    )
    until(lambda: "waiting for 2 node" in place.text("head"), lambda: place.text("head"))
    address = place.text("head").partition("head at ")[2].partition(";")[0]
    join = place.start("join", "scripts/cluster/join.sh", HEAD=address)
    until(lambda: "\nready: RAY_ADDRESS=" in place.text("head"), lambda: place.text("head"))
    told = subprocess.run(
        ["scripts/cluster/submit.sh", "cobalt", "--steps", "2"], cwd=ROOT, text=True, capture_output=True,
        env=place.env | {
            "RAY_DASHBOARD": f"http://127.0.0.1:{dashboard}", "WANDB_API_KEY": "secret-4711",
            "WANDB_DIR": str(place.folder / "seen-by-the-job"),
        },
    )  # fmt: skip
    assert (
        told.returncode == 0 and "not sent, because Ray writes them to its logs: WANDB_API_KEY" in told.stderr
    )
    until(place.out.exists, lambda: told.stdout)
    entries = [each for each in psutil.process_iter(["cmdline"]) if "cobalt" in (each.info["cmdline"] or [])]
    mine = [each.environ() for each in entries if str(place.folder) in str(each.environ())]
    assert mine and all(each["WANDB_DIR"].endswith("seen-by-the-job") for each in mine)
    assert all("WANDB_API_KEY" not in each for each in mine)
    until((place.out / "result.json").exists, lambda: place.text("head") + told.stdout)
    assert json.loads((place.out / "result.json").read_text())["steps"] == 2
    for process in (head, join):
        process.terminate()
        process.wait(30)
