"""System call filters: a list of what is allowed, assembled as classic BPF and installed with prctl.

Two filters stack. `base_filter` goes on the zygote and so costs nothing per test: it allows what Python
programs and the sandbox itself use, checks arguments where a call is wide, and refuses everything else, calls
of future kernels included. The kernel remembers which calls it always allows, so that those cost nothing.
`test_filter` goes on the test itself, last, and closes what the supervisor still needed (at the landlock
level processes and foreign signals). It is assembled once and kept short: the kernel compiles it for every
test.
"""

import ctypes
import errno
import fcntl
import struct

from cobalt.sandbox.guest import syscalls
from cobalt.sandbox.guest.syscall_numbers import NUMBERS

_ALLOWED = """
access alarm arch_prctl brk capget capset chdir close close_range copy_file_range dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 exit exit_group faccessat
faccessat2 fallocate fchdir fork fstat fstatfs ftruncate futex getcpu getcwd getdents getdents64 getegid
geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid landlock_restrict_self lseek
lstat mlock mlock2 mlockall mprotect mremap msync munlock munlockall munmap nanosleep newfstatat pause pipe
poll ppoll pread64 preadv pselect6 pwrite64 pwritev read readlink readlinkat readv recvfrom recvmmsg recvmsg
restart_syscall rseq rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait
sched_get_priority_max sched_get_priority_min sched_yield select sendfile sendmmsg sendmsg sendto
set_robust_list set_tid_address setgid setgroups setitimer setpgid setregid setresgid setresuid setreuid
setrlimit setsid setuid shutdown sigaltstack signalfd signalfd4 stat statfs sysinfo time timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times umask uname
vfork wait4 waitid write writev
"""

# Only where a program has files and processes of its own (the kernel asks for capabilities before it mounts).
_ALLOWED_IN_NAMESPACES = """
accept accept4 bind chmod chown connect creat fchmod fchmodat fchmodat2 fchown fchownat futimesat lchown link
linkat listen mkdir mkdirat mknod mknodat mount pidfd_send_signal rename renameat renameat2 rmdir symlink
symlinkat truncate umount2 unlink unlinkat utime utimensat utimes
"""

# Answered with success and not done. Of a program's own files they mean nothing; on files that it shares with
# the host (the standard library) they would reach it: locks, the page cache, writing out of all file systems.
_PRETENDED = "fadvise64 fdatasync flock fsync sync sync_file_range syncfs"

# Answers that callers know how to go on from. All others are refused with EPERM, unknown ones with ENOSYS.
_ANSWERED = {
    errno.ENOSYS: "clone3 memfd_create openat2 statx",  # flags in memory, where a filter cannot see them
    errno.EOPNOTSUPP: """fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr
        lremovexattr lsetxattr removexattr setxattr""",
}
_QUESTIONS = "sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval"
_NEWEST = 452  # a call above this number is answered with ENOSYS, as by a kernel that does not know it

_LD, _AND, _JEQ, _JGT, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that `clone` knows
_CLONE_VM, _CLONE_VFORK, _CLONE_PARENT, _CLONE_THREAD = 0x100, 0x4000, 0x8000, 0x10000
_CLONE_TRACED = 0x802000
_SIGCHLD = 17
_MAP_SHARED, _MAP_ANONYMOUS, _PAGE = 0x01, 0x20, 4096
_AF_UNIX, _SOCK_STREAM_CLOEXEC = 1, 0o2000001
_O_TMPFILE, _O_NOTIFICATION_PIPE = 0o20000000, 0o200
_NEGATIVE, _THREAD_CLOCK, _OWN_CLOCK = 0x80000000, 4, 0xFFFFFFFA
_SELF = 0x53454C46  # stands for the id of the process that a filter will be put on
_OWN = struct.Struct("I")

