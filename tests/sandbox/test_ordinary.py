# ruff: noqa: E501 (programs in one line)
"""What ordinary programs do is permitted: those system calls behind the standard library that no idiom makes."""

import functools
import subprocess
import sys

import pytest

from cobalt.sandbox.limits import Limits

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
    "local socket pairs": """
import socket
one, other = socket.socketpair()
one.sendall(b'x' * 1000)
assert len(other.recv(2000)) == 1000
one.getpeername(); one.shutdown(socket.SHUT_WR)
assert other.recv(1) == b''
other.settimeout(0.01)
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
    "copies": """
import filecmp, os, shutil
os.makedirs('/tmp/a/b'); open('/tmp/a/b/c', 'w').write('x' * 100000); os.symlink('b', '/tmp/a/link'); os.chmod('/tmp/a/b/c', 0o640)
shutil.copy2('/tmp/a/b/c', '/tmp/d'); shutil.copyfile('/tmp/a/b/c', '/tmp/e'); shutil.copystat('/tmp/a/b/c', '/tmp/e')
assert os.stat('/tmp/d').st_mode == os.stat('/tmp/a/b/c').st_mode and int(os.stat('/tmp/d').st_mtime) == int(os.stat('/tmp/a/b/c').st_mtime)
shutil.copytree('/tmp/a', '/tmp/f', symlinks=True); assert filecmp.cmp('/tmp/a/b/c', '/tmp/f/b/c', False)
shutil.move('/tmp/f', '/tmp/g'); shutil.rmtree('/tmp/g'); shutil.rmtree('/tmp/a')
os.utime('/tmp/d', (1, 1)); os.chown('/tmp/d', -1, -1); os.truncate('/tmp/d', 5); os.rename('/tmp/d', '/tmp/h'); os.link('/tmp/h', '/tmp/i'); os.replace('/tmp/h', '/tmp/j')
assert sorted(os.listdir('/tmp')) == ['e', 'i', 'j'], os.listdir('/tmp')
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs_work(box, name):
    facts = box.run(PROGRAMS[name], "input\n", limits=Limits())
    assert facts.stdout == b"ok\n", facts.stderr.decode()[-1500:]


@pytest.mark.parametrize("name", WITH_FILES)
def test_ordinary_programs_with_files_and_processes_work(namespaces, name):
    facts = namespaces.run(WITH_FILES[name], limits=Limits())
    assert facts.stdout == b"ok\n", facts.stderr.decode()[-1500:]
