# ruff: noqa: E501 (programs in one line)
"""What one test could learn of the tests before it: every test of a program sees the same world.

Left out, for the sandbox does not make them equal: times and what is derived from them, numbers that the kernel
hands out for all processes of the machine together (inodes of pipes, sockets and memory files, mounts and
devices), random ones, and the places of free memory in the interpreter, whose parent has watched other tests.
"""

import json

from cobalt.sandbox.limits import Limits

LIMITS = Limits(cpu_s=6.0, memory_bytes=512 << 20, output_bytes=4 << 20)
# Each is noted before the program does anything else; the first ones are the interpreter's own.
FACTS = {
    "collections made": "gc.get_stats()",
    "modules": "sorted(sys.modules)",
    "size of the source's lines": "sorted(map(str, __import__('linecache').cache))",
    "thread's name": "threading.get_ident()",
    "stack": "ctypes.addressof(ctypes.c_int.in_dll(ctypes.pythonapi, 'Py_OptimizeFlag'))",
    "process": "os.getpid()",
    "parent": "os.getppid()",
    "session": "os.getsid(0)",
    "group": "os.getpgrp()",
    "thread": "threading.get_native_id()",
    "users": "os.getresuid(), os.getresgid(), os.getgroups()",
    "limits": "{name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith('RLIMIT_')}",
    "times of children": "os.times()[2:4]",
    "use of children": "tuple(resource.getrusage(resource.RUSAGE_CHILDREN))",
    "largest size of children": "resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss",
    "signals": "[(n, str(signal.getsignal(n))) for n in range(1, 65)]",
    "blocked signals": "sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "pending signals": "sorted(signal.sigpending())",
    "descriptors": "[fd for fd in range(128) if is_open(fd)]",
    "flags of descriptors": "[(fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD)) for fd in range(3)]",
    "places in files": "[os.lseek(fd, 0, os.SEEK_CUR) for fd in range(3)]",
    "sizes of files": "[os.fstat(fd).st_size for fd in range(3)]",
    "environment": "dict(os.environ)",
    "folder": "os.getcwd()",
    "mask": "os.umask(0o22)",
    "priority": "os.getpriority(os.PRIO_PROCESS, 0)",
    "processors": "sorted(os.sched_getaffinity(0))",
    "scheduler": "os.sched_getscheduler(0)",
    "timer": "signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_VIRTUAL), signal.getitimer(signal.ITIMER_PROF)",
    "dumpable": "libc.prctl(3, 0, 0, 0, 0)",
    "parent's death signal": "prctl_out(2)",
    "name": "open('/proc/self/comm').read()",
    "hash of a text": "hash('text')",
    "host name": "os.uname()",
    "processes": "sorted(os.listdir('/proc'))",
    "threads": "sorted(os.listdir('/proc/self/task'))",
    "folders": "[sorted(os.listdir(each)) for each in ('/', '/tmp', '/dev', '/dev/shm')]",
    "free space": "[(f.f_bfree, f.f_ffree) for f in map(os.statvfs, ('/', '/tmp', '/dev/shm'))]",
    "file systems": "[tuple(os.statvfs(each))[:10] for each in ('/', '/tmp', '/dev/shm', '/dev')]",
    "sockets": "open('/proc/self/net/unix').read()",
    "network": "sorted(os.listdir('/proc/self/net'))",
    "mappings": "[line.split()[:2] for line in open('/proc/self/maps')]",
    "mapped files": "[line.split()[5:] for line in open('/proc/self/maps')]",
    "children": "open('/proc/self/task/%d/children' % os.getpid()).read()",
    "key": "[line.split()[1:] for line in open('/proc/keys')]",
    "shared memory": "open('/proc/sysvipc/shm').read()",
    "last process": "open('/proc/sys/kernel/ns_last_pid').read()",
    "load": "open('/proc/loadavg').read().split()[3:]",
    "machine's processes": "[line for line in open('/proc/stat') if line.startswith(('processes', 'ctxt'))]",
    "machine's memory": "open('/proc/meminfo').read()",
    "pressure": "open('/proc/pressure/cpu').read()",
}
for _each in ("stat", "status", "statm", "io", "sched", "schedstat", "cmdline", "environ", "maps", "mountinfo", "limits", "smaps_rollup", "wchan", "stack", "syscall", "auxv", "oom_score", "oom_score_adj", "cgroup", "comm", "loginuid", "sessionid", "timerslack_ns", "uid_map"):  # fmt: skip
    FACTS[f"1/{_each}"] = f"open('/proc/1/{_each}', 'rb').read()"
FACTS["1/fd"] = "sorted(os.listdir('/proc/1/fd'))"
FACTS["1/fdinfo"] = "sorted(os.listdir('/proc/1/fdinfo'))"
FACTS["1/task"] = "sorted(os.listdir('/proc/1/task'))"
FACTS["1/ns"] = "[os.readlink('/proc/1/ns/' + each) for each in os.listdir('/proc/1/ns')]"
FACTS["1/times"] = "os.stat('/proc/1').st_mtime_ns"
for _each in ("cgroup", "oom_score_adj", "limits", "mounts", "cmdline", "environ", "auxv", "loginuid", "sessionid", "setgroups", "uid_map", "coredump_filter", "timerslack_ns", "personality"):  # fmt: skip
    FACTS[f"self/{_each}"] = f"open('/proc/self/{_each}', 'rb').read()"
