# ruff: noqa: E501 (programs in one line)
"""What is not on the list of permitted system calls is refused, and what ordinary programs do is on it."""

import functools
import json
import platform
import subprocess
import sys

import pytest

from cobalt.sandbox.limits import Limits, package_paths

EPERM, EACCES, EINVAL, ENOTTY, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 13, 22, 25, 38, 95, 97
REFUSED = (EPERM, ENOSYS)
numbers = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers of x86_64")

HEAD = """
import ctypes, json, mmap, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*given):
    ctypes.set_errno(0)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    result = libc.syscall(*given)
    return ctypes.get_errno() if result < 0 else 0
room = ctypes.create_string_buffer(4096)
"""

# No program that is judged needs these. Those that are gone from the kernel are refused as well.
NEVER = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "bpf": 321,
    "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "create_module": 174,
    "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178, "finit_module": 313,
    "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163,
    "quotactl": 179, "quotactl_fd": 443, "nfsservctl": 180, "pivot_root": 155,
    "chroot": 161, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "mount_setattr": 442, "statmount": 457, "listmount": 458, "open_tree_attr": 467,
    "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "lsm_list_modules": 461,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "seccomp": 317,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "memfd_create": 319, "memfd_secret": 447,
    "pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448, "set_mempolicy_home_node": 450,
    "cachestat": 451, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
    "futex_requeue": 456, "futex_waitv": 449, "mseal": 462, "setxattrat": 463, "getxattrat": 464,
    "listxattrat": 465, "removexattrat": 466, "file_getattr": 468, "file_setattr": 469, "openat2": 437,
    "clone3": 435, "statx": 332, "execve": 59, "execveat": 322, "unshare": 272, "setns": 308,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "modify_ldt": 154, "vhangup": 153,
    "adjtimex": 159, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "syslog": 103,
    "uselib": 134, "ustat": 136, "sysfs": 139, "_sysctl": 156, "lookup_dcookie": 212, "epoll_ctl_old": 214,
    "epoll_wait_old": 215, "vserver": 236, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239,
    "migrate_pages": 256, "move_pages": 279, "fanotify_init": 300, "fanotify_mark": 301,  "personality": 135, "get_thread_area": 211, "set_thread_area": 205, "security": 185,
    "tuxcall": 184, "getpmsg": 181, "putpmsg": 182, "afs_syscall": 183,
    "ioprio_set": 251, "setfsuid": 122, "setfsgid": 123, "rseq of a foreign size": 334,
}  # fmt: skip
# Their refusal may also be one that the C library and Python know how to go on from, or takes the form of
# "there is no such thing here".
OTHERWISE = {
    "setxattrat": (EOPNOTSUPP,), "getxattrat": (EOPNOTSUPP,), "listxattrat": (EOPNOTSUPP,),
    "removexattrat": (EOPNOTSUPP,), 
    "rseq of a foreign size": (EINVAL,),
}  # fmt: skip


_known: dict[str, dict[str, int]] = {}  # by level
KILLED = -1


def answers(box) -> dict[str, int]:
    """What each call of `NEVER` fails with; a call that ends the program is taken up after by another one."""
    found: dict[str, int] = {}
    while len(found) < len(NEVER):
        left = {name: number for name, number in NEVER.items() if name not in found}
        loop = f"for name, number in {left!r}.items(): print(name, call(number, -1, 0, 0, 0, 0, 0), sep=':', flush=True)"
        lines = box.run(f"{HEAD}\n{loop}").stdout.decode().splitlines()
        found |= {name: int(error) for name, _, error in (line.partition(":") for line in lines)}
        if len(lines) < len(left):
            found[[*left][len(lines)]] = KILLED
    return found


@numbers
@pytest.mark.parametrize("name", NEVER)
def test_the_call_is_not_on_the_list(box, name):
    """Its arguments would be wrong anyway: the kernel's own answer would mostly be another one."""
    if box.level not in _known:
        _known[box.level] = answers(box)
    assert _known[box.level][name] in (*REFUSED, *OTHERWISE.get(name, ()))


