# ruff: noqa: E501 (programs in one line)
"""System calls that lead out, down or to the host: what is not on the list of permitted ones is refused."""

import json
import platform

import pytest

EPERM, EACCES, EINVAL, ENOTTY, ENOSPC, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 13, 22, 25, 28, 38, 95, 97
REFUSED = (EPERM, ENOSYS)
numbers = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers of x86_64")

HEAD = """
import ctypes, json, mmap, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
def call(*given):
    ctypes.set_errno(0)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    result = libc.syscall(*given)
    return ctypes.get_errno() if result < 0 else 0
def machine_code(text, *types):
    at = libc.mmap(None, 8192, 7, 0x22, -1, 0)
    ctypes.memmove(ctypes.c_void_p(at), text, len(text))
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(at), at
room = ctypes.create_string_buffer(1 << 16)
library = os.open(os.__file__, os.O_RDONLY)
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
read, write = os.pipe()
try: own = os.open('/tmp/own', os.O_CREAT | os.O_RDONLY)
except OSError: own = 0
anonymous = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory = ctypes.addressof(ctypes.c_char.from_buffer(anonymous))
above = os.getppid() or 1
def clock(pid): return (~pid << 3) | 2
"""

# No program that is judged needs these. Those that are gone from the kernel are refused as well. They are called
# with arguments that are wrong anyway: the kernel's own answer would mostly be another one.
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
    "futex_requeue": 456, "futex_waitv": 449, "mseal": 462, "file_getattr": 468, "file_setattr": 469, "openat2": 437,
    "clone3": 435, "statx": 332, "execve": 59, "execveat": 322, "unshare": 272, "setns": 308,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "modify_ldt": 154, "vhangup": 153,
    "adjtimex": 159, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "syslog": 103,
    "uselib": 134, "ustat": 136, "sysfs": 139, "_sysctl": 156, "lookup_dcookie": 212, "epoll_ctl_old": 214,
    "epoll_wait_old": 215, "vserver": 236, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239,
    "migrate_pages": 256, "move_pages": 279, "fanotify_init": 300, "fanotify_mark": 301, "personality": 135,
    "get_thread_area": 211, "set_thread_area": 205, "security": 185, "tuxcall": 184, "getpmsg": 181,
    "putpmsg": 182, "afs_syscall": 183, "ioprio_set": 251, "setfsuid": 122, "setfsgid": 123,
    "shmat": 30, "shmctl": 31, "shmdt": 67, "semop": 65, "semctl": 66, "semtimedop": 220, "msgsnd": 69,
    "msgrcv": 70, "msgctl": 71, "mq_unlink": 241, "mq_timedsend": 242, "mq_timedreceive": 243, "mq_notify": 244,
    "mq_getsetattr": 245, "splice": 275, "tee": 276, "vmsplice": 278, "io_destroy": 207, "io_getevents": 208,
    "io_submit": 209, "io_cancel": 210, "io_pgetevents": 333, "inotify_add_watch": 254, "inotify_rm_watch": 255,
    "readahead": 187, "remap_file_pages": 216,
}  # fmt: skip