# And FIO*: own flags.
_TERMINAL_REQUESTS = (0x5401, 0x802C542A, 0x5413, 0x540F, 0x541B, 0x5421, 0x5450, 0x5451)
_FCNTL_LOCKS = (6, 7, 37, 38)  # pretended, as flock
_FCNTL = (
    fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL, fcntl.F_GETOWN,
    fcntl.F_DUPFD_CLOEXEC, 1032, 1034, 5, 36,  # F_GETPIPE_SZ, F_GET_SEALS, F_GETLK, F_OFD_GETLK
)  # fmt: skip
# A name; questions about oneself; what a test's own process still has to do.
_PRCTL = (2, 3, 15, 16, 21, 22, 23, 38, 39)
_MADVICE = (0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23)  # about memory of one's own
_SOCKET_OPTIONS = (2, 9, 13, 15, 16, 20, 21, 66, 67)  # none that makes buffers larger
_SO_SOCKET = 1

_Code = list[tuple[int, int, int, int]]


def _fail(error: int) -> tuple[int, int, int, int]:
    return (_RET, 0, 0, _ERRNO | error)


_PASS = (_RET, 0, 0, _ALLOW)
_REFUSE = _fail(errno.EPERM)


def _argument(number: int) -> tuple[int, int, int, int]:
    """Load the low half of an argument (which is all that the kernel takes of an int)."""
    return (_LD, 0, 0, 16 + 8 * number)


def _one_of(values: tuple[int, ...]) -> _Code:
    """Go on at the next instruction but one if the accumulator holds one of these, else at the next."""
    return [(_JEQ, len(values) - place, 0, value & 0xFFFFFFFF) for place, value in enumerate(values)]


class Filter:
    """A list of BPF instructions; between rules the accumulator holds the call's number."""

    def __init__(self) -> None:
        if syscalls.MACHINE not in _AUDIT_ARCH:
            raise OSError(errno.ENOSYS, f"no system call filter for {syscalls.MACHINE}")
        self._column = 0 if syscalls.MACHINE == "x86_64" else 1
        self._code: _Code = [
            (_LD, 0, 0, 4),
            (_JEQ, 1, 0, _AUDIT_ARCH[syscalls.MACHINE]),
            (_RET, 0, 0, _KILL),  # a 32-bit entry point
            (_LD, 0, 0, 0),
        ]
        self._answers: dict[int, tuple[int, int, int, int]] = {}

    def answer(self, names: str, what: tuple[int, int, int, int]) -> None:
        """The same answer to all of these calls, whatever their arguments; given at the end."""
        self._answers.update(
            (number, what) for number in map(self._number, names.split()) if number is not None
        )

    def check(self, names: str, *code: tuple[int, int, int, int]) -> None:
        """Decide about these calls by `code`, which must return."""
        for name in names.split():
            number = self._number(name)
            if number is not None:
                self._code += [(_JEQ, 0, len(code), number), *code]

    def only(self, names: str, argument: int, *values: int, error: int = errno.EPERM) -> None:
        """Allow these calls where `argument` is one of `values`."""
        self.check(names, _argument(argument), *_one_of(values), _fail(error), _PASS)

    def without(self, names: str, argument: int, bits: int, error: int) -> None:
        """Allow these calls where none of `bits` is set in `argument`."""
        self.check(names, _argument(argument), (_JSET, 0, 1, bits), _fail(error), _PASS)

    def packed(self, *otherwise: tuple[int, int, int, int]) -> bytes:
        """The instructions as the kernel reads them; `install` puts them on a process.

        `otherwise`: what to do with calls that no rule names.
        """
        code = list(self._code)
        numbers = sorted(self._answers)
        while numbers:
            first = last = numbers.pop(0)
            what = self._answers[first]
            while numbers and numbers[0] == last + 1 and self._answers[numbers[0]] == what:
                last = numbers.pop(0)
            code += [(_JGE, 0, 2, first), (_JGT, 1, 0, last), what]
        return b"".join(struct.pack("HBBI", *each) for each in [*code, *otherwise])

    def _number(self, name: str) -> int | None:
        return NUMBERS[name][self._column]


