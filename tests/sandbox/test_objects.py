# ruff: noqa: E501 (programs in one line)
"""Objects of the kernel that no limit counts, and those by which a program could reach or disturb the host."""

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
PERMISSION, INVALID, NO_DEVICE_CALL, NO_SUCH_CALL, NOT_SUPPORTED = 1, 22, 25, 38, 95
REFUSED = (PERMISSION, NO_SUCH_CALL)
numbers = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers of x86_64")
LIBRARY = Path(sysconfig.get_path("stdlib"))

HEAD = """
import ctypes, errno, fcntl, json, mmap, os, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*given):
    ctypes.set_errno(0)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    result = libc.syscall(*given)
    return ctypes.get_errno() if result < 0 else 0
room = ctypes.create_string_buffer(1 << 16)
library = os.open(os.__file__, os.O_RDONLY)
anonymous = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory = ctypes.addressof(ctypes.c_char.from_buffer(anonymous))
"""

CALLS = {
    "shmget": "29, 0, 4096, 0o1600",
    "shmat": "30, 0, 0, 0",
    "shmctl": "31, 0, 2, room",
    "shmdt": "67, 0",
    "semget": "64, 0, 1, 0o1600",
    "semop": "65, 0, room, 1",
    "semctl": "66, 0, 0, 0, 0",
    "semtimedop": "220, 0, room, 1, 0",
    "msgget": "68, 0, 0o1600",
    "msgsnd": "69, 0, room, 1, 0o4000",
    "msgrcv": "70, 0, room, 1, 0, 0o4000",
    "msgctl": "71, 0, 0, 0",
    "mq_open": "240, b'cobalt', 0o102, 0o600, 0",
    "mq_unlink": "241, b'cobalt'",
    "mq_timedsend": "242, -1, room, 1, 0, 0",
    "mq_timedreceive": "243, -1, room, 1, 0, 0",
    "mq_notify": "244, -1, 0",
    "mq_getsetattr": "245, -1, 0, 0",
    "splice": "275, -1, 0, -1, 0, 1, 0",
    "tee": "276, -1, -1, 1, 0",
    "vmsplice": "278, -1, room, 1, 0",
    "io_setup": "206, 64, ctypes.create_string_buffer(8)",
    "io_destroy": "207, 0",
    "io_getevents": "208, 0, 0, 0, 0, 0",
    "io_submit": "209, 0, 0, 0",
    "io_cancel": "210, 0, 0, 0",
    "io_pgetevents": "333, 0, 0, 0, 0, 0, 0",
    "inotify_init": "253",
    "inotify_init1": "294, 0",
    "inotify_add_watch": "254, -1, b'/', 0xfff",
    "inotify_rm_watch": "255, -1, 0",
    "fanotify_init": "300, 0, 0",
    "fanotify_mark": "301, -1, 1, 2, -100, b'/'",
    "mincore": "27, memory, 4096, room",
    "readahead": "187, library, 0, 4096",
    "cachestat": "451, library, room, room, 0",
    "file_getattr": "468, -100, b'/', room, 24, 0",
    "file_setattr": "469, -100, b'/', room, 24, 0",
    "remap_file_pages": "216, memory, 4096, 0, 0, 0",
}


@numbers
@pytest.mark.parametrize("name", CALLS)
def test_the_object_cannot_be_made_or_used(box, name):
    assert int(box.output(f"{HEAD}\nprint(call({CALLS[name]}))")) in REFUSED


ATTRIBUTES = {
    "setxattr": "188, b'/tmp', b'user.x', b'1', 1, 0",
    "lsetxattr": "189, b'/tmp', b'user.x', b'1', 1, 0",
    "fsetxattr": "190, library, b'user.x', b'1', 1, 0",
    "getxattr": "191, b'/tmp', b'user.x', room, 16",
    "lgetxattr": "192, b'/tmp', b'user.x', room, 16",
    "fgetxattr": "193, library, b'user.x', room, 16",
    "listxattr": "194, b'/tmp', room, 16",
    "llistxattr": "195, b'/tmp', room, 16",
    "flistxattr": "196, library, room, 16",
    "removexattr": "197, b'/tmp', b'user.x'",
    "lremovexattr": "198, b'/tmp', b'user.x'",
    "fremovexattr": "199, library, b'user.x'",
    "setxattrat": "463, -100, b'/tmp', 0, b'user.x', room, 16",
    "getxattrat": "464, -100, b'/tmp', 0, b'user.x', room, 16",
    "listxattrat": "465, -100, b'/tmp', 0, room, 16",
    "removexattrat": "466, -100, b'/tmp', 0, b'user.x'",
}


@numbers
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_extended_attributes_are_not_supported(box, name):
    """The error is the one at which `shutil` goes on without them."""
    found = int(box.output(f"{HEAD}\nprint(call({ATTRIBUTES[name]}))"))
    assert found == NOT_SUPPORTED or (name.endswith("at") and found in REFUSED)