# What would work, or go by its arguments: the call, and the answers that are a refusal.
GIVEN = {
    "shmget": ("29, 0, 4096, 0o1600", REFUSED),
    "semget": ("64, 0, 1, 0o1600", REFUSED),
    "msgget": ("68, 0, 0o1600", REFUSED),
    "mq_open": ("240, b'cobalt', 0o102, 0o600, 0", REFUSED),
    "io_setup": ("206, 64, ctypes.create_string_buffer(8)", REFUSED),
    "inotify_init": ("253", REFUSED),
    "inotify_init1": ("294, 0", REFUSED),
    "mincore": ("27, memory, 4096, room", REFUSED),
    "memfd_create": ("319, b'x', 0", REFUSED),
    "readahead of the library": ("187, library, 0, 4096", REFUSED),
    "rseq of a foreign size": ("334, 0, 7, 0, 0", (*REFUSED, EINVAL)),
    # namespaces and mounts: where no filter says so, there are no capabilities and no further namespaces
    "a user namespace": ("272, 0x10000000", (*REFUSED, ENOSPC)),
    "a mount namespace": ("272, 0x20000", (*REFUSED, ENOSPC)),
    "setns of the own namespace": ("308, os.open('/proc/self/ns/mnt', 0) if os.path.exists('/proc/self/ns') else 0, 0", REFUSED),
    "a mount": ("165, b'none', b'/tmp', b'tmpfs', 0, 0", (*REFUSED, EACCES)),
    "an unmount": ("166, b'/tmp', 2", REFUSED),
    # prctl
    "not dumpable": ("157, 4, 0, 0, 0, 0", (EPERM, EINVAL)),
    "PR_SET_MM": ("157, 35, 1, 0, 0, 0", (EPERM, EINVAL)),
    "child subreaper": ("157, 36, 1, 0, 0, 0", (EPERM, EINVAL)),
    "core scheduling": ("157, 62, 1, 0, 0, room", (EPERM, EINVAL)),
    "parent's death signal": ("157, 1, 0, 0, 0, 0", (EPERM, EINVAL)),
    "timer slack": ("157, 29, 1, 0, 0, 0", (EPERM, EINVAL)),
    "keep capabilities": ("157, 8, 1, 0, 0, 0", (EPERM, EINVAL)),
    "tracer": ("157, 0x59616d61, -1, 0, 0, 0", (EPERM, EINVAL)),
    "merging of memory": ("157, 67, 1, 0, 0, 0", (EPERM, EINVAL)),
    "speculation": ("157, 53, 0, 2, 0, 0", (EPERM, EINVAL)),
    "user dispatch": ("157, 59, 1, 0, 0, room", (EPERM, EINVAL)),
    # clone; nothing is made even where it is permitted, for these need what is missing
    **{f"clone of namespace {flag:#x}": (f"56, {flag} | 17, 0, 0, 0, 0", REFUSED)
       for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)},
    "a thread of a traced kind": ("56, 0x2000 | 17, 0, 0, 0, 0", REFUSED),
    "a child without a signal at its end": ("56, 0, 0, 0, 0, 0", REFUSED),
    # files and descriptors
    "F_SETPIPE_SZ": ("72, write, 1031, 1 << 20", REFUSED),
    "F_SETLEASE": ("72, library, 1024, 0", REFUSED),
    "F_SETLEASE on a file of its own": ("72, own, 1024, 1", REFUSED),
    "F_NOTIFY": ("72, folder, 1026, 0x80000001", REFUSED),
    "F_ADD_SEALS": ("72, 1, 1033, 4", REFUSED),
    "F_SET_RW_HINT": ("72, own, 1036, room", REFUSED),
    "notification pipe": ("293, room, 0o200", (EPERM, EINVAL)),
    "unnamed file": ("257, -100, b'/tmp', 0o20200000 | 2, 0o600", (EOPNOTSUPP,)),  # tempfile makes a named one then
    "unnamed file by open": ("2, b'/tmp', 0o20200000 | 2, 0o600", (EOPNOTSUPP,)),
    "read that must not wait": ("327, library, struct.pack('QQ', ctypes.addressof(room), 16), 1, 0, 0, 8", (*REFUSED, EINVAL, EOPNOTSUPP)),
    # extended attributes: the error is the one at which `shutil` goes on without them
    **{f"extended attributes, {number}": (f"{number}, {fd}, b'user.x', room, 16, 0", (EOPNOTSUPP,))
       for first in (188, 191, 194, 197) for number, fd in enumerate(("b'/tmp'", "b'/tmp'", "library"), first)},
    **{f"extended attributes, {number}": (f"{number}, -100, b'/tmp', 0, b'user.x', room, 16", (*REFUSED, EOPNOTSUPP))
       for number in range(463, 467)},
    # advice that reaches beyond the program: cold, page out, mergeable, poison, soft offline, collapse
    **{f"madvise {advice}": (f"28, memory, 4096, {advice}", (*REFUSED, EINVAL)) for advice in (20, 21, 12, 100, 101, 25)},
    # others than the caller
    "limits of others": ("302, 1, 7, 0, 0", REFUSED),
    "affinity of others": ("203, 1, 8, room", REFUSED),
    "priority of others": ("141, 0, 1, 19", REFUSED),
    "priority of a group": ("141, 1, 0, 0", REFUSED),
    "priority of a user": ("141, 2, 0, 0", REFUSED),
    "x32 getpid": ("0x40000000 + 39", REFUSED),
}  # fmt: skip

