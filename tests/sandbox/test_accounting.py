# ruff: noqa: E501 (programs in one line)
"""CPU, memory, time and threads that a program tries to use without their being counted."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cobalt.sandbox.limits import Limits

MIB = 1 << 20
CPU = Limits(cpu_s=0.5, wall_s=6.0)  # a program whose CPU time escapes meets the wall limit instead
MEMORY = Limits(cpu_s=6.0, wall_s=8.0, memory_bytes=512 * MIB)
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers and code of x86_64")


HEAD = """
import ctypes, errno, mmap, os, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def burn(seconds):
    while time.process_time() < seconds: pass
def attempt(work, *given):
    try: return work(*given)
    except OSError: return None
def touched(size):
    memory = bytearray(size)
    ctypes.memset((ctypes.c_char * size).from_buffer(memory), 1, size)
    return memory
"""


# Memory.

UNREADABLE = {
    "not dumpable": "[libc.prctl(4, each, 0, 0, 0) for each in (0, 1, 0)]",
    "not dumpable, by a thread": "t = threading.Thread(target=libc.prctl, args=(4, 0, 0, 0, 0)); t.start(); t.join()",
    "a name that is no text": "libc.prctl(15, b'\\xff) R 1 (2', 0, 0, 0)",
    "a name of lines": "libc.prctl(15, b'a\\nPss: 0 kB\\n', 0, 0, 0)",
    "a session of its own, its parent gone": "os.setsid()\n        if os.fork(): os._exit(0)",
}


@pytest.mark.parametrize("way", UNREADABLE)
def test_memory_of_processes_that_hide_is_counted(namespaces, way):
    code = f"""{HEAD}
for _ in range(3):
    if os.fork() == 0:
        {UNREADABLE[way]}
        memory = touched(300 << 20)
        time.sleep(6)
        os._exit(0)
time.sleep(6)
"""
    facts = namespaces.run(code, limits=MEMORY)
    assert facts.limit == "memory", facts


# Prints how much was really kept; "refused" where one of the calls was.
WRITE = "ctypes.memset(memory, 1, size)"
READ = "for at in range(memory, memory + size, 4096): ctypes.string_at(at, 1)"
KEPT_BY_ONE_PAGE = """
size, kept = 100 << 20, 0
for _ in range(7):
    memory = {memory}
    if memory in (None, 2**64 - 1):
        print('refused')
        break
    {touch}
    libc.munmap(memory + 4096, size - 4096)
    kept += size
print(kept >> 20, flush=True)
time.sleep(0.3)
"""


SHARED = {
    "anonymous": "libc.mmap(None, size, 3, 0x21, -1, 0)",
    "of the zero device": "attempt(lambda: libc.mmap(None, size, 3, 0x01, os.open('/dev/zero', os.O_RDWR), 0))",
    "of the zero device, for reading": "attempt(lambda: libc.mmap(None, size, 1, 0x01, os.open('/dev/zero', 0), 0))",
}


@pytest.mark.parametrize("kind", SHARED)
def test_shared_memory_that_one_page_keeps_alive_is_bounded(box, kind):
    """A shared mapping of which all but one page has been let go is in no process's size, yet stays."""
    facts = box.run(
        HEAD + KEPT_BY_ONE_PAGE.format(memory=SHARED[kind], touch=READ if "reading" in kind else WRITE),
        limits=MEMORY,
    )
    assert facts.limit == "memory" or int(facts.stdout.split()[-1]) <= 512, facts


def test_shared_memory_that_nobody_looks_at_is_counted(namespaces):
    """`madvise(MADV_DONTNEED)` takes the pages of a shared mapping out of a process's size, not out of memory."""
    code = f"""{HEAD}
size = 250 << 20
for _ in range(3):
    if os.fork() == 0:
        memory = libc.mmap(None, size, 3, 0x21, -1, 0)
        if memory is None or memory == 2**64 - 1: os._exit(1)
        ctypes.memset(memory, 1, size)
        libc.madvise(memory, size, 4)
        time.sleep(3)
        os._exit(0)
print(sum(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3)))
"""
    facts = namespaces.run(code, limits=MEMORY)
    assert facts.limit == "memory" or facts.stdout == b"3\n", facts


@x86_64
def test_page_tables_are_counted(namespaces):
    """One page in each GiB of addresses: 8 KiB of the kernel's for 4 KiB of the program's, or for none."""
    code = f"""{HEAD}
for _ in range(4):
    if os.fork() == 0:
        for n in range(20000):
            at = libc.mmap(0x100000000000 + (n << 30), 4096, 1, 0x100022, -1, 0)
            ctypes.string_at(at, 1)
        time.sleep(1)
        os._exit(0)
for _ in range(4): os.wait()
print('done')
"""
    facts = namespaces.run(code, limits=MEMORY)
    assert facts.limit == "memory" or facts.returncode != 0, facts


