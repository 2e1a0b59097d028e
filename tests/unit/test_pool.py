"""The pool of workers, with a worker factory made to fail."""

import contextlib
import threading
from typing import ClassVar

import pytest

from cobalt.errors import InfraError
from cobalt.evaluator import judge
from cobalt.evaluator.checker import Rule
from cobalt.sandbox import pool as module
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.worker import WorkerLost
from cobalt.testcases import TestCases


class Made:
    """A worker that does nothing. `faults`: what the next starts raise; `gate`: they wait for it."""

    faults: ClassVar[list[BaseException]] = []
    gate: ClassVar[threading.Event | None] = None
    starts: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, level, *, stack_bytes, packages):
        self.starts.append((level, stack_bytes))
        self.pid, self.closed = 0, 0
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.faults:
            raise self.faults.pop(0)

    def program(self, *_, **__):
        return contextlib.nullcontext()

    def kill(self):
        pass

    def close(self):
        self.closed += 1


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(module, "Worker", Made)
    for name, value in (("faults", []), ("starts", []), ("gate", None)):
        monkeypatch.setattr(Made, name, value)
    return Made


@pytest.mark.parametrize(
    "fault",
    [WorkerLost("gone"), OSError(24, "Too many open files"), MemoryError(),
     RuntimeError("can't start new thread"), ValueError("no JSON")],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_a_start_that_fails_is_said_and_tried_once_more_by_whoever_judges(made, monkeypatch, fault):
    monkeypatch.setattr(judge._Suite, "run", lambda suite, program: setattr(suite, "_status", "ok"))
    for times, status in ((1, "ok"), (2, "infra_error")):
        made.starts.clear()
        made.faults[:] = [fault] * times
        result = judge.judge_suite(Pool("none", Limits()), "", TestCases([], []), Limits(), Rule())
        assert result["status"] == status and len(made.starts) == 2
    made.faults[:] = [fault]
    with pytest.raises(WorkerLost, match=r"cannot start a sandbox worker at isolation level 'none': ."):
        Pool("none", Limits()).lend().__enter__()


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(1)], ids=["interrupt", "exit"])
def test_an_interrupted_start_is_no_fault_of_the_sandbox(made, fault):
    pool = Pool("none", Limits())
    made.faults[:] = [fault]
    with pytest.raises(type(fault)):
        pool.lend().__enter__()
    with pool.lend():
        pass


def test_workers_are_as_many_as_callers_hold_at_once(made):
    pool = Pool("none", Limits(stack_bytes=8 << 20))
    with pool.lend() as one:
        with pool.lend() as other:
            assert one is not other
        with pool.lend() as again:
            assert again is other
    assert len(pool.pids()) == 2 and pool.restarts == 0 and made.starts == [("none", 8 << 20)] * 2


def test_a_worker_whose_caller_failed_is_ended_and_replaced(made):
    pool = Pool("none", Limits())
    with pytest.raises(WorkerLost), pool.lend() as worker:
        raise WorkerLost("gone")
    assert worker.closed == 1 and pool.restarts == 1 and pool.pids() == []


def test_a_worker_that_starts_while_the_pool_closes_is_ended(made):
    pool, gate = Pool("none", Limits()), threading.Event()
    made.gate = gate
    threading.Timer(0.1, lambda: (pool.close(), gate.set())).start()
    with pytest.raises(InfraError, match="closed"):
        pool.lend().__enter__()