ADVICE = {"cold": 20, "page out": 21, "mergeable": 12, "poison": 100, "soft offline": 101, "collapse": 25}


@numbers
@pytest.mark.parametrize("name", ADVICE)
def test_advice_that_reaches_beyond_the_program_is_refused(box, name):
    code = f"{HEAD}\nanonymous[0] = 1\nprint(call(28, memory, 4096, {ADVICE[name]}))"
    assert int(box.output(code)) in (*REFUSED, INVALID)


@numbers
@pytest.mark.parametrize("advice", [3, 4, 8, 9, 14, 15])
def test_usual_advice_is_taken(box, advice):
    """Allocators give it: will need, do not need, free, remove, huge pages or none."""
    code = f"{HEAD}\nprint(call(28, memory, 4096, {advice}))"
    assert int(box.output(code)) in (0, INVALID)  # refused only where the kernel has none of it


REQUESTS = {
    "FIBMAP": 0x1,
    "FIGETBSZ": 0x2,
    "TIOCSCTTY": 0x540E,
    "TIOCSTI": 0x5412,
    "TIOCLINUX": 0x541C,
    "FIOASYNC": 0x5452,
    "FIOQSIZE": 0x5460,
    "FIOSETOWN": 0x8901,
    "SIOCSPGRP": 0x8902,
    "FIOGETOWN": 0x8903,
    "SIOCGIFCONF": 0x8912,
    "SIOCGSTAMP": 0x8906,
    "NS_GET_USERNS": 0xB701,
    "NS_GET_PARENT": 0xB702,
    "FICLONE": 0x40049409,
    "FS_IOC_SETFLAGS": 0x40086602,
    "FS_IOC_SETVERSION": 0x40087602,
    "FS_IOC_FSSETXATTR": 0x401C5820,
    "FS_IOC_GETFLAGS": 0x80086601,
    "FS_IOC_GETVERSION": 0x80087601,
    "FS_IOC_GETFSUUID": 0x80111500,
    "FS_IOC_FSGETXATTR": 0x801C581F,
    "RNDGETENTCNT": 0x80045200,
    "FIFREEZE": 0xC0045877,
    "FITRIM": 0xC0185879,
    "FS_IOC_FIEMAP": 0xC020660B,
    "FIDEDUPERANGE": 0xC0189436,
}


@numbers
def test_device_calls_are_refused(box):
    """On a file of the host, standard input and output, a pipe, a local socket and a namespace."""
    code = f"""{HEAD}
found = {{}}
things = dict(library=library, stdin=0, stdout=1, pipe=os.pipe()[0], socket=socket.socketpair()[0].detach())
for name, request in {REQUESTS!r}.items():
    for what, fd in things.items():
        ctypes.memset(room, 0, 64)
        found[name + ' of ' + what] = call(16, fd, ctypes.c_ulong(request), room)
print(json.dumps(found))
"""
    found = json.loads(box.output(code))
    refused = (*REFUSED, NO_DEVICE_CALL)
    assert {name: error for name, error in found.items() if error not in refused} == {}


COMMANDS = {
    "F_SETPIPE_SZ": "write, 1031, 1 << 20",
    "F_SETPIPE_SZ, smaller": "write, 1031, 4096",
    "F_SETLEASE": "library, 1024, 0",
    "F_SETLEASE on a file of its own": "own, 1024, 1",
    "F_SETLEASE on standard input": "0, 1024, 0",
    "F_NOTIFY": "folder, 1026, 0x80000001",
    "F_ADD_SEALS": "1, 1033, 4",
    "F_SET_RW_HINT": "own, 1036, room",
    "F_SET_FILE_RW_HINT": "own, 1038, room",
}


@numbers
@pytest.mark.parametrize("name", COMMANDS)
def test_the_descriptor_command_is_refused(box, name):
    code = f"""{HEAD}
read, write = os.pipe()
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
try: own = os.open('/tmp/own', os.O_CREAT | os.O_RDONLY)
except OSError: own = 0
ctypes.memset(room, 0, 8)
print(call(72, {COMMANDS[name]}))
"""
    assert int(box.output(code)) in (*REFUSED, INVALID)


@pytest.mark.parametrize("option", ["SO_SNDBUF", "SO_RCVBUF"])
def test_buffers_of_sockets_cannot_be_made_larger(box, option):
    code = f"""
import socket
one, other = socket.socketpair()
before = one.getsockopt(socket.SOL_SOCKET, socket.{option})
for number in (socket.{option}, socket.{option} + 25):  # the second form is for the privileged
    try: one.setsockopt(socket.SOL_SOCKET, number, 8 << 20)
    except OSError: pass
print(one.getsockopt(socket.SOL_SOCKET, socket.{option}) <= before)
"""
    assert box.output(code) == "True"


