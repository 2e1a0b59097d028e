"""A real bench, small: killed by kill -9 in the middle of a training, it goes on and ends with its tables."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ("tasks.train=24", "tasks.dev=12", "tasks.heldout=12", "collect.samples=4")


@pytest.mark.full
def test_a_bench_that_was_killed_goes_on(tmp_path):
    out = tmp_path / "bench"
    words = ["methods", "cobalt", "--seeds", "1", "--steps", "3", "--rates", "4e-4", "--out", str(out)]
    words += [word for setting in SMALL for word in ("--set", setting)]
    command = [
        sys.executable,
        "-m",
        "cobalt",
        "bench",
        *words,
        "--config",
        str(ROOT / "configs" / "tiny.yaml"),
    ]
    first = subprocess.Popen(command, cwd=ROOT)
    steps = out / "work" / "cobalt-lr0.0004-seed0" / "steps.jsonl"
    deadline = time.monotonic() + 400
    while not steps.exists() or not steps.read_text():
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert again.returncode == 0, again
    assert "equal samples, set heldout" in again.stdout
    found = json.loads((out / "trainings" / "cobalt-seed0.json").read_text())
    assert found["at"]["samples"]["programs"] == 384
    assert found["data"]["cpu_s"] > 1 and found["at"]["samples"]["cpu_s"] > found["data"]["cpu_s"]
    assert len(found["at"]["samples"]["tasks"]["heldout"]) == 12
    assert found["peak_mib"] < 3072
