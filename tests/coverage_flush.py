"""A coverage plugin: processes that are killed (Ray's, and those that tests kill) keep what they measured."""

from __future__ import annotations

import os
import threading
from typing import Any

import coverage

SECONDS = 2.0
_save, _one = coverage.Coverage.save, threading.RLock()


def coverage_init(registry: Any, options: Any) -> None:
    """What coverage calls in every process that it measures."""
    coverage.Coverage.save = _save_alone  # type: ignore[method-assign]
    os.register_at_fork(before=_one.acquire, after_in_parent=_one.release, after_in_child=_one.release)
    threading.Thread(target=_flush, name="coverage_flush").start()


def _save_alone(self: coverage.Coverage) -> None:
    """A thread that saves closes the connections of all threads: two at once end in a segmentation fault."""
    with _one:
        _save(self)


def _flush() -> None:
    """Until the main thread ends: an interpreter that is being taken down must not find this one at work."""
    main = threading.main_thread()
    while True:
        main.join(SECONDS)
        if not main.is_alive():
            return
        current = coverage.Coverage.current()
        if current is not None:
            current.save()
