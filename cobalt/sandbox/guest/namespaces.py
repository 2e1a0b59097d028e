"""Entering the `namespaces` level: own users, processes, network and a small read-only root."""

import contextlib
import os
import re
import select
import signal
import sysconfig
import time

from cobalt.sandbox.guest import syscalls

INNER_ID = 1000
_ALL = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWUTS
)
# By the name that programs know: the host's. The real zero gives shared memory that no limit sees; full
# reads as it does.
DEVICES = {"null": "null", "zero": "full", "full": "full", "urandom": "urandom"}
PACKAGES = "/packages"  # where programs see installed packages
_STAGE = "/tmp"  # covered by the new root, in our own mount namespace only
_LOCKED = syscalls.MS_NOSUID | syscalls.MS_NODEV
_READ_ONLY = _LOCKED | syscalls.MS_RDONLY
_PROC = _LOCKED | syscalls.MS_NOEXEC


def readable_paths() -> list[str]:
    """Folders and files that Python needs to import its standard library: nothing else is shown."""
    found = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    with open("/proc/self/maps") as maps:
        for line in maps:
            name = line.rstrip("\n").partition("/")[2]
            if ".so" in name:
                found.add(os.path.dirname(os.path.realpath("/" + name)))
    found.update(("/usr/share/zoneinfo", "/etc/ld.so.cache"))
    # The loader looks for libraries under the names of these links.
    found.update(each for each in ("/lib", "/lib64", "/usr/lib64") if os.path.islink(each))
    kept: list[str] = []
    for path in sorted(found):
        if os.path.exists(path) and not any(path.startswith(each + "/") for each in kept):
            kept.append(path)
    return kept


def become_nobody(needed: list[str]) -> None:
    """From root to an account that owns nothing, one per worker: the process limit exempts root.

    Where that account could not reach the `needed` files (an interpreter in root's own folder), it keeps
    root's name for opening files and no more: what may be opened is for Landlock to say. Raises OSError if
    refused.
    """
    if os.geteuid() != 0:
        return
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    syscalls.prctl(syscalls.PR_SET_KEEPCAPS, 1)
    for number in (0x7E000000 + os.getpid() % 0x00FFFFFF, 65534):
        try:
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
        except OSError:
            continue  # the account is not mapped in this container
        if not all(os.access(path, os.R_OK) for path in needed):
            syscalls.open_files_as_root()
        syscalls.drop_capabilities()
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # else /proc/self belongs to root and cannot be written
        return
    with open("/proc/self/uid_map") as file:
        if file.read().split() == ["0", "0", "4294967295"]:
            raise OSError("cannot give up root: setuid is refused")
    # Root in name only: in a user namespace with a single account we are an ordinary user already.


def _populate(shown: list[str]) -> None:
    """A root file system at `_STAGE`, read-only: the interpreter, the packages `shown` and four devices."""
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    paths = readable_paths()
    # A project below the staging folder would be out of sight once that is covered.
    opened = {os.path.basename(path): os.open(path, os.O_PATH | os.O_CLOEXEC) for path in shown}
    syscalls.mount("tmpfs", _STAGE, "tmpfs", _LOCKED, "size=1m,mode=755")
    os.umask(0o022)
    for folder in ("proc", "tmp", "dev/shm"):
        os.makedirs(f"{_STAGE}/{folder}")
    for name, fd in opened.items():
        _bind(f"/proc/self/fd/{fd}", True, _READ_ONLY, f"{PACKAGES}/{name}")
        os.close(fd)
    for path in paths:
        if os.path.islink(path):
            os.makedirs(os.path.dirname(_STAGE + path), exist_ok=True)
            os.symlink(os.readlink(path), _STAGE + path)
        else:
            _bind(path, os.path.isdir(path), _READ_ONLY)
    packages = f"{_STAGE}{sysconfig.get_path('stdlib')}/site-packages"
    if os.path.isdir(packages) and os.listdir(packages):
        syscalls.mount("tmpfs", packages, "tmpfs", _LOCKED | syscalls.MS_RDONLY, "size=4k,mode=755")
    for name, device in DEVICES.items():
        _bind(f"/dev/{device}", False, syscalls.MS_NOSUID, f"/dev/{name}")
    os.symlink("urandom", f"{_STAGE}/dev/random")
    os.symlink("/proc/self/fd", f"{_STAGE}/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{_STAGE}/dev/{name}")


def _bind(path: str, folder: bool, flags: int, place: str | None = None) -> None:
    """Show the host's `path` in the new root, at `place` or under its own name."""
    target = _STAGE + (place or path)
    if folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    syscalls.mount(path, target, "", syscalls.MS_BIND)
    syscalls.mount("none", target, "", syscalls.MS_BIND | syscalls.MS_REMOUNT | flags | _kept_flags(target))


