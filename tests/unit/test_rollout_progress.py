"""What a run shows: plain lines, also while no row is finished, and on what it waits."""

import io
import time
from collections import Counter
from types import SimpleNamespace

from cobalt.cli import LineProgress
from cobalt.engines.base import Completion
from cobalt.rollouts import progress as module
from cobalt.rollouts.progress import Meter

ENGINE = SimpleNamespace(retries=3)


def test_lines_come_between_rows_too(monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    stream, spent = io.StringIO(), Counter()
    meter = Meter(LineProgress(stream, every_s=0.0), "multi turn", 40, spent, ENGINE)
    meter.advance("multi turn", 0, 5, failed=0)
    with meter.during("completions", 2):
        assert meter.in_flight == 2
    for turn in (0, 0, 1):
        meter.sampled(turn, [Completion("x", "stop", 10, 100)])
    spent.update({"programs": 3, "cost": 0.125})
    meter.tested(4)
    meter.show()
    last = stream.getvalue().splitlines()[-1]
    for part in (
        "multi turn: 0/5",
        "programs 3/40",
        "turns 1:2 2:1",
        "tokens/s",
        "tests/s",
        "errors 3",
        "cost $0.125",
    ):
        assert part in last, last


def test_a_run_that_stalls_says_on_what_it_waits(monkeypatch):
    monkeypatch.setattr(module, "STALLED_S", 0.01)
    stream = io.StringIO()
    meter = Meter(LineProgress(stream, every_s=0.0), "single turn", 9, Counter(), ENGINE)
    with meter.during("completions", 3), meter.during("tests", 2):
        time.sleep(0.03)
        meter.show()
    assert "waiting for 3 completions (oldest 0 s) and 2 tests (oldest 0 s)" in stream.getvalue()


def test_few_lines_by_default():
    stream = io.StringIO()
    progress = LineProgress(stream)
    for done in range(101):
        progress.advance("x", done, 100)
    assert stream.getvalue().splitlines() == ["x: 0/100", "x: 100/100"]
