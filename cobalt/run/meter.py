"""Seconds and memory of a run: this process and everything below it, Ray and sandboxes included."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

Key = tuple[int, float]  # pid and start time: pids are used again
MIB = 1024 * 1024


class Usage(NamedTuple):
    """Since the meter started: seconds of wall clock, seconds of CPU of the whole tree."""

    wall_s: float
    cpu_s: float


@dataclass
class _Seen:
    """The last look at a process. `total` is its own CPU plus that of the children it has waited for."""

    process: psutil.Process
    parent: int
    total: float
    waited: float


class Meter:
    """Samples the process tree from a thread; use it as a context manager.

    CPU seconds: a child's time reaches its parent's account only when the parent waits for it, which Ray and
    others do not always do. So every process ever seen below this one is watched until it ends, even when its
    parent dies first; if it ends and no parent's account grew by its time, its last reading is kept. Missed
    is only what such a process used after the last look (`every_s`), and processes that nobody waited for and
    that lived between two looks.

    Memory: the sum over the tree of proportional set sizes (shared pages divided among their users); the
    resident size where the kernel does not tell. `peak_mib` is the highest sum at any look.

    `every_s`: seconds between looks, at least. `whole_process`: count from the start of this process, imports
    included, instead of from the start of the meter.
    """

    def __init__(self, every_s: float = 1.0, *, whole_process: bool = False) -> None:
        self.every_s = every_s
        self._whole = whole_process
        self.peak_mib = 0.0
        self._seen: dict[Key, _Seen] = {}
        self._kept_s = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._root = psutil.Process()
        age = time.time() - self._root.create_time() if whole_process else 0.0
        self._started = time.monotonic() - age
        self._cpu_before = 0.0
        self._thread = threading.Thread(target=self._watch, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._cpu_before = 0.0 if self._whole else self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def usage(self) -> Usage:
        """Seconds so far."""
        cpu_s = self._look() - self._cpu_before
        return Usage(time.monotonic() - self._started, cpu_s)

    def _watch(self) -> None:
        pause = self.every_s
        while not self._stop.wait(pause):
            began = time.thread_time()
            self._look()
            self._weigh()
            # A look costs milliseconds with few processes and more with many: at most 2 % of one core.
            pause = max(self.every_s, 50 * (time.thread_time() - began))

    def _look(self) -> float:
        """Update every process; CPU seconds of the tree so far."""
        with self._lock:
            processes = {_key(each.process): each.process for each in self._seen.values()}
            with contextlib.suppress(psutil.Error):
                processes |= {_key(each): each for each in [self._root, *self._root.children(recursive=True)]}
            now: dict[Key, _Seen] = {}
            for key, process in processes.items():
                seen = _read(process)
                if seen is not None:
                    now[key] = seen
            self._kept_s += _unaccounted(self._seen, now)
            self._seen = now
            return self._kept_s + sum(each.total for each in now.values())

    def _weigh(self) -> None:
        with self._lock:
            pids = [key[0] for key in self._seen]
        self.peak_mib = max(self.peak_mib, sum(_memory(pid) for pid in pids) / MIB)


def _key(process: psutil.Process) -> Key:
    return process.pid, process.create_time()


def _read(process: psutil.Process) -> _Seen | None:
    try:
        if not process.is_running():
            return None
        with process.oneshot():
            times, parent = process.cpu_times(), process.ppid()
    except psutil.Error:
        return None
    waited = times.children_user + times.children_system
    return _Seen(process, parent, times.user + times.system + waited, waited)


def _unaccounted(before: dict[Key, _Seen], now: dict[Key, _Seen]) -> float:
    """CPU seconds of processes that ended between two looks and that no living parent has waited for."""
    living = {key[0]: each for key, each in now.items()}
    was = {key[0]: each for key, each in before.items()}
    grown = {pid: each.waited - was[pid].waited for pid, each in living.items() if pid in was}
    ended = {key[0]: each for key, each in before.items() if key not in now}
    kept = 0.0
    for pid, each in sorted(ended.items(), key=lambda item: -_below(item[0], ended)):
        if each.parent in ended:
            continue  # counted with its parent, below
        budget = grown.get(each.parent, 0.0)
        whole = _below(pid, ended)
        # A parent that waited has at least the last reading on its account (the slack is for clock ticks).
        for part in (whole, each.total):
            if budget >= 0.95 * part - 0.02:
                grown[each.parent] = budget - part
                kept += whole - part
                break
        else:
            kept += whole
    return kept


def _below(pid: int, ended: dict[int, _Seen]) -> float:
    """Last readings of a process and of those below it that ended too."""
    return ended[pid].total + sum(
        _below(child, ended) for child, each in ended.items() if each.parent == pid and child != pid
    )


def _memory(pid: int) -> float:
    """Proportional set size of a process in bytes, the resident one where that is not to be had, 0 if it
    ended.
    """
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