@numbers
def test_calls_that_do_not_exist_yet_are_refused(box):
    code = f"""{HEAD}
asked = [*range(470, 601), 1023, 4095, 1 << 16, 1 << 20, (1 << 29) - 1, 1 << 29]
print(json.dumps({{number: call(number, -1, 0, 0, 0, 0, 0) for number in asked}}))
"""
    found = json.loads(box.output(code))
    assert {number: error for number, error in found.items() if error not in REFUSED} == {}


@numbers
def test_no_call_goes_by_way_of_another_interface(box):
    """x32 numbers and negative ones; a filter that compares but the low bits would take them for others."""
    code = f"""{HEAD}
asked = [*((1 << 30) + n for n in (0, 1, 2, 39, 57, 59, 101, 512, 520, 521, 545, 547)), *(-n for n in (2, 3, 39, 4096)), -(1 << 31)]
print(json.dumps({{number: call(number, -1, 0, 0, 0, 0, 0) for number in asked}}))
"""
    found = json.loads(box.output(code))
    assert {number: error for number, error in found.items() if error not in REFUSED} == {}


@numbers
def test_the_interface_of_32_bits_ends_the_program(box):
    """`int 0x80` with number 20, getpid there: nothing comes of it but a signal."""
    code = f"""{HEAD}
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
text = b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3'
ctypes.memmove(ctypes.c_void_p(at), text, len(text))
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())
"""
    facts = box.run(code)
    assert facts.returncode in (-31, -11) or facts.stdout in (b"-1\n", b"-38\n"), facts


# Where the list goes by arguments.

ARGUMENTS = {
    # prctl
    "not dumpable": ("157, 4, 0, 0, 0, 0", (EPERM, EINVAL)),
    "PR_SET_MM": ("157, 35, 1, 0, 0, 0", (EPERM, EINVAL)),
    "PR_SET_MM, map size": ("157, 35, 15, room, 0, 0", (EPERM, EINVAL)),
    "child subreaper": ("157, 36, 1, 0, 0, 0", (EPERM, EINVAL)),
    "core scheduling": ("157, 62, 1, 0, 0, room", (EPERM, EINVAL)),
    "parent's death signal": ("157, 1, 0, 0, 0, 0", (EPERM, EINVAL)),
    "timer slack": ("157, 29, 1, 0, 0, 0", (EPERM, EINVAL)),
    "keep capabilities": ("157, 8, 1, 0, 0, 0", (EPERM, EINVAL)),
    "machine check kill": ("157, 33, 1, 1, 0, 0", (EPERM, EINVAL)),
    "tracer": ("157, 0x59616d61, -1, 0, 0, 0", (EPERM, EINVAL)),
    "ambient capabilities": ("157, 47, 2, 0, 0, 0", (EPERM, EINVAL)),
    "merging of memory": ("157, 67, 1, 0, 0, 0", (EPERM, EINVAL)),
    "speculation": ("157, 53, 0, 2, 0, 0", (EPERM, EINVAL)),
    "I/O flusher": ("157, 57, 1, 0, 0, 0", (EPERM, EINVAL)),
    "user dispatch": ("157, 59, 1, 0, 0, room", (EPERM, EINVAL)),
    "securebits": ("157, 28, 0x2f, 0, 0, 0", (EPERM, EINVAL)),
    # clone; nothing is made even where it is permitted, for these need what is missing
    "mount namespace": ("56, 0x20000 | 17, 0, 0, 0, 0", REFUSED),
    "host name namespace": ("56, 0x4000000 | 17, 0, 0, 0, 0", REFUSED),
    "IPC namespace": ("56, 0x8000000 | 17, 0, 0, 0, 0", REFUSED),
    "user namespace": ("56, 0x10000000 | 17, 0, 0, 0, 0", REFUSED),
    "process namespace": ("56, 0x20000000 | 17, 0, 0, 0, 0", REFUSED),
    "network namespace": ("56, 0x40000000 | 17, 0, 0, 0, 0", REFUSED),
    "control group namespace": ("56, 0x2000000 | 17, 0, 0, 0, 0", REFUSED),
    "a thread of a traced kind": ("56, 0x2000 | 17, 0, 0, 0, 0", REFUSED),
    # fcntl
    "pipe size": ("72, 1, 1031, 1 << 20", (EPERM, EINVAL)),
    "lease": ("72, 0, 1024, 0", (EPERM, EINVAL)),
    "notification": ("72, 0, 1026, 1", (EPERM, EINVAL)),
    # pipe2
    "notification pipe": ("293, room, 0o200", (EPERM, EINVAL)),
    "pipe of packets": ("293, room, 0o40000", (0, EPERM, EINVAL)),
    # ioctl
    "TIOCSTI": ("16, 0, 0x5412, room", (EPERM, ENOTTY)),
    "TIOCLINUX": ("16, 0, 0x541c, room", (EPERM, ENOTTY)),
    "FS_IOC_SETFLAGS": ("16, 1, 0x40086602, room", (EPERM, ENOTTY)),
    "FS_IOC_GETFLAGS": ("16, 1, 0x80086601, room", (EPERM, ENOTTY)),
    # openat: tempfile then makes a name and removes it
    "unnamed file": ("257, -100, b'/tmp', 0o20200000 | 2, 0o600", (EOPNOTSUPP,)),
    "unnamed file by open": ("2, b'/tmp', 0o20200000 | 2, 0o600", (EOPNOTSUPP,)),
    # the caller alone
    "limits of others": ("302, 1, 7, 0, 0", REFUSED),
    "affinity of others": ("203, 1, 8, room", REFUSED),
    "priority of others": ("141, 0, 1, 19", REFUSED),
    "priority of a group": ("141, 1, 0, 0", REFUSED),
    "priority of a user": ("141, 2, 0, 0", REFUSED),
}  # fmt: skip


