"""System call filters, assembled as classic BPF and installed with prctl.

Two filters stack. `base_filter` goes on the zygote and so costs nothing per test; it denies what no part of
the sandbox needs after set-up. `test_filter` goes on the test itself, last, and closes what the supervisor
still needed (new namespaces and mounts; at the landlock level processes and foreign signals). It is assembled
once and kept short: the kernel compiles it again for every test.
"""

import ctypes
import errno
import fcntl
import struct

from cobalt.sandbox.guest import kernel

# name: (x86_64, aarch64); None where the architecture has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chmod": (90, None),
    "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106), "execve": (59, 221),
    "execveat": (322, 281), "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54),
    "fcntl": (72, 25), "finit_module": (313, 273), "fork": (57, None), "fsconfig": (431, 431),
    "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "futimesat": (261, None), "get_mempolicy": (239, 236), "get_robust_list": (274, 100),
    "init_module": (175, 105), "inotify_add_watch": (254, 27), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None),
    "iopl": (172, None), "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294),
    "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129), "lchown": (94, None),
    "listmount": (458, 458), "lookup_dcookie": (212, 18), "lremovexattr": (198, 15), "lsetxattr": (189, 6),
    "lsm_set_self_attr": (460, 460), "mbind": (237, 235), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "migrate_pages": (256, 238), "modify_ldt": (154, None), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "msgctl": (71, 187), "msgget": (68, 186), "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "prctl": (157, 167), "prlimit64": (302, 261), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "removexattr": (197, 14), "removexattrat": (466, 466), "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "semctl": (66, 191), "semget": (64, 190), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "setpriority": (141, 140), "settimeofday": (164, 170), "setxattr": (188, 5),
    "setxattrat": (463, 463), "shmctl": (31, 195), "shmget": (29, 194), "socket": (41, 198),
    "socketpair": (53, 199), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "tgkill": (234, 131), "tkill": (200, 130), "truncate": (76, 45), "umount2": (166, 39),
    "unshare": (272, 97), "uselib": (134, None), "userfaultfd": (323, 282), "utime": (132, None),
    "utimensat": (280, 88), "utimes": (235, None), "vfork": (58, None), "vhangup": (153, 58),
}  # fmt: skip

# Not needed by any judged program, and each a way out or into another process (or a wide kernel surface).
_DENIED = """acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module execve execveat
fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick get_mempolicy get_robust_list
init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
listmount lookup_dcookie lsm_set_self_attr mbind memfd_secret migrate_pages modify_ldt mount_setattr
move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr perf_event_open
personality pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev ptrace
quotactl quotactl_fd reboot request_key setdomainname sethostname settimeofday swapoff swapon syslog
userfaultfd uselib vhangup"""

# Landlock leaves these to ordinary permissions, which are those of the user who runs the host.
_DENIED_WITHOUT_MOUNTS = """chmod chown fchmod fchmodat fchmodat2 fchown fchownat fsetxattr futimesat
inotify_add_watch lchown lremovexattr lsetxattr mount mq_open mq_unlink msgctl msgget pidfd_send_signal
removexattr removexattrat semctl semget setns setxattr setxattrat shmctl shmget socket tkill truncate umount2
unshare utime utimensat utimes"""

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag, time namespaces included
_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM = 1, 1
_F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP = 15, 0x8901, 0x8902
_SELF = 0x53454C46  # stands for the id of the process that a filter will be put on


class Unsupported(OSError):
    """This architecture or kernel cannot filter system calls."""


