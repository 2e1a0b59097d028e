"""Which isolation levels this machine gives: every limit is tried from inside, none is assumed."""

import contextlib
import functools
import json
import os
import platform
import textwrap
import threading
import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from cobalt.errors import InfraError, InputError
from cobalt.sandbox.limits import ENVIRONMENT, LEVELS, Limits, host_obstacles
from cobalt.sandbox.worker import Worker, WorkerLost

_ADVICE = {
    "namespaces": "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_user_namespaces>0; in Docker also --security-opt seccomp=unconfined --security-opt "
    "systempaths=unconfined), or use the level landlock (--evaluator local:landlock)",
    "landlock": "use a kernel of version 5.13 or later with Landlock enabled (lsm=landlock,...), "
    "or allow unprivileged user namespaces",
    "none": "check that this interpreter can be started as a child process",
}

_BOTH = ("namespaces", "landlock")
_NAMESPACES = ("namespaces",)


class Trial(NamedTuple):
    """`code` is a function body that breaks the limit unless it raises; `levels` says where it must hold.

    If it `works`, it uses what a program is promised and must not raise.
    """

    name: str
    levels: tuple[str, ...]
    code: str
    works: bool = False


TRIALS = (
    Trial("host files cannot be read", _BOTH, "open('/etc/passwd').read()"),
    Trial("host files cannot be listed", _BOTH, "assert 'home' in os.listdir('/')"),
    Trial("the interpreter's files cannot be written", _BOTH, "open(os.__file__, 'a')"),
    Trial("nothing is left in /tmp", _NAMESPACES, "assert os.listdir('/tmp'); "),
    Trial("nothing is left in /dev/shm", _NAMESPACES, "assert os.listdir('/dev/shm')"),
    Trial("no writable place outside", ("landlock",), "open('/tmp/trial', 'w')"),
    Trial("no network socket", _BOTH, "socket.socket(socket.AF_INET, socket.SOCK_STREAM)"),
    Trial("no socket to the host", _BOTH, "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)"),
    Trial("no programs are started", _BOTH, "os.execv(sys.executable, [sys.executable, '-c', 'pass'])"),
    Trial("no new user namespace", _BOTH, "call(libc.unshare(0x10000000))"),
    Trial("no new mount", _BOTH, "call(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))"),
    Trial("no process can be traced", _BOTH, "call(libc.ptrace(16, os.getppid(), 0, 0))"),
    Trial("no signal reaches the host", _BOTH, "os.kill({host}, 0)"),
    Trial("no signal harms the supervisor", _BOTH, "os.kill(os.getppid(), 15); assert os.getppid() == 0"),
    Trial("the supervisor's limits cannot be set", _BOTH, "resource.prlimit(os.getppid(), 0, (1, 1))"),
    Trial("no new process", ("landlock",), "os.fork() or os._exit(0)"),
    Trial("no more than the process limit", _NAMESPACES, "processes()"),
    Trial("no more than the memory limit", _BOTH, "bytearray(1 << 31)"),
    Trial("no other user", _BOTH, "os.setuid(0); assert os.getuid() == 0 and open('/proc/1/environ').read()"),
    Trial("privileges cannot come back", _BOTH, "assert libc.prctl(39, 0, 0, 0, 0) != 1"),
    Trial("no kernel program can be loaded", _BOTH, "call(libc.syscall({bpf}, 0, 0, 0))"),
    Trial("no asynchronous ring", _BOTH, "call(libc.syscall(425, 8, ctypes.create_string_buffer(256)))"),
    Trial("environment is clean", _BOTH, "assert set(os.environ) - {clean}"),
    Trial("only descriptors 0, 1 and 2", _BOTH, "assert descriptors() - {{0, 1, 2}}"),
    Trial("no System V objects", _BOTH, "call(libc.shmget(0, 4096, 0o1600))"),
    Trial("no call that is not on the list", _BOTH, "call(libc.syscall(599))"),
    Trial("the process above is not shown", _NAMESPACES, "open('/proc/1/stat').read()"),
    Trial("memory cannot be hidden", _BOTH, "call(libc.prctl(4, 0, 0, 0, 0))"),
    Trial("processes as promised", _NAMESPACES, "assert forked >= {processes} - 2, forked", works=True),
    Trial("threads as promised", _BOTH, "threads({processes} - 1)", works=True),
    Trial("open files as promised", _BOTH, "open_files({files} - 8)", works=True),
    Trial("memory as promised", _BOTH, "bytearray({memory} // 2)", works=True),
    Trial("deep recursion", _BOTH, "recursion({depth})", works=True),
    Trial("the usual devices", _BOTH, "open('/dev/null', 'w').write('x'); os.urandom(8)", works=True),
    Trial("files as large as promised", _NAMESPACES, "file_of({output})", works=True),
    Trial(
        "streams are pipes",
        _BOTH,
        "assert not sys.stdin.seekable() and not sys.stdout.seekable()",
        works=True,
    ),
)

_DEPTH = 40_000  # of recursion through C code: three times what a stack of 8 MiB allows

