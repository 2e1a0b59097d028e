"""kill -9 of a real process at random moments: every row comes out exactly once."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cobalt.manifest import read_manifest
from cobalt.rows import read_rows

ROWS = 400

SCRIPT = """
import asyncio, sys
from cobalt.pipeline import run_rows

async def work(row):
    await asyncio.sleep(0.001 * (row["id"] % 7))
    return row | {"square": row["id"] ** 2, "ballast": "x" * (row["id"] * 37 % 5000)}

rows = [{"id": n, "kept": str(n)} for n in range(int(sys.argv[2]))]
asyncio.run(run_rows(rows, work, output=sys.argv[1], concurrency=8, settings={"rows": len(rows)}))
"""


def _start(output, rows):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(output), str(rows)], stderr=subprocess.PIPE, text=True
    )


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _kill_until_done(output, rows, kills, rng):
    """Kill the runner `kills` times once it has written something new, then let it finish."""
    landed = 0
    for _ in range(kills):
        before = _size(output)
        process = _start(output, rows)
        while process.poll() is None and _size(output) == before:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        landed += process.returncode == -signal.SIGKILL
        if _size(output) and rng.random() < 0.5:
            # A kill rarely lands inside a write of a few bytes: tear the last row as a power cut would.
            os.truncate(output, _size(output) - rng.randint(1, 20))
    process = _start(output, rows)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return landed


def _check(output, rows):
    found = [row for _, row in read_rows(output)]
    assert [row["id"] for row in found] == list(range(rows))
    assert all(row["square"] == row["id"] ** 2 and row["kept"] == str(row["id"]) for row in found)
    assert json.loads((output.parent / (output.name + ".manifest.json")).read_text())["counts"]["failed"] == 0
    counts = read_manifest(output)["counts"]
    assert counts["resumed"] + counts["written"] == rows
    # Nothing is left lying about.
    assert sorted(os.listdir(output.parent)) == [output.name, output.name + ".manifest.json"]


def test_kill_and_resume(tmp_path):
    landed = _kill_until_done(tmp_path / "out.jsonl", ROWS, kills=5, rng=random.Random(0))
    assert landed >= 3
    _check(tmp_path / "out.jsonl", ROWS)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_many_kills(tmp_path, seed):
    landed = _kill_until_done(tmp_path / "out.jsonl", 3000, kills=25, rng=random.Random(seed))
    assert landed >= 20
    _check(tmp_path / "out.jsonl", 3000)
