# ruff: noqa: E501 (programs in one line)
"""Objects of the kernel that no limit counts, and those by which a program could disturb the host."""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import struct
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cobalt.sandbox.limits import Limits

MIB = 1 << 20
numbers = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers of x86_64")
LIBRARY = Path(sysconfig.get_path("stdlib"))

HEAD = """
import ctypes, fcntl, json, mmap, os, struct, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*given): return ctypes.get_errno() if libc.syscall(*given) < 0 else 0
library = os.open(os.__file__, os.O_RDONLY)
"""

SOCKETS = """
kept, pairs = 0, []
for _ in range(56):
    try: pairs.append(socket.socketpair())
    except OSError: break
    for each in pairs[-1]:
        each.setblocking(False)
        for size in (16384, 2048):
            try:
                while True: kept += each.send(bytes(size))
            except OSError: pass
"""
PIPES = """
kept, pipes = 0, []
for _ in range(56):
    read, write = os.pipe()
    try: fcntl.fcntl(write, 1031, 1 << 20)
    except OSError: pass
    os.set_blocking(write, False)
    try:
        while True: kept += os.write(write, bytes(65536))
    except OSError: pass
    pipes.append((read, write))
"""


@pytest.mark.parametrize("fill", [SOCKETS, PIPES], ids=["sockets", "pipes"])
def test_what_waits_in_sockets_and_pipes_is_bounded(namespaces, fill):
    """Sixty processes fill fifty-six each, and hold them until all have: that is memory of the kernel's."""
    code = f"""
import fcntl, os, socket, time
full, tell = os.pipe()
count = 0
for _ in range(60):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        exec({fill!r})
        print(kept, flush=True)
        os.write(tell, b'x')
        time.sleep(30)
    count += 1
while count: count -= len(os.read(full, 60))
time.sleep(0.2)
"""
    facts = namespaces.run(code, limits=Limits(cpu_s=8, wall_s=30))
    kept = sum(map(int, facts.stdout.split()))
    assert facts.limit == "memory" or kept < 700 * MIB, (facts, kept)  # beside it each byte costs a half


@contextlib.contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Does `work` again and again in another thread for as long as the block takes; its errors are raised here."""
    done, errors = threading.Event(), []

    def repeat() -> None:
        try:
            while not done.wait(0.02):
                work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if errors:
        raise errors[0]


# Writing to the disks.

SYNCS = {
    "sync": "call(162)",
    "syncfs": "call(306, library)",
    "syncfs of standard output": "call(306, 1)",
    "fsync": "os.fsync(library) or 0",
    "fdatasync": "os.fdatasync(library) or 0",
    "fsync of standard output": "os.fsync(1) or 0",
}


@numbers
def test_synchronising_succeeds_at_once(box):
    code = f"""{HEAD}
found = {{}}
for name, work in {SYNCS!r}.items():
    start = time.monotonic()
    try: answer = [eval(work) for _ in range(50)][-1]
    except OSError as error: answer = error.errno
    found[name] = answer, time.monotonic() - start
print(json.dumps(found))
"""
    found = json.loads(box.output(code))
    assert {
        name: (error, seconds) for name, (error, seconds) in found.items() if error or seconds > 0.5
    } == {}


def dirty_bytes() -> int:
    text = Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Dirty:"))


@numbers
def test_synchronising_does_not_make_the_host_write(box, tmp_path):
    os.sync()
    file = tmp_path / "dirty"
    file.write_bytes(os.urandom(MIB) * 48)
    before = dirty_bytes()
    if before < 32 * MIB:
        pytest.skip("files of this file system wait for no disk")
    box.run(f"{HEAD}\ncall(162); call(306, library)")
    after = dirty_bytes()
    file.unlink()
    assert after > before // 2


# Locks.

LOCKS = {
    "flock": "fcntl.flock(fd, fcntl.LOCK_EX)",
    "lockf, shared": "fcntl.lockf(fd, fcntl.LOCK_SH)",
    "lock of an open file": "fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))",
}


@pytest.mark.parametrize("way", LOCKS)
def test_a_lock_on_a_file_of_the_host_keeps_nobody_out(box, way):
    path = LIBRARY / "this.py"
    code = f"""{HEAD}
fd = os.open({str(path)!r}, os.O_RDONLY)
try: {LOCKS[way]}
except OSError: pass
print('went on', flush=True)
time.sleep(0.2)
"""
    fd = os.open(path, os.O_RDONLY)

    def use() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
        (found,) = struct.unpack_from("h", fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        assert found == fcntl.F_UNLCK

    try:
        with meanwhile(use):
            assert box.run(code).stdout == b"went on\n"
    finally:
        os.close(fd)


@pytest.mark.parametrize("way", LOCKS)
def test_a_program_may_lock_its_own_files(namespaces, way):
    code = f"{HEAD}\nfd = os.open('/tmp/own', os.O_CREAT | os.O_RDWR)\n{LOCKS[way]}\nfcntl.lockf(fd, fcntl.LOCK_EX)\nfcntl.flock(fd, fcntl.LOCK_UN)\nprint('ok')"
    assert namespaces.output(code) == "ok"


# The cache of the host's files.


def resident(path: Path) -> bool:
    """Whether the first page of a file is in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE) as view:  # fmt: skip
        start = (ctypes.c_char * 4096).from_buffer(view)
        answer = (ctypes.c_ubyte * 1)()
        result = libc.mincore(ctypes.byref(start), ctypes.c_size_t(4096), answer)
        del start
    assert result == 0
    return bool(answer[0] & 1)


def test_a_program_cannot_drop_the_host_s_cached_files(box):
    """By it one program would slow all others down, and tell another what it did."""
    path = LIBRARY / "turtle.py"
    if not path.exists():
        pytest.skip("no such file")
    os.sync()
    path.read_bytes()
    if not resident(path):
        pytest.skip("this kernel does not say what it caches")
    code = f"""{HEAD}
fd = os.open({str(path)!r}, os.O_RDONLY)
for advice in (os.POSIX_FADV_DONTNEED, os.POSIX_FADV_NOREUSE):
    try: os.posix_fadvise(fd, 0, 0, advice)
    except OSError: pass
"""
    assert box.run(code).returncode == 0
    assert resident(path)


@numbers
def test_usual_advice_on_memory_and_reading_at_a_place_work(box):
    """Allocators give it: will need, do not need, free, remove, huge pages or none."""
    code = f"""{HEAD}
memory = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
refused = [each for each in (3, 4, 8, 9, 14, 15) if call(28, ctypes.c_long(at), 4096, each) == 1]
print(refused, os.preadv(library, [bytearray(16)], 0), len(os.pread(library, 16, 0)))
"""
    assert box.output(code) == "[] 16 16"
