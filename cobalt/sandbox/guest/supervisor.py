"""One process per program: forks a fresh child for each test, watches it and clears up.

At the `namespaces` level the supervisor is process 1 of its own process namespace. The kernel lets no signal
from inside reach it, and killing "all processes" from here leaves nothing of a test alive, forks included.
It holds no inputs, outputs or expectations, and reads nothing that a test has written.
"""

import _signal
import contextlib
import gc
import marshal
import os
import resource
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from cobalt.sandbox.guest import ending, files, namespaces, protocol, seccomp, syscalls
from cobalt.sandbox.guest.program import Program, answer_file, import_packages
from cobalt.sandbox.guest.usage import CannotMeasure, measure, queued_s

_FIRST_TICK_S, _TICK_S, _CROWD_TICK_S = 0.01, 0.1, 0.01
_PATIENCE = 10  # however busy the host: no test takes longer than this many times its wall limit
_NOTICED_S = 0.05  # waiting for less than this is not looked into
_FETCH_S = 10.0
_SET_UP_FAILED = 71
_EXIT_0 = b"\0\0\0\0"  # at the start of `protocol.USAGE`
_CHILD_ENDED = (int(signal.SIGCHLD),)
_SET_MASK = int(signal.SIG_SETMASK)


class Supervisor:
    """Serves the runs of one program until the host says end. `fn`: the function that tests call, or None."""

    def __init__(
        self, control: socket.socket, level: Any, limits: protocol.GuestLimits, fn: str | None
    ) -> None:
        self._control = control
        self._own_pids: bool = level.own_pids
        self._kills_children = level.name == "none"
        self._fn = fn
        self._limits = limits
        self._packages = level.package_names
        self._null_fd = level.null_fd
        self._isolation = _Isolation(level)
        self._folders: namespaces.Folders | None = None
        self._last_pid = self._told = self._tell = -1
        self._compiled = False
        self._mode, self._given, self._fetch = 0o444, dict[str, bytes](), list[str]()

    def serve(self, source_fd: int, code_fd: int, files_fd: int = -1) -> None:
        """Returns when the host says so. `files_fd`: what each test finds in its folder, if there is such."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD_ENDED)
        self._set_up()
        source = os.pread(source_fd, os.fstat(source_fd).st_size, 0)
        os.close(source_fd)
        if files_fd >= 0:
            given = marshal.loads(os.pread(files_fd, os.fstat(files_fd).st_size, 0))
            self._mode, self._given, self._fetch = given
            os.close(files_fd)
        import_packages(source, self._packages)
        gc.freeze()
        ending.prepare()
        program = Program(source, self._fn, code_fd, exit_and_quit=self._limits.exit_and_quit)
        # How far a test came, until it closes its end: the program itself cannot write here.
        self._told, self._tell = os.pipe2(os.O_NONBLOCK)
        while self._serve_one(program):
            pass

    def _serve_one(self, program: Program) -> bool:
        """One order of the host's; False if it was the last.

        A call of its own, so that nothing of one test is left in what the next one inherits.
        """
        what, order, descriptors = protocol.receive(self._control, protocol.ORDER_BYTES)
        if what != protocol.RUN:
            return False
        cpu_s, wall_s, only_compile = protocol.ORDER.unpack(order)
        facts = None
        if not self._compiled:
            facts = self._run(program, descriptors, cpu_s, wall_s, only_compile=True)
            self._compiled = True
            program.keep()
            if facts[1] == protocol.RUNNING and not only_compile:
                facts = None
        if facts is None:
            facts = self._run(program, descriptors, cpu_s, wall_s, only_compile=only_compile)
        for fd in descriptors:
            os.close(fd)
        self._control.send(protocol.DONE + facts)
        return True

    def _run(
        self,
        program: Program,
        descriptors: tuple[int, ...],
        cpu_s: float,
        wall_s: float,
        *,
        only_compile: bool = False,
    ) -> bytes:
        """Run a test, or the compiler in its place. Returns `protocol.FACTS` and `protocol.USAGE`."""
        if self._folders is not None:
            self._folders.begin()
            files.write(self._given, self._mode)
        if self._last_pid >= 0:
            # Every test gets the same process id: the next one must not tell what the last one started.
            os.pwrite(self._last_pid, b"1", 0)
        start = time.monotonic()
        pid = syscalls.fork()
        if pid == 0:
            self._test(program, descriptors, only_compile)
        facts = self._watch(pid, start, cpu_s, wall_s)
        if self._fetch and not only_compile:
            self._send_files(descriptors[3])
        if self._folders is not None:
            self._folders.renew()
        return facts

    def _send_files(self, fd: int) -> None:
        """Files that a test left, read with a test's rights by a process of ours when the test is gone."""
        pid = syscalls.fork()
        if pid == 0:
            try:
                self._isolation.enter(self._null_fd, fd, self._null_fd)
                files.send(self._fetch)
            finally:
                os._exit(0)
        self._watch(pid, time.monotonic(), _FETCH_S, _FETCH_S)

    def _set_up(self) -> None:
        processes = None
        if self._own_pids:
            with contextlib.suppress(OSError):
                self._last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
            namespaces.private_processes()
            os.listdir("/proc")  # process 1 is refused from now on, instead of not being found at first
            self._folders = namespaces.Folders(self._limits.tmp_bytes)
            # Counted are those of the worker's user namespace: waiter, zygote and supervisor too.
            processes = self._limits.processes + 3
        elif self._kills_children:
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        _set_limits(self._limits, processes)
        if self._limits.memory_bytes < 1 << 30:
            syscalls.set_thread_stack(self._limits.memory_bytes >> 7)

    def _test(self, program: Program, descriptors: tuple[int, ...], only_compile: bool) -> NoReturn:
        """The child: becomes a test."""
        answer = None
        try:
            if program.answers:
                answer = answer_file(descriptors[1], self._limits.output_bytes)
                descriptors = descriptors[0], self._null_fd, descriptors[2]
            self._isolation.enter(*descriptors[:3])
        except BaseException as error:
            with contextlib.suppress(BaseException):
                os.write(self._tell, protocol.SET_UP_FAILED + repr(error).encode()[:4000])
            os._exit(_SET_UP_FAILED)
        if only_compile:
            program.compile(self._tell)
        if self._given:
            sys.path.insert(0, os.getcwd())  # as a script's folder is: modules may be among the files
        code, plain = program.load(self._tell)
        os.closerange(3, 1 << 16)
        program.run(code, plain, answer)

    def _watch(self, pid: int, start: float, cpu_s: float, wall_s: float) -> bytes:
        """Wait for a test's end or bring it about. Returns `protocol.FACTS` and `protocol.USAGE`."""
        _signal.sigtimedwait(_CHILD_ENDED, min(_FIRST_TICK_S, cpu_s, wall_s))
        why, queued, wait = "", 0.0, _FIRST_TICK_S
        while (seen := syscalls.wait(pid, syscalls.WNOHANG)) is None and not why:
            why, queued, wait = self._look(pid, time.monotonic() - start, cpu_s, wall_s, wait)
            if not why:
                _signal.sigtimedwait(_CHILD_ENDED, wait)
        if why:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        seen = seen or syscalls.wait(pid) or b""
        wall = time.monotonic() - start
        left = self._kill_rest()
        phase = protocol.RUNNING if self._compiled and seen.startswith(_EXIT_0) else self._phase()
        facts = protocol.FACTS.pack(protocol.WHY.index(why), phase, wall, queued, left)
        syscalls.forget_usage()
        return facts + seen

    def _look(
        self, pid: int, wall: float, cpu_s: float, wall_s: float, tick: float
    ) -> tuple[str, float, float]:
        """The limit that the test is over ("": none), how long the host let it wait, when to look again."""
        limits = self._limits
        try:
            use = measure(pid, everything=self._own_pids)
        except CannotMeasure:
            return "memory", 0.0, 0.0
        queued = 0.0
        if wall - use.cpu_s > _NOTICED_S:
            queued = max(0.0, queued_s(use))
        why = ""
        if use.cpu_s >= cpu_s:
            why = "cpu"
        elif wall - queued >= wall_s or wall >= _PATIENCE * wall_s:
            why = "wall"
        elif use.memory_bytes > limits.memory_bytes:
            why = "memory"
        elif use.threads > limits.processes:
            why = "processes"
        tick = _CROWD_TICK_S if len(use.pids) > 1 else min(_TICK_S, 2 * tick)
        return why, queued, min(tick, max(0.002, min(cpu_s - use.cpu_s, abs(wall_s + queued - wall))))

    def _phase(self) -> int:
        """How far the test came: `protocol.COMPILES` or `RUNNING`. Raises OSError if it was not set up."""
        try:
            words = os.read(self._told, 1 << 12)
        except BlockingIOError:
            return protocol.RUNNING
        if words[:1] == protocol.SET_UP_FAILED:
            raise OSError(f"a test could not be set up: {words[1:].decode(errors='replace')}")
        return protocol.RUNNING if words.endswith(protocol.COMPILED) else protocol.COMPILES

    def _kill_rest(self) -> float:
        """End whatever a test left behind; returns the CPU seconds that it had used."""
        if not self._kills_children and not (self._own_pids and syscalls.kill_all()):
            return 0.0  # nobody is left, not even to be waited for
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        while True:
            if self._kills_children:
                for orphan in _children():
                    os.kill(orphan, signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(each) for each in file.read().split()]


def _set_limits(limits: protocol.GuestLimits, processes: int | None) -> None:
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


class _Isolation:
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
            syscalls.landlock_restrict(level.rules_fd)
        if self._filter is not None:
            self._filter.install(os.getpid())
