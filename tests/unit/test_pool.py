"""The pool of workers, with a worker factory made to fail: no place in it is ever lost."""

import threading
import time
from typing import ClassVar

import pytest

from cobalt.errors import InfraError
from cobalt.sandbox import pool as module
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.worker import WorkerLost


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
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    for name, value in (("faults", []), ("starts", []), ("gate", None)):
        monkeypatch.setattr(Made, name, value)
    return Made


KINDS = [WorkerLost("gone"), OSError(24, "Too many open files"), MemoryError(),
         RuntimeError("can't start new thread"), ValueError("no JSON")]  # fmt: skip


@pytest.mark.parametrize("fault", KINDS, ids=lambda each: type(each).__name__)
def test_a_start_that_fails_is_tried_again(made, fault):
    made.faults[:] = [fault, fault]
    with Pool(1, "none", Limits()).lend() as worker:
        assert isinstance(worker, made) and len(made.starts) == 3


@pytest.mark.parametrize("fault", KINDS, ids=lambda each: type(each).__name__)
def test_a_pool_that_cannot_start_says_so_and_keeps_its_place(made, fault):
    pool = Pool(1, "none", Limits())
    for _ in range(3):
        made.faults[:] = [fault] * 3
        with pytest.raises(InfraError, match=r"cannot start a sandbox worker at isolation level 'none': ."):
            pool.lend(wait_s=1).__enter__()
    with pool.lend(wait_s=1):
        pass


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(1)], ids=["interrupt", "exit"])
def test_an_interrupted_start_is_not_tried_again_and_gives_its_place_back(made, fault):
    pool = Pool(1, "none", Limits())
    made.faults[:] = [fault]
    with pytest.raises(type(fault)):
        pool.lend(wait_s=1).__enter__()
    assert len(made.starts) == 1
    with pool.lend(wait_s=1):
        pass


@pytest.mark.parametrize("faults", [[MemoryError()] * 3, [KeyboardInterrupt()]], ids=["error", "interrupt"])
def test_whoever_waits_is_woken_by_a_failed_start(made, faults):
    pool, gate = Pool(1, "none", Limits()), threading.Event()
    made.faults[:], made.gate = faults, gate
    raised, lent = [], []

    def first():
        try:
            pool.lend().__enter__()
        except BaseException as error:
            raised.append(error)

    def second():
        with pool.lend(wait_s=10):
            lent.append(True)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    deadline = time.monotonic() + 10
    while not made.starts and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    threads[1].start()
    threading.Event().wait(0.05)  # now it waits
    gate.set()
    for thread in threads:
        thread.join(10)
    assert len(raised) == 1 and lent == [True]


def test_a_worker_that_starts_while_the_pool_closes_is_ended(made):
    pool, gate = Pool(1, "none", Limits()), threading.Event()
    made.gate = gate
    threading.Timer(0.1, lambda: (pool.close(), gate.set())).start()
    with pytest.raises(InfraError, match="closed"):
        pool.lend().__enter__()


def test_workers_get_the_stack_that_the_limits_promise(made):
    for limits, stack in ((Limits(), 1 << 30), (Limits(stack_bytes=8 << 20), 8 << 20)):
        with Pool(1, "none", limits).lend():
            assert made.starts.pop() == ("none", stack)
