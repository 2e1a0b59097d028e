"""Sizes of the evaluator: simulated time, the arithmetic, and the command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cobalt.commands.plan import main
from cobalt.errors import InputError
from cobalt.training.reward_overlap import Load, cores_needed, expose

# every completion takes 100 s, every test 1 s (and none is at the limit)
FIXED = Load(
    contexts=5, samples=2, tests=3, test_ms=1000.0, test_sigma=0.0, slow_share=0.0, median_tokens=1000.0,
    length_sigma=0.0, tokens_per_s=10.0,
)  # fmt: skip


def test_by_hand():
    # ten programs of 3 s arrive at second 100: with four cores three rounds, 9 s
    found = expose(FIXED, 4)
    assert (found.generation_s, found.exposed_s, found.cpu_s) == pytest.approx((100.0, 9.0, 30.0))
    assert found.share == pytest.approx(0.09) and found.busy == pytest.approx(30 / (4 * 109))
    assert [expose(FIXED, cores).exposed_s for cores in (1, 5, 10, 99)] == pytest.approx(
        [30.0, 6.0, 3.0, 3.0]
    )
    assert cores_needed(FIXED, 0.061).cores == 5 and cores_needed(FIXED, 0.031).cores == 10
    with pytest.raises(ValueError, match=r"the last programs alone take 3\.0 s"):
        cores_needed(FIXED, 0.01)
    slow = replace(FIXED, test_ms=20_000.0)  # a test ends at 4 s, a suite at 108 s
    assert expose(slow, 10).exposed_s == pytest.approx(12.0)
    assert expose(replace(slow, tests=10), 10).exposed_s == pytest.approx(40.0)
    assert expose(replace(slow, tests=30), 10).exposed_s == pytest.approx(108.0)
    assert slow.mean_test_s == 4.0 and replace(FIXED, slow_share=0.5).mean_test_s == pytest.approx(2.5)


def test_spread_arrivals_hide_the_work_and_cut_responses_come_last():
    load = Load(contexts=16, samples=8, length_sigma=0.6)
    many = expose(load, 8)
    assert many.exposed_s < 5.0 and many.cpu_s > 100
    assert expose(load, 1).exposed_s > many.exposed_s
    burst = expose(replace(load, cut_with_code=1.0), 8)
    assert burst.exposed_s > many.exposed_s and burst.cpu_s > many.cpu_s
    assert expose(load, 8) == expose(load, 8) and expose(load, 8, seed=1) != expose(load, 8)


def test_the_command_prints_the_arithmetic(capsys):
    assert main(["--contexts", "16", "--samples", "8", "--cores", "4"]) == 0
    text = capsys.readouterr().out
    assert "16 contexts x 8 = 128 per step, 20 tests each = 2,560 tests" in text
    assert "4 evaluator cores" in text and "core-seconds" in text
    assert main(["--contexts", "16", "--samples", "8", "--exposed", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["share"] <= 0.05 and found["cores"] >= 1
    for wrong, message in (
        (["--test_ms", "0"], "--test_ms must be positive"),
        (["--slow_share", "2"], "--slow_share"),
        (["--contexts", "2", "--length_sigma", "0", "--tokens_per_s", "5000"], "exposed even with a core"),
    ):
        with pytest.raises(InputError, match=message):
            main(wrong)