def _kept_flags(path: str) -> int:
    """Flags of a mount that an unprivileged remount may not clear."""
    have = os.statvfs(path).f_flag
    return have & (syscalls.MS_RDONLY | syscalls.MS_NODEV | syscalls.MS_NOEXEC)  # ST_* have the same values


def enter(parent_fd: int, control_fd: int, packages: list[str]) -> bool:
    """Returns in the zygote, which is process 1 of the new namespaces. The caller becomes its waiter.

    True if the kernel now refuses further user namespaces to everything inside; where that cannot be
    arranged (a read-only /proc/sys), each test needs a filter of its own.

    The waiter ends the zygote, and with it every process inside, as soon as the host is gone: its process
    (`parent_fd`, a pidfd) or its end of the control socket. Raises OSError if a step is refused.
    """
    populated = False
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            _populate(packages)  # files of root's are bound while we may still reach them
            populated = True
        become_nobody([])
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(_ALL)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INNER_ID} {user} 1")
    _write("/proc/self/gid_map", f"{INNER_ID} {group} 1")
    child = os.fork()
    if child:
        wait_while_host_lives(child, parent_fd, control_fd)
        os._exit(0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not populated:
        _populate(packages)
    # Mounts made before the user namespace are locked; a recursive bind on top of them is ours to pivot to.
    syscalls.mount(_STAGE, _STAGE, "", syscalls.MS_BIND | syscalls.MS_REC)
    os.chdir(_STAGE)
    # Mounting /proc is allowed only while another, complete one is in sight.
    syscalls.mount("proc", "proc", "proc", _PROC)
    syscalls.pivot_root_here()
    syscalls.mount("none", "/", "", syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY | _LOCKED)
    with contextlib.suppress(OSError):
        syscalls.check(syscalls.libc.sethostname(b"sandbox", 7), "sethostname")
    closed = True
    try:
        _write("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        closed = False
    syscalls.drop_bounding_set()
    return closed


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def wait_while_host_lives(pid: int, parent_fd: int, control_fd: int) -> int | None:
    """Exit code of a child; None if the host went away first, its process or its end of the control socket.

    Then the child has been killed.
    """
    gone = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(gone, select.POLLIN)
    poller.register(parent_fd, select.POLLIN)
    poller.register(control_fd, 0)  # a hang-up is always reported
    events = dict(poller.poll())
    os.close(gone)
    if gone not in events:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status) if gone in events else None


def private_processes() -> None:
    """Own mounts for this process, with a /proc that shows a process itself and those below it, and no more.

    Nobody can write there: a test could make the kernel choose its neighbours when memory runs out.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    for options in ("subset=pid,hidepid=ptraceable", "hidepid=2"):  # the first needs Linux 5.8
        with contextlib.suppress(OSError):
            syscalls.mount("proc", "/proc", "proc", _PROC | syscalls.MS_RDONLY, options)
            return
    raise OSError("cannot mount a /proc that hides other processes")


class Folders:
    """/tmp and /dev/shm of a program's tests, `size` bytes each: every test finds them empty and untouched.

    They are made anew only after a test that has changed one: a mount costs a tenth of a test. The
    supervisor's working folder is /tmp, and so is that of the tests.
    """

    _PATHS = ("/tmp", "/dev/shm")

    def __init__(self, size: int) -> None:
        self._made = 0  # when, as long as that matters
        self._options = f"size={size},nr_inodes=4096,mode=1777".encode()
        self._mount()

    def begin(self) -> None:
        """To be called before each test."""
        while self._made and time.clock_gettime_ns(_COARSE) <= self._made:
            time.sleep(0.0005)
        self._made = 0

    def renew(self) -> None:
        """To be called after each test, when its processes are gone."""
        if self._state() != self._clean:
            os.chdir("/")
            for path in reversed(self._PATHS):
                syscalls.umount(path)
            self._mount()

    def _mount(self) -> None:
        for path in self._PATHS:
            syscalls.mount_tmpfs(
                path.encode(), _LOCKED | syscalls.MS_NOEXEC | syscalls.MS_NOATIME, self._options
            )
        os.chdir("/tmp")
        self._clean = self._state()
        # Times of files have the grain of this clock, and what happens within one leaves them as they are;
        # from Linux 6.13 on a time that has been looked at is followed by a finer one.
        self._made = 0 if _FINE_TIMES else time.clock_gettime_ns(_COARSE)

    def _state(self) -> list[tuple[int, ...]]:
        """Changed by anything done to a folder: its owner can set back every time of it but the last one."""
        found: list[tuple[int, ...]] = []
        for path in self._PATHS:
            about = os.stat(path)
            found.append((about.st_mode, about.st_size, about.st_nlink, about.st_ctime_ns))
        return found


_COARSE = 5  # CLOCK_REALTIME_COARSE
_FINE_TIMES = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 13)