_HEAD = """
import ctypes, errno, functools, json, os, resource, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
forked = 0
def processes():
    global forked
    children = []
    try:
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                time.sleep(5)
                os._exit(0)
            children.append(pid)
    finally:
        forked = len(children)
        for pid in children: os.kill(pid, 9)
        for pid in children: os.waitpid(pid, 0)
def descriptors():
    found = set()
    for fd in range(256):
        try: os.fstat(fd)
        except OSError: continue
        found.add(fd)
    return found
def threads(count):
    go = threading.Event()
    started = [threading.Thread(target=go.wait) for _ in range(count)]
    try:
        for each in started: each.start()
    finally: go.set()
def open_files(count):
    found = []
    try:
        for _ in range(count): found.append(os.dup(0))
    finally:
        for fd in found: os.close(fd)
def recursion(depth):
    sys.setrecursionlimit(4 * depth + 1000)
    @functools.lru_cache(None)
    def f(n): return n and f(n - 1)
    f(depth)
def file_of(size):
    with open('/tmp/large', 'wb') as file: file.truncate(size)
    os.remove('/tmp/large')
answers = {}
def use(name, work):
    try:
        work()
    except Exception as error:
        answers[name] = f"broken: {type(error).__name__}: {error}"
    else:
        answers[name] = "held"
def attempt(name, work):
    try:
        work()
    except (OSError, MemoryError, AssertionError, RuntimeError, ValueError):
        answers[name] = "held"
    else:
        answers[name] = "broken: it was possible"
"""

_TAIL = """
for folder in ('/tmp', '/dev/shm'):
    try: open(folder + '/left', 'w').write('x')
    except OSError: pass
print(json.dumps(answers))
"""


def _program(names: Collection[str], host_pid: int, limits: Limits) -> str:
    """A program that makes the attempts called `names` and prints a JSON object of name to answer."""
    values = {
        "host": host_pid,
        "bpf": {"x86_64": 321, "aarch64": 280}.get(platform.machine(), 321),
        "clean": str({*ENVIRONMENT, "LC_CTYPE"}),
        "processes": limits.processes,
        "files": limits.files,
        "memory": limits.memory_bytes,
        "output": limits.output_bytes,
        "depth": min(_DEPTH, limits.stack_limit_bytes // 4096),
    }
    parts = [_HEAD]
    for number, trial in enumerate(TRIALS):
        if trial.name in names:
            body = textwrap.indent(trial.code.format(**values), "    ")
            how = "use" if trial.works else "attempt"
            parts.append(f"def trial_{number}():\n{body}\n{how}({trial.name!r}, trial_{number})\n")
    return "".join([*parts, _TAIL])


_lock = threading.Lock()


def try_limits(
    level: str, limits: Limits | None = None, *, names: Collection[str] | None = None
) -> dict[str, str]:
    """What came of trying to break each limit at `level`, and to use each promise: `held` or `broken: ...`.

    `names`: which to try; by default all that belong to the level. `limits`: what is promised, times apart.
    Raises InfraError if no worker can be started at that level.
    """
    limits = replace(limits or Limits(), cpu_s=10.0, wall_s=None, suite_s=10.0)
    if names is None:
        names = [each.name for each in TRIALS if level in each.levels]
    code = _program(names, os.getpid(), limits).encode()
    found: dict[str, str] = {}
    try:
        with (
            contextlib.closing(Worker(level, stack_bytes=limits.stack_limit_bytes)) as worker,
            worker.program(code, limits) as trial,
        ):
            for _ in range(2):  # a second run looks for what the first one left behind
                facts = trial.run(b"")
                if facts.returncode != 0 or facts.limit:
                    how = f"limit {facts.limit}" if facts.limit else f"exit code {facts.returncode}"
                    said = facts.stderr.decode(errors="replace")[-500:]
                    raise InfraError(f"isolation level '{level}': the probe ended with {how}. {said}")
                found = json.loads(facts.stdout) | {
                    name: answer for name, answer in found.items() if answer != "held"
                }
    except (WorkerLost, OSError) as error:
        raise InfraError(f"isolation level '{level}' is not available here: {error}") from None
    return found


@functools.cache
def _why_not(level: str, pid: int, limits: Limits) -> str:
    """Empty if the level works and holds; otherwise what is wrong."""
    try:
        found = try_limits(level, limits).items()
        broken = [f"{name} ({answer})" for name, answer in found if answer != "held"]
    except InfraError as error:
        return str(error)
    return f"isolation level '{level}' does not hold here: {', '.join(broken)}" if broken else ""


def resolve(isolation: str, limits: Limits | None = None) -> str:
    """The level to use for `isolation`: a level's name, or `auto` for the best one that really works.

    `none` is never chosen by `auto`, and warns. Raises InputError for an unknown name and InfraError, with
    the reason and what to do about it, for a level that this machine does not give, or if the host's own
    limits are below what `limits` promise to programs.
    """
    if isolation not in ("auto", *LEVELS):
        raise InputError(f"isolation must be one of auto, {', '.join(LEVELS)}, got {isolation!r}")
    limits = limits or Limits()
    obstacles = host_obstacles(limits)
    if obstacles:
        raise InfraError(
            "the limits of this process are below what programs are promised:\n" + "\n".join(obstacles)
        )
    limits = replace(limits, cpu_s=10.0, wall_s=None, suite_s=10.0)  # of no concern to what is tried
    if isolation == "none":
        warnings.warn(
            "isolation 'none': programs can read and change your files and reach the network", stacklevel=3
        )
        return isolation
    reasons = []
    for level in LEVELS[:-1] if isolation == "auto" else [isolation]:
        with _lock:
            why = _why_not(level, os.getpid(), limits)
        if not why:
            return level
        reasons.append(f"{why}\n  to change that: {_ADVICE[level]}")
    raise InfraError("no safe way to run programs was found:\n" + "\n".join(reasons))
