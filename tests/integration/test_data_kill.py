"""kill -9 at random moments: what comes out in the end is what an undisturbed run makes, each row once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from data_doors import prepare

from cobalt.manifest import read_manifest
from cobalt.rows import read_rows

ROWS = {"taco": 60, "lcb": 3000, "perturbation": 20_000, "contexts": 600, "parquet": 4000, "codenet": 300}


def kill_and_finish(door, folder, kills, seconds, rng):
    """Kill the door after a random part of ``seconds``, ``kills`` times, then let it finish; how many hit.

    A start that finishes before its kill does not count; the calm run may have been slowed down by others.
    """
    hits = 0
    for _ in range(4 * kills):
        if hits == kills:
            break
        process = door.start(folder)
        try:
            process.wait(rng.uniform(0.1, max(0.3, 0.8 * seconds)))
        except subprocess.TimeoutExpired:
            process.kill()
            hits += 1
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -9), errors
    door.run(folder)
    return hits


@pytest.mark.parametrize(
    ("name", "size", "kills"),
    [
        ("perturbation", 3000, 2),
        *(pytest.param(name, size, 10, marks=pytest.mark.full) for name, size in ROWS.items()),
    ],
)
def test_a_killed_door_leaves_what_a_calm_one_makes(name, size, kills, tmp_path):
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    for folder in (calm, disturbed):
        folder.mkdir()
        door = prepare(name, folder, size)
    started = time.monotonic()
    assert door.start(calm).wait(timeout=300) == 0
    seconds = time.monotonic() - started
    assert kill_and_finish(door, disturbed, kills, seconds, random.Random(name)) >= min(kills, 2)
    assert door.content(disturbed) == door.content(calm)
    left = ({str(path.relative_to(each)) for path in each.rglob("*")} for each in (disturbed, calm))
    assert next(left) == next(left), "something was left lying about"


@pytest.mark.slow
def test_a_killed_check_continues_where_it_was(tmp_path):
    door = prepare("taco", tmp_path, 40)
    verdicts = tmp_path / "verl" / "data" / "taco_verified_filtered.jsonl.verdicts.jsonl"
    process = door.start(tmp_path)
    while not verdicts.exists() or verdicts.read_bytes().count(b"\n") < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = verdicts.read_bytes().count(b"\n")
    assert before < 20
    door.run(tmp_path)
    manifest = json.loads(Path(f"{verdicts}.manifest.json").read_text())
    assert manifest["counts"]["resumed"] >= before - 1
    rows = [json.loads(line) for line in verdicts.read_text().splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) == manifest["counts"]["total"]
    # Nothing is run again when all is there; another number of solutions is another question.
    written = verdicts.stat().st_mtime_ns
    assert door.run(tmp_path, "--dev_size", "3") and verdicts.stat().st_mtime_ns == written
    _, errors = door.run(tmp_path, "--max_solutions", "1", code=2)
    assert "max_solutions: 16 -> 1" in errors


@pytest.mark.full
def test_children_end_with_a_killed_parent(tmp_path):
    process = prepare("contexts", tmp_path, 200).start(tmp_path, "--workers", "2")
    watched, children = psutil.Process(process.pid), []
    while len(children) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
        children = watched.children()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
        assert time.monotonic() < deadline, "worker processes outlive their parent"
        time.sleep(0.05)
    assert os.listdir(tmp_path) and not (tmp_path / "contexts.jsonl").exists()


# --- The pipeline that appends

SCRIPT = """
import asyncio, sys
from cobalt.pipeline import run_rows

async def work(row):
    await asyncio.sleep(0.001 * (row["id"] % 7))
    return row | {"square": row["id"] ** 2, "ballast": "x" * (row["id"] * 37 % 5000)}

rows = [{"id": n, "kept": str(n)} for n in range(int(sys.argv[2]))]
asyncio.run(run_rows(rows, work, output=sys.argv[1], concurrency=8, settings={"rows": len(rows)}))
"""


@pytest.mark.parametrize(
    ("rows", "kills", "seed"),
    [(400, 5, 0), *(pytest.param(3000, 25, seed, marks=pytest.mark.full) for seed in range(5))],
)
def test_every_row_comes_out_once(tmp_path, rows, kills, seed):
    output, landed, rng = tmp_path / "out.jsonl", 0, random.Random(seed)
    command = [sys.executable, "-c", SCRIPT, str(output), str(rows)]

    def size():
        return output.stat().st_size if output.exists() else 0

    for _ in range(kills):
        before = size()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and size() == before:  # it has written something new
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        landed += process.returncode == -signal.SIGKILL
        if size() and rng.random() < 0.5:
            # A kill rarely lands inside a write of a few bytes: tear the last row as a power cut would.
            os.truncate(output, size() - rng.randint(1, 20))
    subprocess.run(command, check=True, timeout=120)
    assert landed >= 0.6 * kills
    found = [row for _, row in read_rows(output)]
    assert [row["id"] for row in found] == list(range(rows))
    assert all(row["square"] == row["id"] ** 2 and row["kept"] == str(row["id"]) for row in found)
    counts = read_manifest(output)["counts"]
    assert counts["failed"] == 0 and counts["resumed"] + counts["written"] == rows
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl", "out.jsonl.manifest.json"]  # nothing lies about
