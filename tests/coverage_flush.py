"""A coverage plugin: processes that are killed (Ray's, and those that tests kill) keep what they measured."""

from __future__ import annotations

import threading
import time
from typing import Any

import coverage

SECONDS = 2.0


def coverage_init(registry: Any, options: Any) -> None:
    """What coverage calls in every process that it measures."""
    threading.Thread(target=_flush, name="coverage_flush", daemon=True).start()


def _flush() -> None:
    while True:
        time.sleep(SECONDS)
        current = coverage.Coverage.current()
        if current is not None:
            current.save()
