"""The published sequence, each in its own process: `ray start`, `serve run`, then a door that finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_session import before_ray, end, free_port

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from data_rows import many_taco, read, write

pytestmark = [pytest.mark.slow, pytest.mark.full]
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{text!r} did not appear:\n{log.read_text()}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """RAY_ADDRESS of a cluster begun by `ray start` on which `serve run` holds the evaluator."""
    folder = Path(tempfile.mkdtemp(prefix="r"))  # socket paths must be short
    port, http = free_port(), free_port()
    before_ray()
    env = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PATH": f"{BIN}:{os.environ['PATH']}",
        "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "10.0",
    }  # fmt: skip
    env.pop("RAY_ADDRESS", None)
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], ready: str) -> None:
        log = folder / f"{len(started)}.log"
        with log.open("wb") as sink:
            started.append(subprocess.Popen(command, env=env, cwd=ROOT, stdout=sink, stderr=sink))
        wait_for(ready, log, started[-1])

    try:
        start(
            ["ray", "start", "--head", "--block", f"--port={port}", "--num-cpus=2", f"--temp-dir={folder}",
             "--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"],
            "Ray runtime started",
        )  # fmt: skip
        env["RAY_ADDRESS"] = f"127.0.0.1:{port}"
        # Another program may hold the usual port, 8000.
        begin = ["serve", "start", "--http-host", "127.0.0.1", "--http-port", str(http)]
        begun = subprocess.run(begin, env=env, cwd=ROOT, capture_output=True, text=True, timeout=180)
        assert begun.returncode == 0, begun.stdout + begun.stderr
        start(
            ["serve", "run", "remote_reward_server:app", "--name", "evaluator",
             "--route-prefix", "/evaluator"],
            "Application 'evaluator' is ready",
        )  # fmt: skip
        yield env
    finally:
        end(started)
        shutil.rmtree(folder, ignore_errors=True)


def test_preprocessing_judges_on_the_service(environment: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "taco.jsonl", many_taco(12))
    rows = {}
    for where in ("auto", "local"):
        folder = tmp_path / where
        folder.mkdir()
        command = [
            sys.executable, str(ROOT / "preproc" / "preproc_taco.py"), "-i", str(tmp_path / "taco.jsonl"),
            "--dev_size", "2", "--evaluator", where,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert ("Serve" in done.stderr) == (where == "auto"), done.stderr
        rows[where] = read(folder / "data" / "taco_verified_filtered.jsonl")
    assert rows["auto"] == rows["local"]
    assert {row["verified"] for row in rows["auto"]} >= {True}
