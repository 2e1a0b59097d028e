"""Thin wrappers of the Linux calls that the standard library (3.11) lacks."""

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys
from typing import NoReturn

from cobalt.sandbox.guest import protocol

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_BIND, MS_REC, MS_PRIVATE = 32, 1024, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4

MACHINE = platform.machine()


def check(result: int, what: str) -> int:
    """`result`, or OSError with errno and `what` if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


# What every test calls goes here first: each object touched after a fork is a page copied, and keeping errno
# touches many. A call that fails is made again through `libc`, which keeps it. The interpreter's lock is not
# let go, so a forked child holds it.
_quick = ctypes.PyDLL(None)
_quick.mount.argtypes = libc.mount.argtypes
_quick.prctl.argtypes = libc.prctl.argtypes


def fork() -> int:
    """`os.fork` without what Python does after it: that costs a child 170 page faults, four times the rest.

    For processes of one thread. There it matters only to `random` and to the main thread's native id
    (`program.Program` renews them).
    """
    pid = _quick.fork()
    return pid if pid >= 0 else check(libc.fork(), "fork")


def unshare(flags: int) -> None:
    if _quick.unshare(flags) < 0:
        check(libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, flag: int) -> None:
    check(libc.setns(fd, flag), f"setns({flag:#x})")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() or None)
    check(result, f"mount {kind or source} on {target}")


def mount_tmpfs(target: bytes, flags: int, options: bytes) -> None:
    """`mount` of a tmpfs with its texts prepared, as each test does."""
    if _quick.mount(b"tmpfs", target, b"tmpfs", flags, options) < 0:
        check(libc.mount(b"tmpfs", target, b"tmpfs", flags, options), "mount of a test's own folder")


def umount(target: str) -> None:
    check(libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the current folder, a mount point, the root and let go of the old root."""
    number = {"x86_64": 155, "aarch64": 41}[MACHINE]
    check(libc.syscall(number, b".", b"."), "pivot_root")
    umount(".")
    os.chdir("/")


def prctl(option: int, first: int = 0, second: int = 0) -> None:
    if _quick.prctl(option, first, second, 0, 0) < 0:
        check(libc.prctl(option, first, second, 0, 0), f"prctl({option})")


def die_with_parent(parent: int) -> None:
    """Be killed when `parent` ends, also if it has already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_CAP_HEADER = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
_NO_CAPS = ctypes.create_string_buffer(24)
_CAPSET = (ctypes.addressof(_CAP_HEADER), ctypes.addressof(_NO_CAPS))
libc.capget.argtypes = libc.capset.argtypes = _quick.capset.argtypes = [ctypes.c_void_p] * 2


def drop_capabilities() -> None:
    """Give up all effective, permitted and inheritable capabilities."""
    if _quick.capset(*_CAPSET) < 0:
        check(libc.capset(*_CAPSET), "capset")


def open_files_as_root() -> None:
    """Let the kernel treat this process as root's where it opens files. Needs root's capabilities."""
    caps = ctypes.create_string_buffer(24)
    check(libc.capget(_CAPSET[0], ctypes.addressof(caps)), "capget")
    low, high = struct.unpack_from("4xI8xI", caps)
    struct.pack_into("IIIIII", caps, 0, low, low, 0, high, high, 0)
    check(libc.capset(_CAPSET[0], ctypes.addressof(caps)), "capset")
    libc.setfsuid(0)


def drop_bounding_set() -> None:
    """No capability can come back through an executed file. Needs CAP_SETPCAP; silent without."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break


def set_thread_stack(size: int) -> None:
    """Default stack of new threads; the C library would take the main stack's limit, far too much."""
    attributes = (ctypes.c_char * 128)()
    if hasattr(libc, "pthread_setattr_default_np") and libc.pthread_attr_init(attributes) == 0:
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
        libc.pthread_setattr_default_np(attributes)
        libc.pthread_attr_destroy(attributes)


def share_one_arena() -> None:
    """All threads allocate from one arena: the C library would reserve up to 128 MiB for each."""
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


_M_ARENA_MAX = -8

