"""What the processes of a test use, read from /proc as bytes: they choose their own names."""

import errno
import os
from typing import NamedTuple

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (errno.ENOENT, errno.ESRCH)
_DESCRIPTOR_BYTES = 208 << 10  # what the kernel may hold for one: the queue of a local socket
_STANDARD = 3
_EXITING = 0x4  # PF_EXITING among a process's flags: its memory is gone or going


class CannotMeasure(Exception):
    """A process of the test hides what it uses."""


class Usage(NamedTuple):
    """What the processes `pids` use together."""

    cpu_s: float
    memory_bytes: int
    threads: int
    pids: list[int]


def measure(pid: int, *, everything: bool) -> Usage:
    """Of the process `pid` and, if `everything`, of all others but process 1. Raises CannotMeasure."""
    pids = [pid]
    if everything:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1"]
    ticks, memory, threads = 0, 0, 0
    for each in pids:
        fields = _stat(each)
        if not fields:
            continue
        ticks += sum(map(int, fields[11:15]))  # its own, and those of its children that have been waited for
        threads += int(fields[17])
        memory += _memory(each, shares=len(pids) > 1)
    return Usage(ticks / _CLOCK_TICKS, memory, threads, pids)


def queued_s(use: Usage) -> float:
    """Seconds in which the host kept the test waiting for a CPU: the longest wait of one of its threads.

    Threads that wait for each other's turns use CPU time meanwhile, which is taken off.
    """
    longest, threads = 0, 0
    for pid in use.pids:
        try:
            names = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for name in names:
            fields = _read(f"/proc/{pid}/task/{name}/schedstat").split()
            if len(fields) == 3:
                threads += 1
                longest = max(longest, int(fields[1]))
    own = use.cpu_s if threads > 1 else 0.0
    return longest / 1e9 - own


def _stat(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the state on; empty if the process is gone."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    """Empty if the process is gone."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError as error:
        if error.errno in _GONE:
            return b""
        raise


def _memory(pid: int, *, shares: bool) -> int:
    """Bytes of a process: its memory and page tables, and the most that the kernel may keep for it.

    `shares`: what it shares with others is counted in proportion. Raises CannotMeasure if the process lives
    and hides what it uses.
    """
    total = _sum_of(_read(f"/proc/{pid}/status"), *((b"VmPTE:",) if shares else (b"VmPTE:", b"VmRSS:")))
    if not shares:
        return total
    try:
        total += _sum_of(_read(f"/proc/{pid}/smaps_rollup"), b"Pss:")
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError as error:
        if error.errno in _GONE:
            return 0
        fields = _stat(pid)
        if not fields or int(fields[6]) & _EXITING:
            return 0
        raise CannotMeasure(f"process {pid}: {error}") from None
    return total + max(0, descriptors - _STANDARD) * _DESCRIPTOR_BYTES


def _sum_of(text: bytes, *names: bytes) -> int:
    """Bytes in the lines `NAME: N kB` of these names."""
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(names))
