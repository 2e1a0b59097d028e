"""A Ray session of the test process, and the evaluator as a Serve application in it."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cobalt.slow_start import allow_slow_start


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
    """The `ray` module, started on two CPUs in a folder of its own."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    before_ray()
    folder = tempfile.mkdtemp(prefix="r")  # socket paths must be short
    ray.init(
        num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False, logging_level="error"
    )
    try:
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def application(port: int, **settings: Any) -> Iterator[Any]:
    """A handle to the evaluator, which also listens on `port`."""
    from ray import serve

    from cobalt.evaluator.service import Settings
    from remote_reward_server import app

    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        yield serve.run(app(Settings(**settings)), name="evaluator", route_prefix="/evaluator")
    finally:
        serve.shutdown()