FACTS["self/mountinfo"] = "[line.split()[3:] for line in open('/proc/self/mountinfo')]"
for _each in ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts"):
    FACTS[f"self/ns/{_each}"] = f"os.readlink('/proc/self/ns/{_each}')"
for _each in ("/", "/tmp", "/dev/shm", "/dev", "/dev/null"):
    # Times are of the file system's making, which is new for each test.
    FACTS[f"stat of {_each}"] = f"tuple(os.stat({_each!r}))[0:2] + tuple(os.stat({_each!r}))[3:7]"
# The other numbers of these count all processes of the machine.
FACTS["stat of /proc"] = "os.stat('/proc').st_mode, os.stat('/proc/self').st_mode"
FACTS["new file in /tmp"] = "new_file('/tmp/new')"
FACTS["new file in /dev/shm"] = "new_file('/dev/shm/new')"
FACTS["new folder in /tmp"] = "os.mkdir('/tmp/folder') or os.stat('/tmp/folder').st_ino"

PROGRAM = f"""
import ctypes, fcntl, gc, json, os, resource, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
def new_file(path):
    open(path, 'w').close()
    return os.stat(path).st_ino
def prctl_out(option):
    answer = ctypes.c_int(-1)
    libc.prctl(option, ctypes.byref(answer), 0, 0, 0)
    return answer.value
FACTS = [(name, compile(text, name, 'eval')) for name, text in {FACTS!r}.items()]
found = {{}}
for name, work in FACTS:
    try: found[name] = str(eval(work))
    except (OSError, AttributeError, ValueError) as error: found[name] = type(error).__name__
print(json.dumps(found), flush=True)
"""

# What tests leave behind: most of it is refused at one level or the other.
MISCHIEF = """
def attempt(work):
    try: work()
    except (OSError, MemoryError, RuntimeError, ValueError): pass
def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds: pass
def children(count):
    for _ in range(count):
        if os.fork() == 0:
            burn(0.02)
            os._exit(0)
def files():
    for folder in ('/tmp', '/dev/shm'):
        for n in range(50): open(f'{folder}/{n}', 'w').write('x' * 1000)
number = int(input())
if number == 1:
    burn(0.3)
    attempt(lambda: children(5))
    attempt(lambda: os.nice(5))
elif number == 2:
    attempt(files)
    kept = bytearray(100 << 20)
    kept[::4096] = bytes(len(kept[::4096]))
elif number == 3:
    attempt(lambda: children(20))
    attempt(lambda: [os.wait() for _ in range(20)])
    for n in range(20): attempt(threading.Thread(target=time.sleep, args=(0.01,)).start)
    time.sleep(0.2)
elif number == 4:
    sys.stdout.write('x' * 100000)
    for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE): resource.setrlimit(n, (50, 50))
    attempt(lambda: os.kill(os.getpid(), 9))
elif number == 5:
    import multiprocessing.shared_memory, ssl, decimal
    attempt(lambda: multiprocessing.shared_memory.SharedMemory('kept', True, 4096))
    attempt(lambda: os.setsid() and os.fork() or time.sleep(30))
"""

_worlds: dict[str, list[dict[str, str]]] = {}


def worlds(box) -> list[dict[str, str]]:
    """What each test of one program noted; the tests before it did something different each time."""
    if box.level not in _worlds:
        runs = box.runs(PROGRAM + MISCHIEF, [str(n) for n in (0, 1, 2, 3, 4, 5, 0)], limits=LIMITS)
        _worlds[box.level] = [json.loads(facts.stdout.partition(b"\n")[0]) for facts in runs]
    return _worlds[box.level]


# Without namespaces these are numbers and files of the whole machine, whoever changed them.
OF_THE_MACHINE = ("process", "session", "group", "thread", "threads", "processes", "free space", "file systems", "folders", "self/mounts", "self/mountinfo", "stat of /", "stat of /tmp", "stat of /dev/shm", "stat of /dev", "stat of /proc")  # fmt: skip


def test_every_test_of_a_program_sees_the_same(box):
    names = [each for each in FACTS if box.level == "namespaces" or each not in OF_THE_MACHINE]
    seen = {name: sorted({world[name][:300] for world in worlds(box)}) for name in names}
    assert {name: values for name, values in seen.items() if len(values) > 1} == {}


def test_most_of_what_is_compared_is_there_to_be_seen(namespaces):
    """The comparison above would be empty if each of its questions failed."""
    world = worlds(namespaces)[0]
    known = [name for name in FACTS if not name.startswith("1/")]
    assert sum(world[name] in ("FileNotFoundError", "PermissionError") for name in known) < len(known) / 3
    assert world["new file in /tmp"].isdecimal() and world["process"].isdecimal()


def test_the_process_above_is_out_of_sight(namespaces):
    code = """
import os
print(os.path.exists('/proc/1'), '1' in os.listdir('/proc'))
try: print(os.listdir('/proc/1/'))
except (FileNotFoundError, NotADirectoryError, PermissionError): print('refused')
"""
    assert namespaces.output(code).split() == ["False", "False", "refused"]


def test_a_program_s_own_clocks_and_files_can_be_read(box):
    """Clocks of others are refused; the C library asks for a file's size by the older call without `statx`."""
    code = """
import os, time
print(time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) > 0, time.thread_time() > 0, time.monotonic() > 0)
print(os.stat(os.__file__).st_size > 0, os.fstat(1).st_size == 0, not os.path.exists('/nothing'))
"""
    assert box.output(code).split() == ["True"] * 6
