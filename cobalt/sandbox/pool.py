"""A pool of warm workers: lent to one caller at a time, started when first needed, replaced when they die."""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator

from cobalt.errors import InfraError
from cobalt.sandbox.limits import Limits, package_paths
from cobalt.sandbox.worker import Worker, WorkerLost


class Pool:
    """Workers of one isolation level, as many as callers hold at once. Thread-safe; `close` ends them all.

    A pool belongs to the process that made it: used after a fork it raises InfraError.
    """

    def __init__(self, level: str, limits: Limits) -> None:
        self._level = level
        self.restarts = 0
        self._limits = limits
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._lent: set[Worker] = set()
        self._closed = False
        # For a pool that nobody closed: at its collection, or at the end of the interpreter.
        self._finalizer = weakref.finalize(self, _close_all, self._owner, self._idle, self._lent)

    @contextlib.contextmanager
    def lend(self) -> Iterator[Worker]:
        """A worker for the length of the block. If the block raises, the worker is ended and replaced.

        Raises InfraError if the pool is closed, WorkerLost if no worker can be started.
        """
        if os.getpid() != self._owner:
            raise InfraError("a sandbox pool cannot be used after a fork: make one in each process")
        with self._lock:
            if self._closed:
                raise InfraError("the sandbox pool is closed")
            worker = self._idle.pop() if self._idle else None
            if worker is not None:
                self._lent.add(worker)
        if worker is None:
            worker = self._start()
        healthy = False
        try:
            yield worker
            healthy = True
        finally:
            self._give_back(worker, healthy)

    def close(self) -> None:
        """End every worker; callers that still use one get WorkerLost."""
        with self._lock:
            self._closed = True
        self._finalizer()

    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        with self._lock:
            return [worker.pid for worker in [*self._idle, *self._lent]]

    def _start(self) -> Worker:
        limits = self._limits
        try:
            worker = Worker(
                self._level, stack_bytes=limits.stack_limit_bytes, packages=package_paths(limits.packages)
            )
        except Exception as error:  # of any kind, as no memory or no thread to be had: a fault of ours
            why = (
                str(error) if isinstance(error, WorkerLost | OSError) else f"{type(error).__name__}: {error}"
            )
            raise WorkerLost(
                f"cannot start a sandbox worker at isolation level '{self._level}': {why}"
            ) from error
        with self._lock:
            if not self._closed:
                self._lent.add(worker)
                return worker
        worker.close()
        raise InfraError("the sandbox pool is closed")

    def _give_back(self, worker: Worker, healthy: bool) -> None:
        with self._lock:
            keep = healthy and not self._closed
            self._lent.discard(worker)
            if keep:
                self._idle.append(worker)
            elif not self._closed:
                self.restarts += 1
        if not keep:
            worker.close()


def _close_all(owner: int, idle: list[Worker], lent: set[Worker]) -> None:
    if os.getpid() != owner:
        return  # a forked copy: the workers are its parent's
    for worker in list(lent):
        worker.kill()  # closed by whoever holds it
    for worker in idle:
        worker.close()
    idle.clear()
