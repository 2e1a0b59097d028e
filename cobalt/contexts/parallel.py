"""One function over many items in forked processes, results in order, a bounded number in flight.

Not `multiprocessing.Pool.imap`: that reads all of its input ahead, and waits forever for a child that was
killed.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from cobalt.errors import InfraError

T = TypeVar("T")
R = TypeVar("R")

CHUNK = 4  # items that are handed over together: published rows hold megabytes
_PR_SET_PDEATHSIG = 1
_AHEAD = 2  # chunks per process that wait or are done before their turn

_function: Callable[[Any], Any]


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[tuple[T, R]]:
    """Every item and its `function`, in order; in this process if `workers` is 1.

    Children inherit `function` by fork, so it needs no pickling; items and results do. They end with this
    process, however it ends. What `function` raises is raised here. Raises InfraError if a child is killed.
    """
    if workers == 1:
        yield from ((item, function(item)) for item in items)
        return
    global _function
    _function = function
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads of the parent do not survive a fork
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_enter, initargs=(os.getpid(),))
    window: deque[tuple[list[T], Future[list[R]]]] = deque()
    found = iter(items)
    try:
        while (chunk := list(islice(found, CHUNK))) or window:
            if chunk:
                window.append((chunk, pool.submit(_call, chunk)))
            if not chunk or len(window) > (1 + _AHEAD) * workers:
                given, results = window.popleft()
                yield from zip(given, results.result(), strict=True)
    except BrokenProcessPool:
        raise InfraError(
            "a worker process was killed (out of memory?); run again with fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _enter(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that took effect
        os._exit(1)


def _call(chunk: list[Any]) -> list[Any]:
    return [_function(item) for item in chunk]
