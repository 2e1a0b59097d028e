"""Seconds and memory of a run: this process and everything below it, Ray and sandboxes included."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import psutil

Key = tuple[int, float]  # pid and start time: pids are used again
MIB = 1024 * 1024


class Usage(NamedTuple):
    """Since the meter started: seconds of wall clock, seconds of CPU of the whole tree."""

    wall_s: float
    cpu_s: float


@dataclass
class _Seen:
    """The last look at a process. `total` is its own CPU plus that of the children it has waited for.

    `top` is the child of the meter's process that it descends from (None for that process itself).
    """

    process: psutil.Process
    parent: int
    total: float
    waited: float
    top: Key | None = None


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
        self.peak_mib = 0.0
        self._whole = whole_process
        self._seen: dict[Key, _Seen] = {}
        self._kept_s = 0.0
        self._commands: dict[Key, Sequence[str]] = {}
        self._by_top: dict[Key, float] = {}
        self._kept_by_top: dict[Key, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._root = psutil.Process()
        age = time.time() - self._root.create_time() if whole_process else 0.0
        self._started = time.monotonic() - age
        self._cpu_before = 0.0
        self._thread = threading.Thread(target=self._watch, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        before = self._look()
        self._cpu_before = 0.0 if self._whole else before
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

    def used_by(self, owned: Callable[[Sequence[str]], bool]) -> float:
        """CPU seconds, as last seen, of the direct children whose command line is `owned`, and of all below
        them.
        """
        self._look()
        with self._lock:
            return sum(self._by_top.get(top, 0.0) for top, line in self._commands.items() if owned(line))

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
            processes = {key: each.process for key, each in self._seen.items()}
            with contextlib.suppress(psutil.Error):
                processes |= {_key(each): each for each in [self._root, *self._root.children(recursive=True)]}
            now: dict[Key, _Seen] = {}
            for key, process in processes.items():
                seen = _read(process)
                if seen is not None:
                    now[key] = seen
            self._name_tops(now)
            for each, seconds in _unaccounted(self._seen, now):
                self._kept_s += seconds
                if each.top is not None:
                    self._kept_by_top[each.top] = self._kept_by_top.get(each.top, 0.0) + seconds
            self._seen = now
            for top in {each.top for each in now.values() if each.top is not None}:
                living = sum(each.total for each in now.values() if each.top == top)
                self._by_top[top] = living + self._kept_by_top.get(top, 0.0)
            return self._kept_s + sum(each.total for each in now.values())

    def _name_tops(self, now: dict[Key, _Seen]) -> None:
        """Find the direct child that every process descends from; it is kept when a parent dies."""
        keys = {key[0]: key for key in now}
        for key, each in now.items():
            before = self._seen.get(key)
            if before is not None:
                each.top = before.top
                continue
            climb, above = key, each
            while above.parent != self._root.pid and above.parent in keys:
                climb = keys[above.parent]
                above = now[climb]
            if above.parent == self._root.pid:
                each.top = climb
        for key, each in now.items():
            if each.top == key and key not in self._commands:
                with contextlib.suppress(psutil.Error):
                    self._commands[key] = each.process.cmdline()

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


def _unaccounted(before: dict[Key, _Seen], now: dict[Key, _Seen]) -> list[tuple[_Seen, float]]:
    """Processes that ended between two looks, with the CPU seconds that no living parent's account has."""
    living = {key[0]: each for key, each in now.items()}
    was = {key[0]: each for key, each in before.items()}
    grown = {pid: each.waited - was[pid].waited for pid, each in living.items() if pid in was}
    ended = {key[0]: each for key, each in before.items() if key not in now}
    kept = []
    for pid, each in sorted(ended.items(), key=lambda item: -_below(item[0], ended)):
        if each.parent in ended:
            continue  # counted with its parent
        budget = grown.get(each.parent, 0.0)
        whole = _below(pid, ended)
        # A parent that waited has at least the last reading on its account (the slack is for clock ticks).
        part = next((part for part in (whole, each.total) if budget >= 0.95 * part - 0.02), None)
        if part is not None:
            grown[each.parent] = budget - part
        kept.append((each, whole - (part or 0.0)))
    return kept


def _below(pid: int, ended: dict[int, _Seen]) -> float:
    """Last readings of a process and of those below it that ended too."""
    return ended[pid].total + sum(
        _below(child, ended) for child, each in ended.items() if each.parent == pid and child != pid
    )


def _memory(pid: int) -> float:
    """Proportional set size of a process in bytes, the resident one where that is not to be had.

    0 for a process that has ended.
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