@numbers
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_arguments_are_refused(box, name):
    given, errors = ARGUMENTS[name]
    code = f"""{HEAD}
own = os.getpid()
error = call({given})
if os.getpid() != own: os._exit(0)  # made after all: the parent says so
print(error)
"""
    assert int(box.output(code)) in errors


CLONES = {
    "memory, but not as a thread": 0x100 | 17,
    "memory and files, but not as a thread": 0x100 | 0x400 | 17,
    "of the parent's parent": 0x8000 | 17,
    "memory, and waited for, of the parent's parent": 0x100 | 0x4000 | 0x8000 | 17,
}


@numbers
@pytest.mark.parametrize("name", CLONES)
def test_processes_of_unusual_kinds_are_not_made(box, name):
    """The child, if there is one, has a stack of its own and ends at once: machine code, no interpreter."""
    code = f"""{HEAD}
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 8192, 7, 0x22, -1, 0)
text = b'\\xb8\\x38\\0\\0\\0\\x31\\xd2\\x4d\\x31\\xd2\\x4d\\x31\\xc0\\x0f\\x05\\x85\\xc0\\x74\\x01\\xc3\\xb8\\x3c\\0\\0\\0\\x31\\xff\\x0f\\x05'
ctypes.memmove(ctypes.c_void_p(at), text, len(text))
print(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.c_long)(at)({CLONES[name]}, at + 8128))
"""
    assert -int(box.output(code)) in (EPERM, EINVAL, ENOSYS)


@numbers
@pytest.mark.parametrize("way", ["socket", "socketpair"])
def test_only_local_sockets_can_be_made(box, way):
    number = {"socket": 41, "socketpair": 53}[way]
    code = f"""{HEAD}
print(json.dumps({{f'{{family}} {{kind}}': call({number}, family, kind, 0, room) for family in (*range(2, 47), 255, -1) for kind in (1, 2, 3, 5)}}))
"""
    found = json.loads(box.output(code))
    assert {name: error for name, error in found.items() if error not in (EPERM, EACCES, EAFNOSUPPORT)} == {}


# What programs do.

NOT_IMPORTED = "idlelib tkinter turtle turtledemo antigravity this lib2to3 test __main__ _tkinter"
IMPORT_ALL = f"""
import sys
names, failed = [], []
for name in sorted(sys.stdlib_module_names - set({NOT_IMPORTED!r}.split())):
    try: __import__(name)
    except BaseException as error: failed.append(name)
    else: names.append(name)
print(*names)
"""


@functools.cache
def importable() -> str:
    """Modules of the standard library that a plain interpreter of this machine can import."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", IMPORT_ALL]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


def test_the_whole_standard_library_can_be_imported(box):
    facts = box.run(
        f"import warnings\nwarnings.simplefilter('ignore')\n{IMPORT_ALL}", limits=Limits(cpu_s=20)
    )
    assert facts.returncode == 0, facts.stderr
    assert set(importable().split()) - set(facts.stdout.decode().split()) == set()


PROGRAMS = {
    "threads and locks": """