WNOHANG = 1
_usage = ctypes.create_string_buffer(protocol.USAGE.size)
_STATUS_AT = ctypes.addressof(_usage)
_RUSAGE_AT = _STATUS_AT + 8
_quick.wait4.argtypes = libc.wait4.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]


def wait(pid: int, flags: int = 0) -> bytes | None:
    """`protocol.USAGE` of a child that has ended; None if it has not (with WNOHANG).

    The bytes are handed on as they are: numbers made of them would stay behind in the memory of a process
    whose next child may look for them.
    """
    found = _quick.wait4(pid, _STATUS_AT, flags, _RUSAGE_AT)
    if found < 0:
        found = check(libc.wait4(pid, _STATUS_AT, flags, _RUSAGE_AT), "wait4")
    return _usage.raw if found else None


def forget_usage() -> None:
    """Wipe what `wait` has left."""
    ctypes.memset(_STATUS_AT, 0, protocol.USAGE.size)


def kill_all() -> bool:
    """SIGKILL to every process that this one may signal, itself and process 1 apart; False: there is none."""
    return bool(_quick.kill(-1, 9) == 0)


def end_interpreter(status: int) -> NoReturn:
    """Finalize the interpreter, with everything that may print on the way, and leave by the C library's exit.

    The frames below this call are never returned to; what they refer to is not finalized.
    """
    _quick.Py_Exit(status)
    os._exit(status)  # not reached


def interrupt_at_exit() -> None:
    """Let exit(OWN_PID) end in SIGINT: at its very end the C library calls `kill` with that status."""
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc.kill, ctypes.c_long(signal.SIGINT))


def find_recursion() -> None:
    """Look for where the interpreter keeps how deep this thread may still recurse, for `forget_frames`."""
    start = ctypes.cast(_quick.PyThreadState_Get(), ctypes.POINTER(ctypes.c_int))
    before = sys.getrecursionlimit()
    found = [place for place in range(1, 64) if start[place] == before]
    sys.setrecursionlimit(before + 1234)
    found = [
        place
        for place in found
        if start[place] == before + 1234 and 0 <= before + 1234 - start[place - 1] < 99
    ]
    sys.setrecursionlimit(before)
    if len(found) == 1:
        _recursion.append(ctypes.c_int.from_address(ctypes.addressof(start.contents) + 4 * (found[0] - 1)))


def forget_frames() -> None:
    """Let the caller's next call be as deep as if nothing had been called before."""
    if _recursion:
        _recursion[0].value = sys.getrecursionlimit()
    else:
        sys.setrecursionlimit(sys.getrecursionlimit() + 11)


_recursion: list[ctypes.c_int] = []
_quick.PyThreadState_Get.restype = ctypes.c_void_p

# Landlock: a process gives up the file system, TCP ports and foreign signals without any privilege.
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights known to each version of the interface; 16 from 5 on


def landlock_version() -> int:
    """Version of the kernel's Landlock interface; 0 if there is none."""
    return max(0, int(libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def landlock_ruleset(readable: list[str], devices: list[str]) -> int:
    """A descriptor of rules: `readable` folders and files may be read, `devices` used, nothing else."""
    abi = landlock_version()
    if abi < 1:
        raise OSError("this kernel has no Landlock, or it is not enabled")
    rights = (1 << _FS_BITS.get(abi, 16)) - 1
    network = 3 if abi >= 4 else 0  # bind and connect TCP
    scope = 3 if abi >= 6 else 0  # abstract sockets and signals
    attributes = struct.pack("QQQ", rights, network, scope)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    fd = libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    check(fd, "landlock_create_ruleset")
    for path in readable:
        if not os.path.islink(path):  # following links takes no right; what they lead to is listed too
            _landlock_allow(fd, path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0))
    for device in devices:
        _landlock_allow(fd, device, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
    return int(fd)


def _landlock_allow(fd: int, path: str, allowed: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", allowed, beneath)
        check(libc.syscall(_ADD_RULE, fd, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(beneath)


def landlock_restrict(fd: int) -> None:
    """Apply a ruleset to this process. Needs no_new_privs."""
    check(libc.syscall(_RESTRICT, fd, 0), "landlock_restrict_self")
