"""Long runs: memory stays flat, and right programs pass on a busy machine."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from cobalt.evaluator import LocalEvaluator
from cobalt.sandbox.limits import Limits

pytestmark = pytest.mark.full
MIB = 1 << 20


def worker_bytes(evaluator: LocalEvaluator) -> list[int]:
    """Memory of each worker: all its processes, shared pages divided among their users."""
    sizes = []
    for pid in evaluator._pool.pids():
        outer = psutil.Process(pid)
        processes = [outer, *outer.children(recursive=True)]
        sizes.append(sum(each.memory_full_info().pss for each in processes))
    return sizes


def test_a_hundred_thousand_tests_leave_memory_flat():
    tests = {"inputs": [str(n) for n in range(500)], "outputs": [str(n + 1) for n in range(500)]}
    limits = Limits(suite_s=600)
    with LocalEvaluator(2, shared_verdicts=False, limits=limits) as evaluator:
        host, sizes, own = psutil.Process(), [], []
        for round_ in range(10):
            programs = ((f"print(int(input()) + 1)  # {round_} {n}", tests) for n in range(20))
            assert all(all(result["passing"]) for result in evaluator.evaluate_many(programs))
            sizes.append(max(worker_bytes(evaluator)))
            own.append(host.memory_full_info().uss)
        assert evaluator.counters["tests"] == 100_000
        assert evaluator.restarts == 0
    print("MiB of a worker by round:", [round(size / MIB, 1) for size in sizes])
    assert max(sizes) < 60 * MIB
    assert sizes[-1] < sizes[1] + 1 * MIB
    assert own[-1] < own[1] + 8 * MIB


@contextmanager
def spinning(count: int) -> Iterator[None]:
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_two_hundred_right_programs_near_their_limit_pass_on_a_busy_machine(level):
    code = "import time\nwhile time.process_time() < 0.6: pass\nprint(input())"
    tests = {"inputs": [str(n) for n in range(10)], "outputs": [str(n) for n in range(10)]}
    with spinning(4), LocalEvaluator(2, isolation=level, limits=Limits(cpu_s=1.0)) as evaluator:
        programs = ((f"{code}  # {n}", tests) for n in range(20))
        verdicts = [ok for result in evaluator.evaluate_many(programs) for ok in result["passing"]]
    assert verdicts == [True] * 200