import threading
lock, condition, event, barrier, semaphore = threading.RLock(), threading.Condition(), threading.Event(), threading.Barrier(3), threading.Semaphore(2)
total = 0
def work():
    global total
    with semaphore:
        for _ in range(1000):
            with lock: total += 1
    barrier.wait()
    event.wait()
threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads: each.start()
barrier.wait()
event.set()
for each in threads: each.join()
with condition: condition.wait(0.01)
print('ok' if total == 2000 else total)
""",
    "queues": """
import queue, threading
for make in (queue.Queue, queue.LifoQueue, queue.PriorityQueue, queue.SimpleQueue):
    made = make()
    thread = threading.Thread(target=lambda: [made.put(n) for n in range(100)])
    thread.start()
    assert sorted(made.get(timeout=5) for _ in range(100)) == list(range(100))
    thread.join()
    try: made.get(timeout=0.01)
    except queue.Empty: pass
print('ok')
""",
    "a pool of threads": """
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
with ThreadPoolExecutor(8) as pool: assert list(pool.map(str, range(50))) == list(map(str, range(50)))
print('ok')
""",
    "an event loop": """
import asyncio
async def work(n):
    await asyncio.sleep(0.001 * n)
    return n
async def main():
    loop = asyncio.get_running_loop()
    assert await asyncio.gather(*map(work, range(10))) == list(range(10))
    assert await loop.run_in_executor(None, sum, [1, 2]) == 3
    assert await asyncio.to_thread(max, 1, 2) == 2
    queue = asyncio.Queue()
    loop.call_later(0.01, queue.put_nowait, 1)
    assert await asyncio.wait_for(queue.get(), 5) == 1
    loop.add_signal_handler(10, queue.put_nowait, 2)
    __import__('os').kill(__import__('os').getpid(), 10)
    assert await asyncio.wait_for(queue.get(), 5) == 2
asyncio.run(main())
print('ok')
""",
    "selectors": """
import os, selectors, socket
for make in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector, selectors.DefaultSelector):
    with make() as selector:
        one, other = socket.socketpair()
        selector.register(one, selectors.EVENT_READ)
        assert not selector.select(0.001)
        other.send(b'x')
        assert selector.select(5)[0][0].fileobj is one
        one.close(); other.close()
print('ok')
""",
    "signal handlers": """
import os, signal, threading
seen = []
signal.signal(signal.SIGUSR1, lambda *a: seen.append(1))
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
assert signal.sigwait([signal.SIGUSR2]) == signal.SIGUSR2
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
signal.raise_signal(signal.SIGUSR1)
assert os.read(read, 1) == bytes([signal.SIGUSR1])
print('ok' if len(seen) == 4 else seen)
""",
    "timers": """
import signal, threading, time
seen = []
for which, number in ((signal.ITIMER_REAL, signal.SIGALRM), (signal.ITIMER_VIRTUAL, signal.SIGVTALRM), (signal.ITIMER_PROF, signal.SIGPROF)):
    signal.signal(number, lambda *a: seen.append(a[0]))
    signal.setitimer(which, 0.01)
    start = time.monotonic()
    while len(seen) == 0 and time.monotonic() < start + 2: pass
    assert seen.pop() == number
event = threading.Event()
threading.Timer(0.01, event.set).start()
assert event.wait(5)
time.sleep(0.001)
signal.signal(signal.SIGALRM, lambda *a: seen.append(1))
signal.alarm(1)
signal.pause()
print('ok')
""",
    "an alarm that ends a wait": """
import signal
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    for _ in range(10**9): int()
except TimeoutError: print('ok')
""",
    "pipes": """
import os
read, write = os.pipe()
os.write(write, b'ab')
os.close(write)
copy = os.dup(read)
assert os.read(copy, 10) == b'ab' and os.read(read, 1) == b''
os.dup2(copy, 50)
with os.fdopen(50, 'rb') as file: assert file.read() == b''
read, write = os.pipe2(os.O_NONBLOCK)
try: os.read(read, 1)
except BlockingIOError: print('ok')
""",
    "local socket pairs": """