class Filter:
    """A list of BPF instructions; between rules the accumulator holds the call's number."""

    def __init__(self) -> None:
        if kernel.MACHINE not in _AUDIT_ARCH:
            raise Unsupported(errno.ENOSYS, f"no system call filter for {kernel.MACHINE}")
        self._column = 0 if kernel.MACHINE == "x86_64" else 1
        self._code: list[tuple[int, int, int, int]] = [
            (_LD, 0, 0, 4),
            (_JEQ, 1, 0, _AUDIT_ARCH[kernel.MACHINE]),
            (_RET, 0, 0, _KILL),  # a 32-bit entry point
            (_LD, 0, 0, 0),
        ]
        if kernel.MACHINE == "x86_64":
            self._code += [(_JGE, 0, 1, 0x40000000), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]  # the x32 ABI

    def deny(self, *names: str, error: int = errno.EPERM) -> None:
        for name in names:
            number = _NUMBERS[name][self._column]
            if number is not None:
                self._code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ERRNO | error)]

    def require(self, name: str, argument: int, value: int) -> None:
        """Deny the call unless the low half of `argument` is `value` (all are ints to the kernel)."""
        self._rule(name, argument, (_JEQ, 1, 0, value & 0xFFFFFFFF))

    def require_bits(self, name: str, argument: int, bits: int) -> None:
        self._rule(name, argument, (_JSET, 1, 0, bits))

    def forbid(self, name: str, argument: int, value: int) -> None:
        self._rule(name, argument, (_JEQ, 0, 1, value & 0xFFFFFFFF))

    def forbid_bits(self, name: str, argument: int, bits: int) -> None:
        self._rule(name, argument, (_JSET, 0, 1, bits))

    def _rule(self, name: str, argument: int, test: tuple[int, int, int, int]) -> None:
        number = _NUMBERS[name][self._column]
        if number is not None:
            self._code += [
                (_JEQ, 0, 4, number),
                (_LD, 0, 0, 16 + 8 * argument),
                test,
                (_RET, 0, 0, _ERRNO | errno.EPERM),
                (_LD, 0, 0, 0),
            ]

    def packed(self) -> bytes:
        """The instructions as the kernel reads them; `install` puts them on a process."""
        return b"".join(struct.pack("HBBI", *each) for each in [*self._code, (_RET, 0, 0, _ALLOW)])


def install(packed: bytes, pid: int = 0) -> None:
    """Put a filter on this process, whose id is `pid`, for good. Raises OSError if the kernel refuses."""
    code = packed.replace(struct.pack("I", _SELF), struct.pack("I", pid))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(program, len(program))
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(pointer))


def base_filter(*, own_namespaces: bool) -> bytes:
    """For the zygote, after set-up: no execution, no way into other processes, local sockets only."""
    rules = Filter()
    rules.deny(*_DENIED.split())
    # clone3 keeps its flags in memory, where a filter cannot see them: libc then falls back to clone.
    # memfd_create is memory that no limit would count.
    rules.deny("clone3", "memfd_create", error=errno.ENOSYS)
    rules.forbid_bits("clone", 0, _NEW_NAMESPACES)
    for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        rules.require(name, 0, 0)  # the caller itself only
    for name, own in (("setpriority", 0), ("ioprio_set", 1)):
        rules.require(name, 0, own)
        rules.require(name, 1, 0)
    for name in ("socket", "socketpair"):
        rules.require(name, 0, _AF_UNIX)
    if not own_namespaces:
        rules.deny(*_DENIED_WITHOUT_MOUNTS.split())
        rules.require("socketpair", 1, _SOCK_STREAM | 0o2000000)  # as Python asks for it, close-on-exec
        for command in (fcntl.F_SETOWN, fcntl.F_SETSIG, _F_SETOWN_EX):  # signals by way of a descriptor
            rules.forbid("fcntl", 1, command)
        for request in (_FIOSETOWN, _SIOCSPGRP):
            rules.forbid("ioctl", 1, request)
    return rules.packed()


def test_filter(*, own_namespaces: bool) -> bytes:
    """For a test's own process, just before the program starts."""
    rules = Filter()
    if own_namespaces:
        rules.deny("mount", "umount2", "unshare", "setns")
    else:
        rules.deny("fork", "vfork", "pidfd_open")
        rules.require_bits("clone", 0, _CLONE_THREAD)
        rules.forbid("prctl", 0, kernel.PR_SET_PDEATHSIG)
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            rules.require(name, 0, _SELF)
    return rules.packed()
