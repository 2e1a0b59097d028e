"""The memory of a run at its highest: this process and everything below it, Ray and sandboxes included."""

from __future__ import annotations

import contextlib
import threading
import time

import psutil

MIB = 1024 * 1024


class MemoryPeak:
    """Watches the process tree from a thread; use it as a context manager.

    `peak_mib`: the highest sum over the tree of proportional set sizes (shared pages divided among their
    users; the resident size where the kernel does not tell), looked at every `every_s` seconds at most.
    """

    def __init__(self, every_s: float = 1.0) -> None:
        self.peak_mib = 0.0
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        own, pause = psutil.Process(), self._every_s
        while not self._stop.wait(pause):
            began = time.thread_time()
            with contextlib.suppress(psutil.Error):
                tree = [own.pid, *(child.pid for child in own.children(recursive=True))]
                self.peak_mib = max(self.peak_mib, sum(map(_memory, tree)) / MIB)
            # A look costs milliseconds with few processes and more with many: at most 2 % of one core.
            pause = max(self._every_s, 50 * (time.thread_time() - began))


def _memory(pid: int) -> float:
    """Proportional set size of a process in bytes; 0 for one that has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as handle:
            for line in handle:
                if line.startswith(b"Pss:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0.0