import socket
one, other = socket.socketpair()
one.sendall(b'x' * 1000)
assert len(other.recv(2000)) == 1000
one.shutdown(socket.SHUT_WR)
assert other.recv(1) == b''
other.settimeout(0.01)
print('ok')
""",
    "random bytes": """
import os, random, secrets, uuid
assert len(os.urandom(16)) == len(os.getrandom(16)) == 16
random.SystemRandom().random(); secrets.token_hex(); uuid.uuid4()
print('ok')
""",
    "devices": """
import os
for path in ('/dev/null', '/dev/urandom', '/dev/random'):
    data = open(path, 'rb').read(4)
    assert len(data) == (0 if 'null' in path else 4), path
    fd = os.open(path, os.O_RDONLY)
    os.fstat(fd)
    os.close(fd)
for path in ('/dev/null',):
    with open(path, 'w') as file: file.write('x')
    with open(path, 'r+b', 0) as file: file.write(b'x')
print('ok')
""",
    "silenced output": """
import contextlib, os, sys
with open(os.devnull, 'w') as quiet, contextlib.redirect_stdout(quiet): print('hidden')
saved = os.dup(1)
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 1)
os.write(1, b'hidden')
os.dup2(saved, 1)
print('ok')
""",
    "mapped memory": """
import mmap, sys
with mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
    memory[:2] = b'ab'
    memory.resize(16384) if sys.platform == 'none' else None
    memory.madvise(mmap.MADV_DONTNEED)
    memory.flush()
with open(mmap.__file__ if hasattr(mmap, '__file__') else sys.modules['os'].__file__, 'rb') as file:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory: assert len(memory) > 100
print('ok')
""",
    "facts of the machine": """
import os, platform, resource, sys, time
os.cpu_count(); len(os.sched_getaffinity(0)); os.getloadavg; os.uname(); platform.platform(); os.getrusage if hasattr(os, 'getrusage') else 0
resource.getrusage(resource.RUSAGE_SELF); resource.getrlimit(resource.RLIMIT_STACK); os.times(); time.process_time(); time.thread_time()
sys.getrecursionlimit(); os.getpid(); os.getppid(); os.getuid(); os.umask(0); os.getcwd(); os.getpriority(0, 0); os.sched_yield()
print('ok')
""",
    "limits lowered by the program": """
import resource, threading, sys
soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, (min(soft, 8 << 20) if soft >= 0 else 8 << 20, hard))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
sys.setrecursionlimit(10**5); threading.stack_size(32 << 20)
thread = threading.Thread(target=print, args=('ok',)); thread.start(); thread.join()
""",
    "the text's stdin in all its ways": """
import fileinput, io, os, select, sys
assert select.select([0], [], [], 1)[0] == [0]
assert os.isatty(0) is False and sys.stdin.isatty() is False
assert os.read(0, 2) == b'in'
assert io.open(0, closefd=False).read() == 'put\\n'
assert sys.stdin.buffer.read() == b''
print('ok')
""",
    "a crash handler": """
import faulthandler, gc, tracemalloc, warnings
faulthandler.enable()
faulthandler.dump_traceback_later(60)
faulthandler.cancel_dump_traceback_later()
tracemalloc.start(); x = [0] * 1000; tracemalloc.take_snapshot(); tracemalloc.stop()
gc.collect()
print('ok')
""",
}

WITH_FILES = {
    "temporary files": """
import os, tempfile
with tempfile.TemporaryFile() as file:
    file.write(b'abc'); file.seek(0); assert file.read() == b'abc'
with tempfile.NamedTemporaryFile('w+', delete=True) as file:
    file.write('x'); file.flush(); assert os.path.getsize(file.name) == 1
with tempfile.TemporaryDirectory() as folder: open(folder + '/a', 'w').close()
with tempfile.SpooledTemporaryFile(10) as file: file.write(b'x' * 100); file.fileno()
fd, name = tempfile.mkstemp(); os.close(fd); os.unlink(name); os.rmdir(tempfile.mkdtemp())
print('ok')
""",
    "a database": """
