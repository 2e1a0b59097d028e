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


KINDS = [WorkerLost("gone"), OSError(24, "Too many open files"), MemoryError(),
         RuntimeError("can't start new thread"), ValueError("no JSON")]  # fmt: skip


@pytest.mark.parametrize("fault", KINDS, ids=lambda each: type(each).__name__)
def test_a_pool_that_cannot_start_says_so_and_may_be_asked_again(made, fault):
    pool = Pool("none", Limits())
    made.faults[:] = [fault]
    with pytest.raises(WorkerLost, match=r"cannot start a sandbox worker at isolation level 'none': ."):
        pool.lend().__enter__()
    with pool.lend() as worker:
        assert isinstance(worker, made) and len(made.starts) == 2


@pytest.mark.parametrize("fault", KINDS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("times", [1, 2])
def test_a_start_that_fails_is_tried_once_more(made, monkeypatch, fault, times):
    """By whoever judges, as any fault of ours."""
    made.faults[:] = [fault] * times
    monkeypatch.setattr(made, "program", lambda *_, **__: contextlib.nullcontext(), raising=False)
    monkeypatch.setattr(judge._Suite, "run", lambda suite, program: setattr(suite, "_status", "ok"))
    result = judge.judge_suite(Pool("none", Limits()), "", TestCases([], []), Limits(), Rule())
    assert result["status"] == ("ok" if times == 1 else "infra_error") and len(made.starts) == 2


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(1)], ids=["interrupt", "exit"])
def test_an_interrupted_start_is_no_fault_of_the_sandbox(made, fault):
    pool = Pool("none", Limits())
    made.faults[:] = [fault]
    with pytest.raises(type(fault)):
        pool.lend().__enter__()
    with pool.lend():
        pass


def test_workers_are_as_many_as_callers_hold_at_once(made):
    pool = Pool("none", Limits())
    with pool.lend() as one:
        with pool.lend() as other:
            assert one is not other and len(made.starts) == 2
        with pool.lend() as again:
            assert again is other
    assert len(pool.pids()) == len(made.starts) == 2 and pool.restarts == 0


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


def test_workers_get_the_stack_that_the_limits_promise(made):
    for limits, stack in ((Limits(), 1 << 30), (Limits(stack_bytes=8 << 20), 8 << 20)):
        with Pool("none", limits).lend():
            assert made.starts.pop() == ("none", stack)
