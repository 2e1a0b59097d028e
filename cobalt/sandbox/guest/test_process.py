"""A test's own process up to the program's first line: limits, and giving up everything it must not have."""

import _signal
import os
import resource
import signal
from typing import Any

from cobalt.sandbox.guest import landlock, protocol, seccomp, syscalls

_SET_MASK = int(signal.SIG_SETMASK)


def set_limits(limits: protocol.GuestLimits, *, processes: int | None) -> None:
    """Put the limits of a program's tests on its supervisor, from which they inherit them.

    None is set above the host's own hard limit.
    """
    memory = limits.memory_bytes
    wanted = [
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, limits.output_bytes),
        (resource.RLIMIT_NOFILE, limits.files),
        # The supervisor is exact, and lives under this limit too.
        (resource.RLIMIT_CPU, 10 * int(limits.cpu_s) + 60),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),
    ]
    if processes is not None:
        wanted.append((resource.RLIMIT_NPROC, processes))
    for what, value in wanted:
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


class Isolation:
    """What a test's process does to itself, prepared in its supervisor, whose limits it inherits.

    It is kept short: every object that is touched after a fork is a page copied.
    """

    def __init__(self, level: Any) -> None:
        self._level = level
        self._parent = os.getpid()
        self._filter = seccomp.Prepared(level.test_filter) if level.test_filter else None

    def enter(self, stdin: int, stdout: int, stderr: int) -> None:
        """Raises OSError if a step is refused. The descriptors become standard input, output and error."""
        level = self._level
        if not level.own_pids:
            syscalls.die_with_parent(self._parent)
        os.setsid()  # a signal to "my process group" must not find the processes above
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        _signal.pthread_sigmask(_SET_MASK, ())
        if level.own_pids:
            syscalls.drop_capabilities()
        elif level.rules_fd >= 0:
            landlock.restrict(level.rules_fd)
        if self._filter is not None:
            self._filter.install(os.getpid())