import sqlite3
for mode in ('delete', 'wal', 'memory', 'truncate'):
    base = sqlite3.connect(f'/tmp/{mode}.db')
    base.execute(f'pragma journal_mode={mode}')
    base.execute('create table t (a integer primary key, b text)')
    with base: base.executemany('insert into t values (?, ?)', [(n, str(n)) for n in range(100)])
    assert base.execute('select sum(a) from t').fetchone() == (4950,)
    base.execute('vacuum')
    base.close()
print('ok')
""",
    "shelves": """
import dbm.dumb, os, shelve
with shelve.open('/tmp/shelf') as shelf: shelf['a'] = [1, 2]
with shelve.open('/tmp/shelf') as shelf: assert shelf['a'] == [1, 2]
with dbm.dumb.open('/tmp/dumb', 'c') as base: base[b'k'] = b'v'
with dbm.dumb.open('/tmp/dumb') as base: assert base[b'k'] == b'v'
print('ok')
""",
    "copies": """
import filecmp, os, shutil
os.makedirs('/tmp/a/b'); open('/tmp/a/b/c', 'w').write('x' * 100000); os.symlink('b', '/tmp/a/link'); os.chmod('/tmp/a/b/c', 0o640)
shutil.copy2('/tmp/a/b/c', '/tmp/d'); shutil.copyfile('/tmp/a/b/c', '/tmp/e'); shutil.copystat('/tmp/a/b/c', '/tmp/e')
assert os.stat('/tmp/d').st_mode == os.stat('/tmp/a/b/c').st_mode and int(os.stat('/tmp/d').st_mtime) == int(os.stat('/tmp/a/b/c').st_mtime)
shutil.copytree('/tmp/a', '/tmp/f', symlinks=True); assert filecmp.cmp('/tmp/a/b/c', '/tmp/f/b/c', False)
shutil.move('/tmp/f', '/tmp/g'); shutil.rmtree('/tmp/g'); shutil.rmtree('/tmp/a')
os.utime('/tmp/d', (1, 1)); os.truncate('/tmp/d', 5); os.rename('/tmp/d', '/tmp/h'); os.link('/tmp/h', '/tmp/i'); os.replace('/tmp/h', '/tmp/j')
assert sorted(os.listdir('/tmp')) == ['e', 'i', 'j'], os.listdir('/tmp')
print('ok')
""",
    "archives": """
import gzip, bz2, lzma, tarfile, zipfile
for module in (gzip, bz2, lzma):
    with module.open('/tmp/x', 'wb') as file: file.write(b'abc')
    assert module.open('/tmp/x').read() == b'abc'
with zipfile.ZipFile('/tmp/z', 'w') as file: file.writestr('a', 'b')
with tarfile.open('/tmp/t', 'w:gz') as file: file.add('/tmp/z')
with tarfile.open('/tmp/t') as file: file.extractall('/tmp/out', filter='data')
print('ok')
""",
    "sent files": """
import os
open('/tmp/a', 'w').write('x' * 1000)
source, target = os.open('/tmp/a', os.O_RDONLY), os.open('/tmp/b', os.O_CREAT | os.O_WRONLY)
assert os.sendfile(target, source, 0, 1000) == 1000
os.fsync(target); os.fdatasync(target); os.ftruncate(target, 10); os.posix_fallocate(target, 0, 100)
os.pwrite(target, b'z', 5); os.writev(target, [b'a', b'b']); os.sync()
print('ok')
""",
    "mapped files": """
import mmap, os
with open('/tmp/m', 'w+b') as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as memory:
        memory[:3] = b'abc'; memory.flush()
    assert file.read(3) == b'abc'
print('ok')
""",
    "forks": """
import os
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(write, b'x'); os._exit(3)
assert os.read(read, 1) == b'x' and os.waitpid(pid, 0)[1] == 3 << 8
pid = os.fork()
if pid == 0: os._exit(0)
os.close(os.pidfd_open(pid)); os.waitid(os.P_PID, pid, os.WEXITED); print('ok')
""",
    "processes": """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
