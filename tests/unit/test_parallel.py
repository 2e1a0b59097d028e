"""Chunks in several processes: order, bounded look-ahead, errors, killed children."""

from __future__ import annotations

import os
import runpy
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobalt.contexts.parallel import in_order
from cobalt.data import Checker
from cobalt.errors import InfraError, InputError


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order(workers: int) -> None:
    def work(n: int) -> tuple[int, int]:
        time.sleep(0.01 * (n % 3))
        return n, os.getpid()

    found = list(in_order(work, range(20), workers))
    assert [n for n, _ in found] == list(range(20))
    assert (os.getpid() in {pid for _, pid in found}) == (workers == 1)


def test_chunks_are_read_only_a_little_ahead() -> None:
    read = 0

    def chunks() -> Iterator[int]:
        nonlocal read
        for n in range(100):
            read += 1
            yield n

    done = 0
    for done, _ in enumerate(in_order(lambda n: n, chunks(), 2), start=1):
        assert read <= done + 3 * 2 + 1
    assert done == 100


def test_errors_and_killed_children() -> None:
    def work(n: int) -> int:
        if n == 3:
            raise InputError("x:4: field 'a'")
        return n

    with pytest.raises(InputError, match="x:4: field 'a'"):
        list(in_order(work, range(9), 2))

    def die(n: int) -> int:
        if n == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    with pytest.raises(InfraError, match="a worker process was killed"):
        list(in_order(die, range(9), 2))


def test_the_files_of_the_measurements_are_good_ones() -> None:
    made = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "data.py"))
    taco_rows, trajectory_rows = made["taco_rows"], made["trajectory_rows"]
    for rows in (taco_rows(3, 8), trajectory_rows(2, samples=3, letters=100)):
        check = Checker()
        for number, row in enumerate(rows, start=1):
            check(row, f"row {number}")
        assert check.kind is not None
