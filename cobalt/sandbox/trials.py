"""Attempts to break each limit of the sandbox and to use its promises; `cobalt.sandbox.levels` makes them."""

import platform
import textwrap
from collections.abc import Collection
from typing import NamedTuple

from cobalt.sandbox.policy import ENVIRONMENT, Limits

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


def program(names: Collection[str], host_pid: int, limits: Limits) -> str:
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
