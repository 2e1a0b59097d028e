"""A cluster that was there before the training: variables reach its workers, and each node has one pool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import psutil
import pytest
from serve_session import cluster

KEY = "wandb-secret-4711"
SHELL = {
    "WANDB_API_KEY": KEY,
    "TIKTOKEN_CACHE_DIR": "/cache/of/the/shell",
    "NCCL_SOCKET_IFNAME": "eth7",
    "HTTPS_PROXY": "http://name:pass-4711@proxy:1",
    "CUDA_VISIBLE_DEVICES": "0",
}
RIGHT = [["ok", [True, True]], ["ok", [True, False]], ["ok", [False, False]], ["compile_error", [False] * 2]]


@pytest.fixture(scope="module")
def ray_cluster():
    with cluster(serve=False) as made:
        yield made


def drive(made, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "pool_driver"], cwd=made.folder, text=True, stdout=subprocess.PIPE,
        env=made.env | SHELL | environment | {
            "RAY_ADDRESS": f"127.0.0.1:{made.port}", "COBALT_RUN_DIR": tempfile.mktemp(dir=made.folder),
            "COBALT_TEST_NAMES": json.dumps(list(SHELL)),
        },
    )  # fmt: skip


def told(process, name):
    """The value of the next line that has `name`."""
    for line in process.stdout:
        if line.startswith("{") and name in (found := json.loads(line)):
            return found[name]
    raise AssertionError(f"no more lines: {process.wait()}")


def pools(made):
    """The processes that hold sandbox workers, with how many each has."""
    found = {}
    for process in psutil.Process(made.started[0].pid).children(recursive=True):
        try:
            if "sandbox/guest/__main__.py" in " ".join(process.cmdline()):
                parent = process.parent()
                if parent and "sandbox/guest" not in " ".join(parent.cmdline()):
                    found[parent.pid] = found.get(parent.pid, 0) + 1
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.mark.slow
def test_variables_of_the_shell_reach_workers_and_keys_stay_out_of_logs(ray_cluster):
    with drive(ray_cluster) as process:
        seen = dict(zip(SHELL, told(process, "variables"), strict=True))
        assert seen | {"CUDA_VISIBLE_DEVICES": ""} == SHELL | {"CUDA_VISIBLE_DEVICES": ""}
        assert seen["CUDA_VISIBLE_DEVICES"] != "0"  # Ray's business: this worker was given no device
        first = told(process, "verdicts")
        assert first == [RIGHT + RIGHT] * 3
        assert told(process, "verdicts") == [RIGHT + RIGHT] * 2
        counted = told(process, "counters")
        process.stdout.read()
    assert process.returncode == 0
    # three workers, then two, with eight programs of two tests each; and the known program of one
    assert counted["tests"] == 5 * 8 * 2 + 1 and counted["infra_errors"] == 0 and counted["isolation"]
    logs = [path for path in (ray_cluster.folder / "ray").glob("session_2*/logs/**/*") if path.is_file()]
    assert any("runtime_env_agent" in path.name for path in logs)
    text = "".join(path.read_text(errors="replace") for path in logs)
    assert "/cache/of/the/shell" in text  # so a key that travelled with it would have been found here
    assert KEY not in text and "pass-4711" not in text


@pytest.mark.slow
def test_one_pool_per_node_that_is_replaced_when_killed_and_ends_with_its_owner(ray_cluster):
    with drive(ray_cluster, COBALT_TEST_WAIT="1") as process:
        assert told(process, "waiting")
        (pool,), (workers,) = zip(*pools(ray_cluster).items(), strict=True)
        assert workers == 2
        os.kill(pool, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert told(process, "verdicts") == [RIGHT + RIGHT]
            now = pools(ray_cluster)
            if now and pool not in now:
                break
        assert list(now.values()) == [2] and pool not in now
        process.kill()
    while pools(ray_cluster) and time.monotonic() < deadline + 60:
        time.sleep(0.2)
    assert not pools(ray_cluster)
