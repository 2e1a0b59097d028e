"""Processes, signals, and whoever is above the program."""

import os
import time

import pytest

from cobalt.sandbox.limits import Limits


def leftovers(marker: str) -> list[str]:
    """Command names of all processes on this machine that carry `marker` as their name."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
        except OSError:
            continue
        if name == marker:
            found.append(pid)
    return found


NAME = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'{marker}', 0, 0, 0)
"""


def test_a_fork_bomb_is_bounded_and_gone(namespaces):
    code = NAME.format(marker="cobaltbomb") + "while True:\n    try: os.fork()\n    except OSError: pass\n"
    facts = namespaces.run(code, limits=Limits(cpu_s=1.0))
    assert facts.limit in ("cpu", "processes", "wall")
    assert leftovers("cobaltbomb") == []


def test_no_process_can_be_started_without_namespaces(landlock):
    code = """
import os, subprocess
for work in (os.fork, lambda: os.posix_spawn('/bin/true', ['true'], {}), lambda: subprocess.run(['true'])):
    try:
        work()
    except OSError as error:
        print(error.errno)
"""
    assert landlock.output(code).split() == ["1", "1", "1"]


def test_daemons_end_with_their_test(namespaces):
    code = (
        NAME.format(marker="cobaltdaemon")
        + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print('done')
"""
    )
    start = time.monotonic()
    assert namespaces.output(code) == "done"
    assert time.monotonic() - start < 10
    assert leftovers("cobaltdaemon") == []


def test_a_writer_left_behind_cannot_touch_the_next_test(namespaces):
    code = """
import os, time
print(sorted(os.listdir('/tmp')))
if os.fork() == 0:
    os.setsid()
    for _ in range(1000):
        open('/tmp/x', 'w'); time.sleep(0.001)
time.sleep(0.02)
"""
    assert [facts.stdout for facts in namespaces.runs(code, [""] * 3)] == [b"[]\n"] * 3


@pytest.mark.parametrize("target", ["-1", "0", "1", "os.getppid()", "-os.getpgid(0)"])
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_signals_hit_nobody_else(box, target, number):
    """The worker survives (the fixture checks); the program ends or goes on, and that is its own affair."""
    facts = box.run(
        f"import os, signal\nos.kill({target}, signal.{number})\nprint('went on')",
        limits=Limits(cpu_s=0.2, wall_s=0.4),
    )
    assert facts.limit in ("", "wall")


def test_a_program_that_stops_itself_meets_the_wall_limit(box):
    facts = box.run(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", limits=Limits(cpu_s=0.2, wall_s=0.4)
    )
    assert facts.limit == "wall"


def test_the_supervisor_cannot_be_reached(namespaces):
    code = """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
def call(result):
    if result < 0: raise OSError(ctypes.get_errno(), 'refused')
tries = {
    'memory': lambda: open(f'/proc/{parent}/mem', 'rb'),
    'environment': lambda: open(f'/proc/{parent}/environ', 'rb').read(),
    'descriptors': lambda: os.listdir(f'/proc/{parent}/fd'),
    'root': lambda: os.listdir(f'/proc/{parent}/root/'),
    'limits': lambda: resource.prlimit(parent, resource.RLIMIT_CPU, (0, 0)),
    'trace': lambda: call(libc.ptrace(16, parent, 0, 0)),
    'read': lambda: call(libc.process_vm_readv(parent, None, 0, None, 0, 0)),
    'priority': lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
    'user priority': lambda: os.setpriority(os.PRIO_USER, 0, 19),
    'affinity': lambda: os.sched_setaffinity(parent, {0}),
    'scheduler': lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)),
    'out of memory': lambda: open(f'/proc/{parent}/oom_score_adj', 'w').write('1000'),
    'group': lambda: os.setpgid(0, os.getpgid(parent)) or os.kill(0, 0) or os.setpgid(parent, 0),
}
for name, work in tries.items():
    try:
        work()
    except OSError:
        continue
    print(name)
"""
    assert namespaces.output(code) == ""


def test_process_ids_tell_nothing_about_earlier_tests(namespaces):
    code = """
import os
print(sorted(os.listdir('/proc')), os.getpid(), os.getppid())
for _ in range(50):
    if os.fork() == 0: os._exit(0)
"""
    shown = b"['2', 'self', 'thread-self'] 2 1\n"
    assert [facts.stdout for facts in namespaces.runs(code, [""] * 3)] == [shown] * 3


def test_no_signal_leaves_by_way_of_a_descriptor(box):
    """A pipe may be told to signal its owner; the owner must not be made somebody else."""
    code = """
import fcntl, os, time
read, write = os.pipe()
for pid in (os.getppid(), -os.getppid(), 1):
    try:
        fcntl.fcntl(read, fcntl.F_SETOWN, pid)
        fcntl.fcntl(read, fcntl.F_SETSIG, 9)
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(write, b'x')
        print('sent')
    except OSError:
        print('refused')
time.sleep(0.05)
"""
    assert box.output(code).split() == ["refused"] * 3


def test_a_forked_child_is_as_it_would_be_outside(namespaces):
    code = """
import os, random, threading
before = random.getstate()
if os.fork() == 0:
    names = [thread.name for thread in threading.enumerate()]
    print(names, random.getstate() != before, flush=True)
    os._exit(0)
print(os.wait()[1])
"""
    assert namespaces.output(code) == "['MainThread'] True\n0"


def test_each_test_draws_its_own_random_numbers(box):
    for code in (
        "import random\nprint(random.random())",
        "from random import *\nprint(getrandbits(64))",
        "import random, os\nprint(random.Random().random(), random.choice(range(10**9)))",
    ):
        runs = box.runs(code, [""] * 4)
        assert all(facts.returncode == 0 for facts in runs), runs[0].stderr
        assert len({facts.stdout for facts in runs}) == 4, code
