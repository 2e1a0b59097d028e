"""kill -9 of a runner in a real process, then the same command again: every trajectory exactly once."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_server import add_task, chat_server, without_times

from cobalt.rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def command(tasks, out, url):
    return [
        sys.executable, str(ROOT / "run_multi_turn_vllm.py"), "-i", str(tasks), "-o", str(out),
        "--first_turn", "-n", "2", "--turns", "3", "--engine", "openai", "--model_name", "scripted",
        "--base_url", url, "--evaluator", "local", "--workers", "1", "--concurrency", "4",
    ]  # fmt: skip


def rows_of(path):
    return without_times([row for _, row in read_rows(path, repair=True)]) if path.exists() else []


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.full)])
def test_killed_runs_add_up_to_an_undisturbed_one(tmp_path, kills):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(8 * kills)))
    with chat_server(delay_s=0.1) as (url, requests):
        whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
        assert subprocess.run(command(tasks, whole, url), timeout=300).returncode == 0
        paid = len(requests)
        rng, progress = random.Random(kills), []
        for _ in range(kills):
            process = subprocess.Popen(command(tasks, out, url), stderr=subprocess.DEVNULL)
            seen, wanted = len(requests), rng.randrange(5, paid // (kills + 1))
            while len(requests) < seen + wanted and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            progress.append(len(rows_of(out)))
        assert progress[-1] < 8 * kills and progress == sorted(progress)  # killed in the middle, nothing lost
        assert subprocess.run(command(tasks, out, url), timeout=300).returncode == 0
        again = len(requests) - paid
    assert rows_of(out) == rows_of(whole)
    # At each kill 4 completions are in flight, and as many may have arrived in the last milliseconds.
    assert again <= paid + kills * 2 * 4
    assert not out.with_name("out.jsonl.journal").exists()