# At `namespaces` the process above is 1; without them its number is known to the program. CPU time of the process
# above tells what it did for the tests before.
ABOUT_OTHERS = {
    "sched_getattr": "315, {pid}, room, 64, 0",
    "sched_getscheduler": "145, {pid}",
    "sched_getparam": "143, {pid}, room",
    "sched_getaffinity": "204, {pid}, 128, room",
    "sched_rr_get_interval": "148, {pid}, room",
    "getpriority": "140, 0, {pid}",
    "ioprio_get": "252, 1, {pid}",
    "prlimit64": "302, {pid}, 7, 0, room",
    "get_robust_list": "274, {pid}, room, room",
    "clock read": "228, clock({pid}), room",
    "clock's resolution": "229, clock({pid}), room",
    "sleep on a clock": "230, clock({pid}), 0, struct.pack('qq', 0, 1), 0",
    "timer of a clock": "222, clock({pid}), 0, room",
}
ANY = tuple(range(1, 134))
CALLS = {
    **{name: (f"{number}, -1, 0, 0, 0, 0, 0", REFUSED) for name, number in NEVER.items()},
    **GIVEN,
    **{f"{name} of {pid}": (text.format(pid=pid), ANY) for name, text in ABOUT_OTHERS.items() for pid in ("1", "above")},
}  # fmt: skip

KILLED = -1


def answers(box) -> dict[str, int]:
    """What each call fails with (0: it does not); a call that ends the program is taken up after by another."""
    found: dict[str, int] = {}
    while len(found) < len(CALLS):
        left = {name: given for name, (given, _) in CALLS.items() if name not in found}
        loop = f"""
for name, given in {left!r}.items():
    pid, error = os.getpid(), call(*eval(f'({{given}},)'))
    if os.getpid() != pid: os._exit(0)  # made after all: the parent says so
    print(error, name, flush=True)
"""
        lines = box.run(HEAD + loop).stdout.decode().splitlines()
        found |= {name: int(error) for error, _, name in (line.partition(" ") for line in lines)}
        if len(lines) < len(left):
            found[[*left][len(lines)]] = KILLED
    return found


@numbers
def test_calls_that_are_not_on_the_list_are_refused(box):
    found = answers(box)
    assert {name: error for name, error in found.items() if error not in CALLS[name][1]} == {}


@numbers
def test_unknown_calls_and_other_interfaces_are_refused(box):
    """Future ones, x32 and negative numbers; a filter that compares but the low bits would take them for others."""
    code = f"""{HEAD}
asked = [*range(470, 601), 1023, 4095, 1 << 16, 1 << 20, (1 << 29) - 1, 1 << 29]
asked += [*((1 << 30) + n for n in (0, 1, 2, 39, 57, 59, 101, 512, 520, 521, 545, 547)), *(-n for n in (2, 3, 39, 4096)), -(1 << 31)]
print(json.dumps({{number: call(number, -1, 0, 0, 0, 0, 0) for number in asked}}))
"""
    found = json.loads(box.output(code))
    assert {number: error for number, error in found.items() if error not in REFUSED} == {}
    # `int 0x80` with number 20, getpid there: nothing comes of it but a signal.
    facts = box.run(f"{HEAD}\nprint(machine_code(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')[0]())")
    assert facts.returncode in (-31, -11) or facts.stdout in (b"-1\n", b"-38\n"), facts