def test_memory_that_comes_and_goes_between_two_looks_is_bounded(namespaces):
    """Processes that hold much for a moment only: the address space of each is limited all the same."""
    code = f"""{HEAD}
deadline = time.monotonic() + 3
while time.monotonic() < deadline:
    for _ in range(4):
        if os.fork() == 0:
            attempt(touched, 240 << 20)
            time.sleep(0.2)
            os._exit(0)
    for _ in range(4): os.wait()
print('done')
"""
    assert namespaces.run(code, limits=MEMORY).limit == "memory"


# CPU time.

# The kernel clears such children away by itself, and adds their times to nobody's.
REAPED = {
    "SIGCHLD ignored": "attempt(signal.signal, signal.SIGCHLD, signal.SIG_IGN)",
    "SA_NOCLDWAIT by the call itself": "libc.syscall(13, 17, (ctypes.c_ulong * 4)(0, 2 | 0x04000000, 0, 0), None, 8)",
    "SIGCHLD ignored by a child that the children come from": "libc.signal(17, 1)\nif os.fork(): time.sleep(30)",
}
NEVER_WAITED_FOR = """
while True:
    if os.fork() == 0:
        burn(0.1)
        os._exit(0)
    time.sleep(0.12)
"""
FAMILIES = {
    **{name: f"{first}\n{NEVER_WAITED_FOR}" for name, first in REAPED.items()},
    "orphaned, in sessions of their own": """
while True:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            burn(0.1)
        os._exit(0)
    os.wait()
    time.sleep(0.12)
""",
    "a chain": """
while True:
    burn(0.1)
    if os.fork(): os._exit(0) if os.getpid() != 2 else time.sleep(30)
""",
    "waited for by a child that ends": """
while True:
    if os.fork() == 0:
        libc.signal(17, 0)
        if os.fork() == 0:
            burn(0.1)
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()
""",
    "with names that are no text": """
while True:
    if os.fork() == 0:
        libc.prctl(15, b'\\xff) Z (\\n', 0, 0, 0)
        if os.fork() == 0:
            burn(0.1)
            os._exit(0)
        os.wait()
        time.sleep(30)
    time.sleep(0.12)
""",
    "threads that end": """
def work():
    start = time.thread_time()
    while time.thread_time() < start + 0.1: pass
while True:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
""",
    "a main thread that has ended": """
def work():
    time.sleep(0.05)
    while True: pass
threading.Thread(target=work).start()
libc.syscall(60, 0)
""",
    "many short ones": """
while True:
    if os.fork() == 0: os._exit(0)
    attempt(os.waitpid, -1, os.WNOHANG)
""",
}
OF_ONE_PROCESS = ("threads that end", "a main thread that has ended")


@x86_64
@pytest.mark.parametrize("way", FAMILIES)
def test_cpu_time_of_all_relatives_counts(namespaces, way):
    facts = namespaces.run(HEAD + FAMILIES[way], limits=CPU)
    assert facts.limit in ("cpu", "processes"), facts


@x86_64
@pytest.mark.parametrize("way", OF_ONE_PROCESS)
def test_cpu_time_of_all_threads_counts_without_namespaces(landlock, way):
    assert landlock.run(HEAD + FAMILIES[way], limits=CPU).limit == "cpu"


@x86_64
def test_cpu_time_of_borrowed_address_spaces_counts(namespaces):
    """vfork from machine code: the child counts down 10^8 times in its parent's memory and exits."""
    code = f"""{HEAD}
libc.signal(17, 1)
count = 100_000_000
text = (b'\\xb8\\x3a\\0\\0\\0\\x0f\\x05\\x85\\xc0\\x75\\x12\\xb9' + count.to_bytes(4, 'little')
        + b'\\xff\\xc9\\x75\\xfc\\xb8\\x3c\\0\\0\\0\\x31\\xff\\x0f\\x05\\xc3')
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
ctypes.memmove(at, text, len(text))
call = ctypes.CFUNCTYPE(ctypes.c_int)(at)
while True:
    if call() < 0:
        while True: pass  # refused, and so not a way out
    time.sleep(0.05)
"""
    facts = namespaces.run(code, limits=CPU)
    assert facts.limit == "cpu", facts


# Wall time.

QUICK = Limits(cpu_s=0.5, wall_s=1.5, memory_bytes=4 << 30)  # room for forty threads
LONGEST_S = 5.0  # far below the tenfold 1.5 s, and enough for a machine that other tests keep busy


@contextlib.contextmanager
def busy(cpu: int) -> Iterator[None]:
    """Somebody else's work on one processor of this machine."""
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    spinner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert spinner.stdout is not None
        spinner.stdout.readline()
        yield
    finally:
        spinner.kill()
        spinner.wait()
        spinner.stdout.close()


MODEST = {
    "idle class": "attempt(os.sched_setscheduler, 0, os.SCHED_IDLE, os.sched_param(0))",
    "idle class by sched_setattr": "libc.syscall(314, 0, (ctypes.c_uint * 14)(56, 5), 0)",
    "nice": "attempt(os.nice, 19)",
    "idle group": "libc.syscall(251, 1, 0, 3 << 13)",
}


