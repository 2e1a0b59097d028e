"""The inference benchmark: both designs do the same work, and ours keeps the engine busier."""

import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_lengths_are_those_asked_for(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from simulated_engine import Engine, answer

    engine, rng = Engine(), random.Random(0)
    drawn = [engine.length(rng.random()) for _ in range(20_000)]
    assert 1430 < statistics.median(drawn) < 1570 and max(drawn) == 6144
    assert 0.045 < sum(n >= 6000 for n in drawn) / len(drawn) < 0.055
    payload = {"messages": [{"role": "user", "content": "x"}], "seed": 1}
    assert answer(engine, payload) == answer(engine, dict(payload)) != answer(engine, payload | {"seed": 2})


@pytest.mark.slow
def test_both_designs_do_the_same_work(tmp_path):
    out = tmp_path / "rounds.json"
    size = ["--tasks", "6", "--samples", "8", "--turns", "3", "--slots", "16", "--scale", "100"]
    command = [sys.executable, BENCHMARKS / "inference.py", *size, "-o", out]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    published, ours = json.loads(out.read_text())["rounds"]
    assert published["design"] == "published" and ours["design"] == "ours"
    assert published["trajectories"] == ours["trajectories"] == 48 and published["tokens"] == ours["tokens"]
    assert ours["wall_s"] < published["wall_s"]
    assert "ours / published: " in said and "% of the saturated rate" in said
