"""Whose doing the end of a run was: a limit's, the program's own, or that of a host without memory."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import RunFacts, WorkerLost

FAULTS = (WorkerLost, OSError, MemoryError)  # the latter two: descriptors or memory of this process
PAUSE_S = 0.2  # before another try: memory, descriptors or processes may be wanting for a moment


def counters() -> list[Path]:
    """Files with the kernel's `oom_kill` counters: the machine's, and this control group's (version 2)."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        groups = []
    own = [group.removeprefix("0::/") for group in groups if group.startswith("0::/")]
    return [Path("/proc/vmstat"), *(Path("/sys/fs/cgroup", group, "memory.events") for group in own)]


class MemoryKills:
    """Tells whether the kernel may have killed a process for memory of the host since some moment.

    The counters are read only when asked, so a rise is known to lie between two readings: a kill before
    that moment may be taken for one after it, never the reverse. Thread-safe.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = list(files)
        self._lock = threading.Lock()
        self._seen = self._read()
        self._rose_at = float("-inf")

    def since(self, moment: float) -> bool | None:
        """Whether there may have been one since `moment` (`time.monotonic`); None if that cannot be read."""
        with self._lock:
            found = self._read()
            if any(count > self._seen.get(file, 0) for file, count in found.items()):
                self._rose_at = time.monotonic()
            self._seen = found or self._seen
            return self._rose_at >= moment if found else None

    def _read(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for file in self._files:
            with contextlib.suppress(OSError):
                fields = map(str.split, file.read_text().splitlines())
                found.update((file, int(field[1])) for field in fields if field[:1] == ["oom_kill"])
        return found


_memory_kills = MemoryKills(counters())


def check_end(facts: RunFacts, began: float) -> None:
    """Raise WorkerLost if a run since `began` was killed and the host may have done it for want of memory.

    A program may kill itself. Where the kernel has counted no such kill, or a limit of ours struck, the end
    is the program's own; where it cannot be asked, no verdict is made of a kill that nobody can explain.
    """
    if facts.returncode != -signal.SIGKILL or facts.limit:
        return
    killed = _memory_kills.since(began)
    if killed is None:
        raise WorkerLost("a test was killed, and whether the host lacked memory cannot be read here")
    if killed:
        raise WorkerLost("a test was killed while the host ran out of memory")


def too_long(source: bytes, limits: Limits) -> str | None:
    """What is said of a program that is not run for its length."""
    said = f"Program is longer than {limits.source_bytes} bytes."
    return said if len(source) > limits.source_bytes else None


def out_of_memory(facts: RunFacts, stderr: str) -> bool:
    """Whether a run ended for want of the memory it may use."""
    if facts.limit == "memory":
        return True
    last = stderr.rstrip().rpartition("\n")[2]
    return facts.returncode != 0 and last.startswith("MemoryError")