@numbers
@pytest.mark.parametrize("flags", [0x100 | 17, 0x8000 | 17, 0x100 | 0x4000 | 0x8000 | 17])
def test_processes_of_unusual_kinds_are_not_made(box, flags):
    """Sharing memory but no thread, or of the parent's parent. The child would end at once: it is machine code."""
    code = f"""{HEAD}
text = b'\\xb8\\x38\\0\\0\\0\\x31\\xd2\\x4d\\x31\\xd2\\x4d\\x31\\xc0\\x0f\\x05\\x85\\xc0\\x74\\x01\\xc3\\xb8\\x3c\\0\\0\\0\\x31\\xff\\x0f\\x05'
clone, at = machine_code(text, ctypes.c_long, ctypes.c_long)
print(clone({flags}, at + 8128))
"""
    assert -int(box.output(code)) in (EPERM, EINVAL, ENOSYS)


@numbers
def test_no_process_is_made_or_held_by_raw_calls_without_namespaces(landlock):
    """fork, vfork and pidfd_open; the C library goes by `clone`."""
    code = f"{HEAD}\nprint([call(number, os.getpid(), 0) for number in (57, 58, 434)])"
    assert landlock.output(code) == str([EPERM] * 3)


@numbers
@pytest.mark.parametrize("number", [41, 53])
def test_only_local_sockets_can_be_made(box, number):
    code = f"""{HEAD}
print(json.dumps({{f'{{family}} {{kind}}': call({number}, family, kind, 0, room) for family in (*range(2, 47), 255, -1) for kind in (1, 2, 3, 5)}}))
"""
    found = json.loads(box.output(code))
    assert {name: error for name, error in found.items() if error not in (EPERM, EACCES, EAFNOSUPPORT)} == {}


REQUESTS = {
    "FIBMAP": 0x1, "FIGETBSZ": 0x2, "TIOCSCTTY": 0x540E, "TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "FIOASYNC": 0x5452,
    "FIOQSIZE": 0x5460, "FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902, "FIOGETOWN": 0x8903, "SIOCGIFCONF": 0x8912,
    "SIOCGSTAMP": 0x8906, "NS_GET_USERNS": 0xB701, "NS_GET_PARENT": 0xB702, "FICLONE": 0x40049409,
    "FS_IOC_SETFLAGS": 0x40086602, "FS_IOC_SETVERSION": 0x40087602, "FS_IOC_FSSETXATTR": 0x401C5820,
    "FS_IOC_GETFLAGS": 0x80086601, "FS_IOC_GETVERSION": 0x80087601, "FS_IOC_GETFSUUID": 0x80111500,
    "FS_IOC_FSGETXATTR": 0x801C581F, "RNDGETENTCNT": 0x80045200, "FIFREEZE": 0xC0045877, "FITRIM": 0xC0185879,
    "FS_IOC_FIEMAP": 0xC020660B, "FIDEDUPERANGE": 0xC0189436,
}  # fmt: skip


@numbers
def test_device_calls_are_refused(box):
    """On a file of the host, standard input and output, a pipe and a local socket."""
    code = f"""{HEAD}
found = {{}}
things = dict(library=library, stdin=0, stdout=1, pipe=read, socket=socket.socketpair()[0].detach())
for name, request in {REQUESTS!r}.items():
    for what, fd in things.items():
        ctypes.memset(room, 0, 64)
        found[name + ' of ' + what] = call(16, fd, ctypes.c_ulong(request), room)
print(json.dumps(found))
"""
    found = json.loads(box.output(code))
    assert {name: error for name, error in found.items() if error not in (*REFUSED, ENOTTY)} == {}
