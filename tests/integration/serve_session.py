"""A Ray session of the test process, and the evaluator as a Serve application in it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cobalt.cluster import allow_slow_start

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def end(processes: list[Any]) -> None:
    """Terminate processes, the youngest first; kill what has not ended a minute later."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def before_ray() -> None:
    """Ray's workers run at nice 15: beside the other half of the tests they would hardly run at all."""
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so)
    allow_slow_start()


@contextmanager
def ray_session() -> Iterator[Any]:
    """A Ray cluster of this process, of a node with two CPUs, in a folder of its own; nodes can be added."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster as Nodes

    before_ray()
    folder = tempfile.mkdtemp(prefix="r")  # socket paths must be short
    os.mkdir(f"{folder}/ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 2, "include_dashboard": False}
        nodes = Nodes(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
        try:
            ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def deploy(**settings: Any) -> Any:
    """A handle to the evaluator with these settings, in place of one that may be there."""
    from ray import serve

    from cobalt.evaluator.service import Settings
    from remote_reward_server import app

    return serve.run(app(Settings(**settings)), name="evaluator", route_prefix="/evaluator")


class Cluster:
    """A cluster begun by `ray start`, and what is started in it, each in a process of its own.

    `env` is a user's environment beside it: only the note that `ray start` leaves says where it is. What
    stays is started from `servers`, a folder of programs, if that is given: the cluster's processes are its.
    """

    def __init__(self, folder: Path, servers: Path | None) -> None:
        self.folder, self.port, self.http = folder, free_port(), free_port()
        self.servers = servers
        before_ray()
        self.env = os.environ | {
            "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder), "RAY_TMPDIR": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "10.0",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'integration'}",
        }  # fmt: skip
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE"):
            self.env.pop(name, None)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, command: str, ready: str, cwd: Path, seconds: float = 240, **env: str) -> None:
        """Run a command that stays, until it has printed `ready`."""
        log = self.folder / f"{len(self.started)}.log"
        if self.servers is not None:
            env["PATH"] = f"{self.servers}:{self.env['PATH']}"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], env=self.env | env, cwd=cwd, stdout=sink, stderr=sink
            )
        self.started.append(process)
        deadline = time.monotonic() + seconds
        while ready not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"{ready!r} did not appear:\n{log.read_text()}"
            time.sleep(0.2)

    def run(
        self, command: str, cwd: Path, seconds: float = 300, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as typed into a shell, to its end."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], cwd=cwd, env=self.env | env, capture_output=True,
            text=True, timeout=seconds,
        )  # fmt: skip


@contextmanager
def cluster(servers: Path | None = None, *, serve: bool = True) -> Iterator[Cluster]:
    """`ray start --head` with ports and folders of its own: another cluster may have the usual ones."""
    folder = Path(tempfile.mkdtemp(prefix="r"))  # socket paths must be short
    made = Cluster(folder, servers)
    try:
        made.start(
            f"ray start --head --block --port={made.port} --num-cpus=4 --disable-usage-stats "
            "--include-dashboard=false --node-ip-address=127.0.0.1",
            "Ray runtime started", folder,
        )  # fmt: skip
        if serve:
            told = made.run(f"serve start --http-host 127.0.0.1 --http-port {made.http}", folder)
            assert told.returncode == 0, told.stdout + told.stderr
        yield made
    finally:
        end(made.started)
        shutil.rmtree(folder, ignore_errors=True)