@pytest.mark.parametrize("way", MODEST)
def test_stepping_back_for_others_buys_no_wall_time(box, way):
    """A program that lets everybody else run first does not wait because the host is busy."""
    cpu = min(os.sched_getaffinity(0))
    code = f"""{HEAD}
attempt(os.sched_setaffinity, 0, {{{cpu}}})
{MODEST[way]}
while True: time.sleep(0.0005)
"""
    with busy(cpu):
        facts = box.run(code, limits=QUICK)
    assert facts.limit in ("cpu", "wall") and facts.wall_s < LONGEST_S, facts


STRETCHED = {
    "own threads that take turns": """
def work():
    while True: time.sleep(0.0002)
for _ in range(40): threading.Thread(target=work, daemon=True).start()
time.sleep(30)
""",
    "own processes that take turns on one processor": """
attempt(os.sched_setaffinity, 0, {min(os.sched_getaffinity(0))})
for _ in range(40):
    if os.fork() == 0:
        attempt(os.nice, 19)
        while True: time.sleep(0.0002)
time.sleep(30)
""",
    "an idle child behind busy ones": """
attempt(os.sched_setaffinity, 0, {min(os.sched_getaffinity(0))})
libc.signal(17, 1)
if os.fork() == 0:
    attempt(os.sched_setscheduler, 0, os.SCHED_IDLE, os.sched_param(0))
    while True: time.sleep(0)
while True:
    if os.fork() == 0:
        burn(0.05)
        os._exit(0)
    time.sleep(0.051)
""",
    "stopped processes": """
for _ in range(20):
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "processes of many mappings": """
at = libc.mmap(None, 60000 * 4096, 1, 0x22, -1, 0)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for n in range(0, 60000, 2): libc.mprotect(at + n * 4096, 4096, 3)
for _ in range(20):
    if os.fork() == 0: time.sleep(30)
time.sleep(30)
""",
}


@pytest.mark.parametrize(
    "way",
    [pytest.param(each, marks=() if "turns" in each else pytest.mark.full) for each in STRETCHED],
)
def test_a_program_s_own_crowd_buys_no_wall_time(namespaces, way):
    facts = namespaces.run(HEAD + STRETCHED[way], limits=QUICK)
    assert facts.limit in ("cpu", "wall") and facts.wall_s < LONGEST_S, facts


@pytest.mark.full
def test_a_program_s_own_threads_buy_no_wall_time_without_namespaces(landlock):
    facts = landlock.run(HEAD + STRETCHED["own threads that take turns"], limits=QUICK)
    assert facts.limit in ("cpu", "wall") and facts.wall_s < LONGEST_S, facts


# Processes and threads.

CROWD = """
import threading, time
def count():
    try: return int(next(each for each in open('/proc/self/status') if each.startswith('Threads')).split()[1])
    except OSError: return threading.active_count()
try:
    for _ in range(40): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
except RuntimeError:
    print('refused at', count(), flush=True)
time.sleep(1)
print(count())
"""


def test_threads_are_counted(box):
    facts = box.run(CROWD, limits=Limits(cpu_s=2.0, wall_s=10.0, processes=16))
    assert facts.limit == "processes" or facts.stdout.startswith(b"refused at 16\n"), facts


def test_threads_of_all_processes_are_counted_together(namespaces):
    code = f"import os\nos.fork()\nos.fork()\n{CROWD}"
    facts = namespaces.run(code, limits=Limits(cpu_s=2.0, wall_s=10.0, processes=32))
    assert facts.limit == "processes" or facts.stdout.count(b"refused") >= 3, facts


@x86_64
def test_threads_made_behind_the_interpreter_s_back_are_counted(landlock):
    """Raw threads that share everything and pause for ever, on stacks of 4 KiB."""
    code = f"""{HEAD}
# clone(flags, stack): the child pauses in a loop, the parent returns the result.
text = (b'\\xb8\\x38\\0\\0\\0\\x31\\xd2\\x4d\\x31\\xd2\\x4d\\x31\\xc0\\x0f\\x05\\x85\\xc0\\x74\\x01\\xc3'
        b'\\xb8\\x22\\0\\0\\0\\x0f\\x05\\xeb\\xf7')
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
ctypes.memmove(at, text, len(text))
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.c_long)(at)
made = 0
for _ in range(100):
    stack = libc.mmap(None, 4096, 3, 0x22, -1, 0)
    made += call(0x10f00, stack + 4096 - 64) > 0
print(made, flush=True)
time.sleep(1)
"""
    facts = landlock.run(code, limits=Limits(cpu_s=2.0, wall_s=10.0, processes=32))
    assert facts.limit == "processes" or facts.stdout in (b"31\n", b"0\n"), facts


def test_sixty_four_threads_may_be_alive_at_once_and_hundreds_in_turn(box):
    """As many as the limit says, the main one included, under the default limits of memory."""
    code = """
import threading
barrier = threading.Barrier(64)
def work():
    data = [bytearray(1000) for _ in range(100)]
    barrier.wait(8)
threads = [threading.Thread(target=work, daemon=True) for _ in range(63)]
for each in threads: each.start()
barrier.wait(8)
for each in threads: each.join()
for _ in range(300):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
print('ok')
"""
    facts = box.run(code, limits=Limits())
    assert facts.stdout == b"ok\n" and facts.limit == "", facts