class Prepared:
    """A filter in memory, for processes that will install it. The kernel makes a copy."""

    def __init__(self, packed: bytes) -> None:
        self._code = ctypes.create_string_buffer(packed, len(packed))
        program = struct.pack("HxxxxxxQ", len(packed) // 8, ctypes.addressof(self._code))
        self._program = ctypes.create_string_buffer(program, len(program))
        self._pointer = ctypes.addressof(self._program)
        mark = struct.pack("I", _SELF)
        self._places = [at for at in range(4, len(packed), 8) if packed[at : at + 4] == mark]

    def install(self, pid: int) -> None:
        """Put it on this process, whose id is `pid`, for good. Raises OSError if the kernel refuses."""
        for place in self._places:
            _OWN.pack_into(self._code, place, pid)
        syscalls.prctl(syscalls.PR_SET_SECCOMP, 2, self._pointer)


def base_filter(*, own_namespaces: bool) -> bytes:
    """For the zygote, after set-up: what Python needs, no way into other processes, local sockets only."""
    rules = Filter()
    _check_processes(rules, own_namespaces=own_namespaces)
    _check_files(rules)
    if own_namespaces:
        rules.only("socket socketpair", 0, _AF_UNIX)
        rules.answer(_ALLOWED_IN_NAMESPACES, _PASS)
    else:
        tests = [(_JEQ, 0, 2, _AF_UNIX), _argument(1), (_JEQ, 1, 0, _SOCK_STREAM_CLOEXEC)]  # as Python asks
        rules.check("socketpair", _argument(0), *tests, _REFUSE, _PASS)
    rules.answer(_ALLOWED, _PASS)
    rules.answer(_PRETENDED, _fail(0))
    for error, names in _ANSWERED.items():
        rules.answer(names, _fail(error))
    # On x86_64 this also answers the second set of numbers, those of the x32 interface.
    return rules.packed((_JGT, 1, 0, _NEWEST), _REFUSE, _fail(errno.ENOSYS))


def _check_processes(rules: Filter, *, own_namespaces: bool) -> None:
    rules.check(
        "clone", _argument(0),
        (_JSET, 0, 1, _NEW_NAMESPACES | _CLONE_PARENT | _CLONE_TRACED), _REFUSE,
        (_JSET, 0, 1, _CLONE_THREAD), _PASS,
        (_JSET, 0, 2, _CLONE_VM), (_JSET, 1, 0, _CLONE_VFORK), _REFUSE,  # its memory would be counted twice
        (_AND, 0, 0, 0xFF), (_JEQ, 0, 1, _SIGCHLD), _PASS, _REFUSE,
    )  # fmt: skip
    # A parent that ignores SIGCHLD has its children reaped unseen, and their CPU time with them.
    rules.check(
        "rt_sigaction", _argument(0), (_JEQ, 1, 0, _SIGCHLD), _PASS,
        _argument(1), (_JEQ, 0, 3, 0), (_LD, 0, 0, 28), (_JEQ, 0, 1, 0), _PASS, _REFUSE,
    )  # fmt: skip
    rules.only("prlimit64", 0, 0)  # the caller itself
    # Wishes of its own are as good as granted: a program's place in the host's queue is not for it to say.
    rules.check("sched_setaffinity", _argument(0), (_JEQ, 1, 0, 0), _REFUSE, _fail(0))
    rules.check(
        "setpriority", _argument(0), (_JEQ, 0, 2, 0), _argument(1), (_JEQ, 1, 0, 0), _REFUSE, _fail(0)
    )
    options = _PRCTL if own_namespaces else (syscalls.PR_SET_PDEATHSIG, *_PRCTL)
    rules.check(
        "prctl", _argument(0),
        (_JEQ, 0, 3, syscalls.PR_SET_DUMPABLE),  # a process that hides its memory could not be measured
        _argument(1), (_JEQ, len(options) + 2, 0, 1), _REFUSE,
        *_one_of(options),
        _fail(errno.EINVAL), _PASS,
    )  # fmt: skip
    # CPU clocks: this thread's and its process's. Others' would tell what the test before has used.
    rules.check(
        "clock_gettime clock_getres clock_nanosleep timer_create", _argument(0),
        (_JSET, 0, 3, _NEGATIVE), (_JEQ, 2, 0, _OWN_CLOCK), (_JSET, 1, 0, _THREAD_CLOCK), _fail(errno.EINVAL),
        _PASS,
    )  # fmt: skip
    # Memory that is shared and has no name lives on in whole while a page of it is mapped, and no limit sees
    # it: a page is all that one may have.
    rules.check(
        "mmap", _argument(3),
        (_JSET, 0, 6, _MAP_ANONYMOUS), (_JSET, 0, 5, _MAP_SHARED),
        (_LD, 0, 0, 28), (_JEQ, 0, 2, 0), _argument(1), (_JGT, 0, 1, _PAGE), _REFUSE, _PASS,
    )  # fmt: skip
    rules.only("madvise", 2, *_MADVICE, error=errno.EINVAL)
    if own_namespaces:  # not about process 1
        rules.check(_QUESTIONS, _argument(0), (_JEQ, 0, 1, 1), _REFUSE, _PASS)
        rules.check("getpriority", _argument(1), (_JEQ, 0, 1, 1), _REFUSE, _PASS)
        signals = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open"
        rules.check(signals, _argument(0), (_JEQ, 0, 1, 1), _REFUSE, _PASS)
        rules.only("unshare", 0, syscalls.CLONE_NEWNS, syscalls.CLONE_NEWPID)
        rules.only("setns", 1, syscalls.CLONE_NEWPID)
    else:
        rules.answer(_QUESTIONS, _PASS)
        rules.answer("getpriority kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open", _PASS)


def _check_files(rules: Filter) -> None:
    # A file without a name leaves no trace in its folder. `tempfile` knows this answer.
    rules.without("open", 1, _O_TMPFILE, errno.EOPNOTSUPP)
    rules.without("openat", 2, _O_TMPFILE, errno.EOPNOTSUPP)
    rules.without("pipe2", 1, _O_NOTIFICATION_PIPE, errno.EINVAL)
    rules.only("preadv2 pwritev2", 5, 0, error=errno.EOPNOTSUPP)  # else they tell what the host has cached
    rules.only("ioctl", 1, *_TERMINAL_REQUESTS, error=errno.ENOTTY)
    rules.check(
        "fcntl", _argument(1),
        *_one_of(_FCNTL_LOCKS), (_JGE, 1, 1, 0), _fail(0), *_one_of(_FCNTL), _REFUSE, _PASS,
    )  # fmt: skip
    rules.check(
        "setsockopt", _argument(1), (_JEQ, 1, 0, _SO_SOCKET), _REFUSE,
        _argument(2), *_one_of(_SOCKET_OPTIONS), _REFUSE, _PASS,
    )  # fmt: skip


def test_filter(*, own_namespaces: bool) -> bytes:
    """For a test's own process, just before the program starts."""
    rules = Filter()
    if own_namespaces:
        rules.answer("mount umount2 unshare setns", _REFUSE)
    else:
        rules.answer("fork vfork pidfd_open", _REFUSE)
        rules.check("clone", _argument(0), (_JSET, 1, 0, _CLONE_THREAD), _REFUSE, _PASS)
        rules.check("prctl", _argument(0), (_JEQ, 0, 1, syscalls.PR_SET_PDEATHSIG), _REFUSE, _PASS)
        rules.only("kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo", 0, _SELF)
        rules.only(_QUESTIONS, 0, 0, _SELF)
        rules.only("getpriority", 1, 0, _SELF)
    return rules.packed(_PASS)
