"""Attempts to break each limit of the sandbox, run inside it by `cobalt.sandbox.levels`."""

import platform
import textwrap
from collections.abc import Collection
from typing import NamedTuple

from cobalt.sandbox.policy import ENVIRONMENT

_BOTH = ("namespaces", "landlock")
_NAMESPACES = ("namespaces",)


class Trial(NamedTuple):
    """`code` is a function body that breaks the limit unless it raises; `levels` says where it must hold."""

    name: str
    levels: tuple[str, ...]
    code: str


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
)

_HEAD = """
import ctypes, errno, json, os, resource, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
def processes():
    children = []
    try:
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                time.sleep(5)
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children: os.kill(pid, 9)
        for pid in children: os.waitpid(pid, 0)
def descriptors():
    found = set()
    for fd in range(256):
        try: os.fstat(fd)
        except OSError: continue
        found.add(fd)
    return found
answers = {}
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


def program(names: Collection[str], host_pid: int) -> str:
    """A program that makes the attempts called `names` and prints a JSON object of name to answer."""
    values = {
        "host": host_pid,
        "bpf": {"x86_64": 321, "aarch64": 280}.get(platform.machine(), 321),
        "clean": str({*ENVIRONMENT, "LC_CTYPE"}),
    }
    parts = [_HEAD]
    for number, trial in enumerate(TRIALS):
        if trial.name in names:
            body = textwrap.indent(trial.code.format(**values), "    ")
            parts.append(f"def trial_{number}():\n{body}\nattempt({trial.name!r}, trial_{number})\n")
    return "".join([*parts, _TAIL])
