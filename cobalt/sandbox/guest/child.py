"""A test's own process up to the program's first line: limits, and giving up everything it must not have."""

import os
import resource
from typing import Any

from cobalt.sandbox.guest import kernel, landlock, seccomp, wire

Plan = list[tuple[int, int]]


def plan_limits(limits: wire.GuestLimits, *, processes: int | None) -> Plan:
    """Kernel limits that are the same for every test of a program."""
    memory = limits.memory_bytes
    wanted = [
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, limits.output_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),
    ]
    if processes is not None:
        wanted.append((resource.RLIMIT_NPROC, processes))
    return [(what, within_hard(what, value)) for what, value in wanted]


def within_hard(what: int, value: int) -> int:
    """`value`, or the hard limit if that is lower."""
    hard = resource.getrlimit(what)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def set_limits(plan: Plan) -> None:
    """Put limits on this process and its children."""
    for what, value in plan:
        resource.setrlimit(what, (value, value))


class Isolation:
    """What a test's process does to itself, prepared in its supervisor, which bears most of the limits already.

    `cpu_s`: CPU seconds after which the kernel ends a process; the supervisor is exact.
    """

    def __init__(self, level: Any, limits: wire.GuestLimits) -> None:
        self._level = level
        cpu_s = within_hard(resource.RLIMIT_CPU, int(limits.cpu_s) + 2)
        self._cpu = cpu_s, cpu_s
        files = within_hard(resource.RLIMIT_NOFILE, limits.files)
        self._files = files, files
        self._parent = os.getpid()

    def enter(self, descriptors: tuple[int, ...]) -> None:
        """Raises OSError if a step is refused. `descriptors` become standard input, output and error."""
        level = self._level
        if not level.own_pids:
            kernel.die_with_parent(self._parent)
        os.setsid()  # a signal to "my process group" must not find the processes above
        for number, fd in enumerate(descriptors):
            os.dup2(fd, number)
        resource.setrlimit(resource.RLIMIT_CPU, self._cpu)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
        kernel.unblock_signals()
        if level.name == "landlock":
            landlock.restrict(level.rules_fd)
        if level.name != "none":
            kernel.drop_capabilities()
        if level.test_filter:
            seccomp.install(level.test_filter, os.getpid())
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
