"""The inference bench: both designs do the same work on the simulated engine, and ours keeps it busier."""

import json
import random
import statistics

import pytest

from cobalt.commands.bench_inference import main
from cobalt.engines.simulated import Engine, answer


def test_lengths_are_those_asked_for():
    engine, rng = Engine(), random.Random(0)
    drawn = [engine.length(rng.random()) for _ in range(20_000)]
    assert 1430 < statistics.median(drawn) < 1570 and max(drawn) == 6144
    assert 0.045 < sum(n >= 6000 for n in drawn) / len(drawn) < 0.055
    payload = {"messages": [{"role": "user", "content": "x"}], "seed": 1}
    assert answer(engine, payload) == answer(engine, dict(payload)) != answer(engine, payload | {"seed": 2})


@pytest.mark.slow
def test_both_designs_do_the_same_work(tmp_path, capsys):
    out = tmp_path / "rounds.json"
    size = ["--tasks", "6", "--samples", "8", "--turns", "3", "--slots", "16", "--scale", "100"]
    assert main([*size, "-o", str(out)]) == 0
    published, ours = json.loads(out.read_text())["rounds"]
    assert published["design"] == "published" and ours["design"] == "ours"
    assert published["trajectories"] == ours["trajectories"] == 48 and published["tokens"] == ours["tokens"]
    assert ours["wall_s"] < published["wall_s"]
    said = capsys.readouterr().out
    assert "ours / published: " in said and "% of the saturated rate" in said
