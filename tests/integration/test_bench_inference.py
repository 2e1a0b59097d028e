"""The inference benchmark: both designs do the same work, and ours keeps the engine busier."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.full
def test_both_designs_do_the_same_work(tmp_path):
    out = tmp_path / "rounds.json"
    size = ["--tasks", "6", "--samples", "8", "--turns", "3", "--slots", "16", "--scale", "100"]
    subprocess.run([sys.executable, BENCHMARKS / "inference.py", *size, "-o", out], check=True)
    published, ours = json.loads(out.read_text())["rounds"]
    assert (published["design"], ours["design"]) == ("published", "ours")
    assert published["trajectories"] == ours["trajectories"] == 48 and published["tokens"] == ours["tokens"]
    assert ours["wall_s"] < published["wall_s"]
