"""kill -9 of the data doors at random moments: the file in the end is that of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from data_doors import Door, prepare

ROWS = {"taco": 60, "lcb": 3000, "perturbation": 20_000, "contexts": 600, "parquet": 4000, "codenet": 300}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def kill_and_finish(door: Door, folder: Path, kills: int, seconds: float, rng: random.Random) -> int:
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
        except Exception:  # it still runs
            process.kill()
            hits += 1
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -9), errors
    door.run(folder)
    return hits


def check(name: str, size: int, kills: int, tmp_path: Path) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    for folder in (calm, disturbed):
        folder.mkdir()
        door = prepare(name, folder, size)
    started = time.monotonic()
    door.run(calm)
    seconds = time.monotonic() - started
    assert kill_and_finish(door, disturbed, kills, seconds, random.Random(name)) >= min(kills, 2)
    assert door.content(disturbed) == door.content(calm)
    assert names(disturbed) == names(calm), "something was left lying about"


@pytest.mark.slow
def test_taco(tmp_path: Path) -> None:
    check("taco", 24, 3, tmp_path)


def test_perturbation(tmp_path: Path) -> None:
    check("perturbation", 3000, 2, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", ROWS)
def test_ten_kills(name: str, tmp_path: Path) -> None:
    check(name, ROWS[name], 10, tmp_path)


@pytest.mark.slow
def test_a_killed_check_continues_where_it_was(tmp_path: Path) -> None:
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
    counts = verdicts.stat().st_mtime_ns
    assert door.run(tmp_path, "--dev_size", "3") and verdicts.stat().st_mtime_ns == counts
    process = door.start(tmp_path, "--max_solutions", "1")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "max_solutions: 16 -> 1" in errors


@pytest.mark.full
def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    import psutil

    door = prepare("contexts", tmp_path, 200)
    process = door.start(tmp_path, "--workers", "2")
    watched = psutil.Process(process.pid)
    children: list[psutil.Process] = []
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
