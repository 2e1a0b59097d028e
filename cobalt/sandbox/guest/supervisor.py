"""One process per program: compiles it once, runs each test in a fresh child, watches and clears up.

At the `namespaces` level the supervisor is process 1 of its own process namespace. The kernel lets no signal
from inside reach it, and killing "all processes" from here leaves nothing of a test alive, forks included.
It holds no inputs, outputs or expectations: a test inherits its memory, and could look.
"""

import contextlib
import gc
import marshal
import mmap
import os
import select
import signal
import socket
import time
from types import CodeType
from typing import Any, NamedTuple

from cobalt.sandbox.guest import box, child, kernel, wire

_FIRST_TICK_S, _TICK_S, _CROWD_TICK_S = 0.01, 0.1, 0.01
_PATIENCE = 10  # however busy the host: no test takes longer than this many times its wall limit
_SIGKILL, _POLLIN = int(signal.SIGKILL), int(select.POLLIN)
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Supervisor:
    """Serves the runs of one program until the host says end. `fn`: the function that tests call, or None."""

    def __init__(self, control: socket.socket, level: Any, limits: wire.GuestLimits, fn: str | None) -> None:
        self._control = control
        self._level = level
        self._own_pids: bool = level.own_pids
        self._fn = fn
        self._limits = limits
        # Processes are counted within the worker's user namespace: zygote and supervisor are two of them.
        processes = limits.processes + 2 if level.own_pids else None
        self._plan = child.plan_limits(limits, processes=processes)
        self._plans: dict[tuple[int, int], child.Plan] = {}  # by CPU seconds and bytes of output
        self._folders = box.folder_options(limits.tmp_bytes)
        self._ready = mmap.mmap(-1, _PAGE)  # shared with the child until the program starts
        self._poller = select.poll()
        self._poller.register(control.fileno(), 0)
        self._source = b""
        self._code: CodeType | None = None
        self._last_pid = -1

    def serve(self, source_fd: int, stderr_fd: int, code_fd: int) -> None:
        """Returns when the host says so. The last two receive what the compiler says, and what it makes."""
        if self._level.own_pids:
            with contextlib.suppress(OSError):
                last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
                os.pwrite(last_pid, b"1", 0)
                self._last_pid = last_pid
            box.private_processes()
        elif self._level.name == "none":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._source = _read_all(source_fd)
        os.close(source_fd)
        self._control.send(wire.COMPILED + self._compile(stderr_fd, code_fd))
        os.close(stderr_fd)
        os.close(code_fd)
        child.remember_source(self._source)
        child.import_packages(self._source, self._level.imports)
        self._renewals = child.renewals(self._source)
        self._main = child.prepare(self._fn, exit_and_quit=self._limits.exit_and_quit)
        gc.freeze()
        while True:
            what, order, descriptors = wire.receive(self._control)
            if what != wire.RUN:
                return
            self._control.send(wire.DONE + self._run(order, descriptors))

    def _compile(self, stderr_fd: int, code_fd: int) -> bytes:
        """Compile in a child: a hostile source may exhaust time, memory or the compiler's own stack."""

        def work() -> None:
            os.dup2(stderr_fd, 2)
            child.set_limits(child.add_limits(self._plan, cpu_s=self._limits.cpu_s, file_bytes=1 << 28))
            self._ready[0] = 1
            child.compile_to(code_fd, self._source)

        limits = self._limits
        status, facts = self._watch(work, limits.cpu_s, limits.wall_s)
        with contextlib.suppress(ValueError, EOFError, TypeError, MemoryError, RecursionError):
            loaded = marshal.loads(_read_all(code_fd)) if status == 0 else None
            self._code = loaded if isinstance(loaded, CodeType) else None
        return facts

    def _run(self, order: bytes, descriptors: tuple[int, ...]) -> bytes:
        parent = os.getpid()
        cpu_s, wall_s, output_bytes = wire.ORDER.unpack(order)
        key = int(cpu_s), output_bytes
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = child.add_limits(self._plan, cpu_s=cpu_s, file_bytes=output_bytes)

        def work() -> None:
            child.isolate(self._level, plan, self._folders, descriptors, parent)
            self._ready[0] = 1
            self._ready.close()
            for renew in self._renewals:
                renew()
            child.run(self._main, self._code, self._source, self._fn)

        facts = self._watch(work, cpu_s, wall_s)[1]
        for fd in descriptors:
            os.close(fd)
        return facts

    def _watch(self, work: Any, cpu_s: float, wall_s: float) -> tuple[int, bytes]:
        """Run `work` in a child to its end or a limit. Returns its exit status and `wire.FACTS`."""
        self._ready[0] = 0
        if self._last_pid >= 0:
            # Every test gets the same process id: the next one must not tell what the last one started.
            os.pwrite(self._last_pid, b"1", 0)
        start = time.monotonic()
        pid = kernel.fork()
        if pid == 0:
            try:
                work()
            except BaseException as error:
                with contextlib.suppress(BaseException):
                    os.write(2, f"sandbox: {error!r}\n".encode())
            finally:
                os._exit(71)
        gone = os.pidfd_open(pid)
        self._poller.register(gone, _POLLIN)
        why = ""
        tick = _FIRST_TICK_S
        wait = min(tick, cpu_s, wall_s)
        while not why:
            events = dict(self._poller.poll(max(1, wait * 1000)))
            if gone in events:
                break
            if events:
                os._exit(72)  # the host has gone; our end takes everything inside with it
            use = self._usage(pid)
            wall = time.monotonic() - start
            if use.cpu_s >= cpu_s:
                why = "cpu"
            elif wall >= wall_s and (wall - _queued_s(use.pids) >= wall_s or wall >= _PATIENCE * wall_s):
                why = "wall"
            elif use.memory_bytes > self._limits.memory_bytes:
                why = "memory"
            elif use.threads > self._limits.processes:
                why = "processes"
            tick = _CROWD_TICK_S if len(use.pids) > 1 else min(_TICK_S, 2 * tick)
            left = min(cpu_s - use.cpu_s, abs(wall_s - wall))
            wait = min(tick, max(0.002, left))
        self._poller.unregister(gone)
        os.close(gone)
        if why:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, _SIGKILL)
        status, usage = os.wait4(pid, 0)[1:]
        wall = time.monotonic() - start
        cpu = usage.ru_utime + usage.ru_stime + self._kill_rest()
        why = why or ("cpu" if cpu >= cpu_s else "")
        code = os.waitstatus_to_exitcode(status)
        place, peak = wire.WHY.index(why), usage.ru_maxrss * 1024
        return code, wire.FACTS.pack(code, place, self._ready[0], cpu, wall, peak)

    def _kill_rest(self) -> float:
        """End whatever a test left behind; returns the CPU seconds that it had used."""
        if self._own_pids:
            try:
                os.kill(-1, _SIGKILL)
            except ProcessLookupError:
                return 0.0  # nobody is left, not even to be waited for
        cpu = 0.0
        while True:
            if self._level.name == "none":
                for orphan in _children():
                    os.kill(orphan, _SIGKILL)
            try:
                usage = os.wait4(-1, 0)[2]
            except ChildProcessError:
                return cpu
            cpu += usage.ru_utime + usage.ru_stime

    def _usage(self, pid: int) -> "_Usage":
        """What the test's processes use together."""
        pids = [pid]
        if self._level.own_pids:
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1"]
        cpu, memory, threads = 0.0, 0, 0
        for each in pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                cpu += kernel.cpu_seconds(each)
                with open(f"/proc/{each}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                threads += int(fields[17])
                cpu += (int(fields[13]) + int(fields[14])) / _CLOCK_TICKS  # children that have been reaped
                if len(pids) > 1:
                    memory += _private_bytes(each)
        return _Usage(cpu, memory, threads, pids)


class _Usage(NamedTuple):
    """What the processes `pids` use together."""

    cpu_s: float
    memory_bytes: int
    threads: int
    pids: list[int]


def _queued_s(pids: list[int]) -> float:
    """The longest time that a thread of these was ready to run while the host gave it no CPU."""
    longest = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    longest = max(longest, int(file.read().split()[1]))
    return longest / 1e9


def _private_bytes(pid: int) -> int:
    """Memory of a process, what it shares with others counted in proportion."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(each) for each in file.read().split()]


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(fd, min(1 << 24, size - offset), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
