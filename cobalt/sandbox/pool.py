"""A pool of warm workers: lent to one caller at a time, started when first needed, replaced when they die."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator

from cobalt.errors import InfraError
from cobalt.sandbox.limits import Limits, package_paths
from cobalt.sandbox.worker import Worker, WorkerLost

_ATTEMPTS = 3


class Pool:
    """Up to `size` workers of one isolation level. Thread-safe; `close` ends them all.

    A pool belongs to the process that made it: used after a fork it raises InfraError.
    """

    def __init__(self, size: int, level: str, limits: Limits) -> None:
        self.size = size
        self.level = level
        self.restarts = 0
        self._limits = limits
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._lent: set[Worker] = set()
        self._starting = 0
        self._closed = False
        # For a pool that nobody closed: at its collection, or at the end of the interpreter.
        self._finalizer = weakref.finalize(self, _close_all, self._owner, self._idle, self._lent)

    @contextlib.contextmanager
    def lend(self, *, wait_s: float | None = None) -> Iterator[Worker]:
        """A worker for the length of the block. If the block raises, the worker is ended and replaced.

        Raises InfraError if the pool is closed, no worker can be started, or none is free in `wait_s`.
        """
        worker = self._take(wait_s)
        healthy = False
        try:
            yield worker
            healthy = True
        finally:
            self._give_back(worker, healthy)

    def close(self) -> None:
        """End every worker; callers that still use one get WorkerLost."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._finalizer()

    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        with self._changed:
            return [worker.pid for worker in [*self._idle, *self._lent]]

    def _take(self, wait_s: float | None) -> Worker:
        if os.getpid() != self._owner:
            raise InfraError("a sandbox pool cannot be used after a fork: make one in each process")
        deadline = None if wait_s is None else time.monotonic() + wait_s
        with self._changed:
            while True:
                if self._closed:
                    raise InfraError("the sandbox pool is closed")
                if self._idle:
                    worker = self._idle.pop()
                    self._lent.add(worker)
                    return worker
                if len(self._lent) + self._starting < self.size:
                    self._starting += 1
                    break
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise InfraError(f"no sandbox worker was free for {wait_s:.0f} s")
                self._changed.wait(left)
        started: Worker | None = None
        lent = False
        try:
            started = self._start()
        finally:  # whatever went wrong: the place is free again, and somebody may be waiting for it
            with self._changed:
                self._starting -= 1
                if started is not None and not self._closed:
                    self._lent.add(started)
                    lent = True
                else:
                    self._changed.notify()
        if not lent:
            started.close()
            raise InfraError("the sandbox pool is closed")
        return started

    def _start(self) -> Worker:
        error: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.2 * attempt)
            try:
                return Worker(
                    self.level,
                    stack_bytes=self._limits.stack_limit_bytes,
                    packages=package_paths(self._limits.packages),
                )
            except Exception as failure:  # of any kind, as no memory or no thread to be had: a fault of ours
                error = failure
        raise InfraError(
            f"cannot start a sandbox worker at isolation level '{self.level}': {_described(error)}"
        ) from error

    def _give_back(self, worker: Worker, healthy: bool) -> None:
        with self._changed:
            keep = healthy and not self._closed
            self._lent.discard(worker)
            if keep:
                self._idle.append(worker)
            elif not self._closed:
                self.restarts += 1
            self._changed.notify()
        if not keep:
            worker.close()


def _described(error: Exception | None) -> str:
    if isinstance(error, WorkerLost | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _close_all(owner: int, idle: list[Worker], lent: set[Worker]) -> None:
    if os.getpid() != owner:
        return  # a forked copy: the workers are its parent's
    for worker in list(lent):
        worker.kill()  # closed by whoever holds it
    for worker in idle:
        worker.close()
    idle.clear()
