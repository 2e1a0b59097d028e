"""What a run shows: plain lines, also while no row is finished, and on what it waits."""

import io
import time
from collections import Counter

from cobalt.engines.base import Completion
from cobalt.rollouts import progress as module
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.view import RolloutView


class Engine:
    def __init__(self):
        self.counters = Counter({"calls": 9, "retries.http_500": 2, "retries.timeout": 1})


def test_lines_come_between_rows_too(monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    stream = io.StringIO()
    view = RolloutView(stream, every_s=0.0)
    meter = Meter(view, "multi turn", 40)
    spent = {"programs": 0.0, "cost": 0.0}
    meter.watch(None, spent, Engine())
    meter.advance("multi turn", 0, 5, failed=0)
    with meter.generating(2):
        assert meter.in_flight == 2
    for turn in (0, 0, 1):
        meter.sampled(turn, [Completion("x", "stop", 10, 100)])
    spent |= {"programs": 3.0, "cost": 0.125}
    with meter.testing(4):
        pass
    meter._show()
    last = stream.getvalue().splitlines()[-1]
    for part in (
        "multi turn: 0/5",
        "programs 3/40",
        "turns 1:2 2:1",
        "tokens/s",
        "errors 3",
        "cost $0.125",
        "left",
    ):
        assert part in last, last
    view.close()


def test_a_run_that_stalls_says_on_what_it_waits(monkeypatch):
    monkeypatch.setattr(module, "STALLED_S", 0.01)
    stream = io.StringIO()
    meter = Meter(RolloutView(stream, every_s=0.0), "single turn")
    with meter.generating(3), meter.testing(2):
        time.sleep(0.03)
        meter._show()
    assert "waiting for 3 completions (oldest 0 s) and 2 tests (oldest 0 s)" in stream.getvalue()


def test_few_lines_by_default():
    stream = io.StringIO()
    view = RolloutView(stream)
    for done in range(101):
        view.advance("x", done, 100)
    assert stream.getvalue().splitlines() == ["x: 0/100", "x: 100/100"]