def square(n): return n * n
def child(queue, pipe, lock, value, array, event):
    with lock: value.value += 1
    array[0] = 5; queue.put('q'); pipe.send('p'); event.set()
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    with context.Pool(2) as pool: assert pool.map(square, range(20)) == [n * n for n in range(20)]
    one, other = context.Pipe()
    things = context.Queue(), other, context.Lock(), context.Value('i', 0), context.Array('i', 3), context.Event()
    process = context.Process(target=child, args=things)
    process.start()
    assert things[0].get(timeout=5) == 'q' and one.recv() == 'p' and things[5].wait(5)
    process.join()
    assert process.exitcode == 0 and things[3].value == 1 and list(things[4]) == [5, 0, 0]
    with ProcessPoolExecutor(2, mp_context=context) as pool: assert list(pool.map(square, range(5))) == [0, 1, 4, 9, 16]
    for make in (context.RLock, context.Semaphore, context.BoundedSemaphore, context.Condition, context.JoinableQueue, context.SimpleQueue): make()
    print('ok')
""",
    "local servers": """
import socket, threading
server = socket.socket(socket.AF_UNIX)
server.bind('/tmp/s'); server.listen()
def serve():
    connection, _ = server.accept()
    connection.sendall(connection.recv(10)); connection.close()
thread = threading.Thread(target=serve); thread.start()
client = socket.socket(socket.AF_UNIX); client.connect('/tmp/s'); client.sendall(b'hello'); assert client.recv(10) == b'hello'
thread.join(); print('ok')
""",
    "walks": """
import glob, os, pathlib
os.makedirs('/tmp/a/b/c'); pathlib.Path('/tmp/a/b/x.txt').write_text('x')
assert glob.glob('/tmp/**/*.txt', recursive=True) == ['/tmp/a/b/x.txt'] and len(list(os.walk('/tmp'))) == 4
assert [e.is_dir() for e in os.scandir('/tmp/a')] == [True] and pathlib.Path('/tmp/a').resolve().exists() and os.access('/tmp', os.W_OK)
os.chdir('/tmp/a'); assert os.getcwd() == '/tmp/a'; fd = os.open('.', os.O_RDONLY); os.listdir(fd); os.fchdir(fd); os.mkfifo('f'); os.statvfs('.'); print('ok')
""",
}

NUMPY = """
import numpy as np
a = np.arange(12.0).reshape(3, 4)
assert (a @ a.T).shape == (3, 3) and np.linalg.matrix_rank(a) == 2
np.random.default_rng(1).normal(size=100).sort(); np.random.seed(1); np.random.rand(3)
np.fft.fft(a); np.linalg.svd(a); np.linalg.solve(np.eye(3), np.ones(3)); np.einsum('ij,ik->jk', a, a)
np.fromstring('1 2 3', sep=' '); np.loadtxt(['1 2', '3 4']); np.sort(np.array([3, 1, 2])); np.unique([1, 1])
print('ok')
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs_work(box, name):
    facts = box.run(PROGRAMS[name], "input\n", limits=Limits())
    assert facts.stdout == b"ok\n", facts.stderr.decode()[-1500:]


@pytest.mark.parametrize("name", WITH_FILES)
def test_ordinary_programs_with_files_and_processes_work(namespaces, name):
    facts = namespaces.run(WITH_FILES[name], limits=Limits())
    assert facts.stdout == b"ok\n", facts.stderr.decode()[-1500:]


@pytest.mark.skipif(not package_paths(["numpy"]), reason="numpy is not installed")
def test_numpy_works(box):
    facts = box.run(NUMPY, limits=Limits())
    assert facts.stdout == b"ok\n", facts.stderr.decode()[-1500:]


def test_sixty_four_threads_may_be_alive_at_once(box):
    """As many as the limit says, the main one included, under the default limits of memory."""
    code = """
import threading
barrier, done = threading.Barrier(64), threading.Event()
def work():
    data = [bytearray(1000) for _ in range(100)]
    barrier.wait(8)
threads = [threading.Thread(target=work, daemon=True) for _ in range(63)]
for each in threads: each.start()
barrier.wait(8)
for each in threads: each.join()
print('ok')
"""
    facts = box.run(code, limits=Limits())
    assert facts.stdout == b"ok\n" and facts.limit == "", facts


def test_threads_one_after_the_other_are_not_added_up(box):
    code = """
import threading
for _ in range(300):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
print('ok')
"""
    assert box.run(code, limits=Limits()).stdout == b"ok\n"
