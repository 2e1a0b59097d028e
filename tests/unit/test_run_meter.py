"""Seconds and memory of a tree of processes."""

import subprocess
import sys
import time

import psutil
import pytest

from cobalt.run.meter import Meter

BURN = "import time\nwhile time.process_time() < 0.5: pass\n"


def test_a_child_that_was_waited_for_counts_once():
    with Meter(0.1) as meter:
        before = meter.usage().cpu_s
        subprocess.run([sys.executable, "-S", "-c", BURN], check=True)
        assert 0.45 <= meter.usage().cpu_s - before <= 0.8


def test_a_grandchild_whose_parent_died_still_counts():
    start = f"subprocess.Popen([sys.executable, '-S', '-c', {BURN!r}])"
    parent = f"import subprocess, sys, time\n{start}\ntime.sleep(0.3)"
    with Meter(0.05) as meter:
        before = meter.usage().cpu_s
        subprocess.run([sys.executable, "-c", parent], check=True)
        deadline = time.monotonic() + 20
        while meter.usage().cpu_s - before < 0.45 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert 0.45 <= meter.usage().cpu_s - before <= 0.9


def test_the_seconds_of_a_child_are_told_by_its_command():
    with Meter(0.05) as meter:
        mine = subprocess.Popen([sys.executable, "-S", "-c", BURN, "mine"])
        other = subprocess.Popen([sys.executable, "-S", "-c", BURN, "other"])
        while mine.poll() is None or other.poll() is None:
            meter.usage()
            time.sleep(0.02)
        assert 0.4 <= meter.used_by(lambda command: "mine" in command) <= 0.7
        assert meter.used_by(lambda command: "nobody" in command) == 0


def test_memory_peaks_with_a_large_child():
    hold = "import time\nheld = bytearray(b'x') * 150_000_000\ntime.sleep(1)"
    own = psutil.Process().memory_info().rss / 2**20
    with Meter(0.1) as meter:
        subprocess.run([sys.executable, "-S", "-c", hold], check=True)
        peak = meter.peak_mib
    assert 143 <= peak <= own + 300


def test_usage_from_the_start_of_the_process_covers_more():
    with Meter() as short, Meter(whole_process=True) as whole:
        assert whole.usage().wall_s > short.usage().wall_s
        assert whole.usage().cpu_s > short.usage().cpu_s
        assert short.usage().wall_s == pytest.approx(0, abs=1)
