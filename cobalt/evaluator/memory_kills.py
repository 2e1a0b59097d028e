"""Kills for want of memory that the kernel has counted: was it the host that ended a program?"""

import threading
import time
from collections.abc import Iterable
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def counters() -> list[Path]:
    """Files with the kernel's `oom_kill` counters: the machine's, and this control group's (version 2)."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        groups = []
    own = [group.removeprefix("0::/") for group in groups if group.startswith("0::/")]
    return [Path("/proc/vmstat"), *(_CGROUP_ROOT / group / "memory.events" for group in own)]


class MemoryKills:
    """Tells whether the kernel may have killed a process for memory of the host since some moment.

    The counters are read only when asked, so a rise is known to lie between two readings: a kill before
    that moment may be taken for one after it, never the reverse. Thread-safe.
    """

    def __init__(self, files: Iterable[Path] | None = None) -> None:
        self._files = counters() if files is None else list(files)
        self._lock = threading.Lock()
        self._seen = self._read()
        self._rose_at = float("-inf")

    def since(self, moment: float) -> bool | None:
        """Whether there may have been one since `moment` (`time.monotonic`); None if that cannot be read."""
        with self._lock:
            found = self._read()
            if not found:
                return None
            if any(count > self._seen.get(file, 0) for file, count in found.items()):
                self._rose_at = time.monotonic()
            self._seen = found
            return self._rose_at >= moment

    def _read(self) -> dict[Path, int]:
        found = {}
        for file in self._files:
            try:
                fields = [line.split() for line in file.read_text().splitlines()]
            except OSError:
                continue
            for field in fields:
                if field[:1] == ["oom_kill"]:
                    found[file] = int(field[1])
        return found