def test_what_waits_in_sockets_is_bounded(namespaces):
    """Sixty processes fill fifty-six pairs each, both ways: what is in them is memory of the kernel's."""
    code = """
import os, socket, sys, time
def fill():
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
    return kept, pairs
children = []
for _ in range(60):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        kept, pairs = fill()
        print(kept, flush=True)
        time.sleep(3)
        os._exit(0)
for _ in range(60):
    try: os.wait()
    except OSError: break
"""
    facts = namespaces.run(code, limits=Limits(cpu_s=8, wall_s=30))
    kept = sum(map(int, facts.stdout.split()))
    assert facts.limit == "memory" or kept < 700 * MIB, (facts, kept)  # beside it each byte costs a half


def test_what_waits_in_pipes_is_bounded(namespaces):
    code = """
import fcntl, os, time
def fill():
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
    return kept
for _ in range(60):
    if os.fork() == 0:
        print(fill(), flush=True)
        time.sleep(1)
        os._exit(0)
for _ in range(60): os.wait()
"""
    facts = namespaces.run(code, limits=Limits(cpu_s=8, wall_s=30))
    kept = sum(map(int, facts.stdout.split()))
    assert facts.limit == "memory" or kept < 512 * MIB, (facts, kept)


def aio_contexts() -> int:
    return int(Path("/proc/sys/fs/aio-nr").read_text())


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


@numbers
@pytest.mark.skipif(not Path("/proc/sys/fs/aio-nr").exists(), reason="no such setting")
def test_the_machine_s_share_of_asynchronous_files_is_not_taken(box):
    """There is one number for all programs of a machine: who takes all of it takes it from databases."""
    before, most = aio_contexts(), 0

    def look() -> None:
        nonlocal most
        most = max(most, aio_contexts())

    code = f"""{HEAD}
for _ in range(4): call(206, 1024, ctypes.create_string_buffer(8))
time.sleep(0.3)
"""
    with meanwhile(look):
        assert box.run(code).returncode == 0
    assert most <= before


# Writing to the disks.

SYNCS = {
    "os.sync": "os.sync() or 0",
    "sync": "call(162)",
    "syncfs": "call(306, library)",
    "syncfs of standard output": "call(306, 1)",
    "fsync": "os.fsync(library) or 0",
    "fdatasync": "os.fdatasync(library) or 0",
    "fsync of standard output": "os.fsync(1) or 0",
    "sync_file_range": "call(277, 1, 0, 0, 7)",
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
    refusable = ("sync_file_range",)  # an advice, which Python does not give
    assert {name for name, (error, _) in found.items() if error and name not in refusable} == set()
    assert {name for name, (_, seconds) in found.items() if seconds > 0.5} == set()


def dirty_bytes() -> int:
    text = Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Dirty:"))


@numbers
@pytest.mark.parametrize("name", ["sync", "syncfs"])
def test_synchronising_does_not_make_the_host_write(box, tmp_path, name):
    work = {"sync": "call(162)", "syncfs": "call(306, library)"}[name]
    os.sync()
    file = tmp_path / "dirty"
    file.write_bytes(os.urandom(MIB) * 48)
    before = dirty_bytes()
    if before < 32 * MIB:
        pytest.skip("files of this file system wait for no disk")
    box.run(f"{HEAD}\nprint({work})")
    after = dirty_bytes()
    file.unlink()
    assert after > before // 2


# Locks.

LOCKS = {
    "flock": "fcntl.flock(fd, fcntl.LOCK_EX)",
    "flock, shared": "fcntl.flock(fd, fcntl.LOCK_SH)",
    "lockf, shared": "fcntl.lockf(fd, fcntl.LOCK_SH)",
    "lock of an open file": "fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))",
}


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("way", LOCKS)
def test_a_lock_on_a_file_of_the_host_keeps_nobody_out(box, way, what):
    path = LIBRARY / "this.py" if what == "file" else LIBRARY / "json"
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


@pytest.mark.parametrize("way", [*LOCKS, "lockf"])
def test_a_program_may_lock_its_own_files(namespaces, way):
    work = {**LOCKS, "lockf": "fcntl.lockf(fd, fcntl.LOCK_EX)"}[way]
    code = f"{HEAD}\nfd = os.open('/tmp/own', os.O_CREAT | os.O_RDWR)\n{work}\nfcntl.lockf(fd, fcntl.LOCK_UN)\nfcntl.flock(fd, fcntl.LOCK_UN)\nprint('ok')"
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


def test_a_program_cannot_ask_what_is_cached(box):
    """A read that must not wait fails where the page is not there: an answer about the host."""
    code = f"""{HEAD}
try: print(os.preadv(library, [bytearray(16)], 0, os.RWF_NOWAIT))
except OSError as error: print(-error.errno)
"""
    assert -int(box.output(code)) in (*REFUSED, INVALID, NOT_SUPPORTED)


def test_reading_at_a_place_works(box):
    code = f"{HEAD}\nprint(os.preadv(library, [bytearray(16)], 0), len(os.pread(library, 16, 0)))"
    assert box.output(code) == "16 16"
