"""The warm process of a worker: it enters the sandbox once and forks a supervisor for each program."""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

from cobalt.sandbox.guest import namespaces, protocol, seccomp, supervisor, syscalls

# What judged programs import most; forks share them. (Each costs memory and page tables in every test.)
_USUAL = """bisect collections copy functools heapq io itertools linecache math operator random re string
threading time traceback types typing"""


class Level:
    """What the processes of this worker need to know about its isolation."""

    def __init__(self, name: str, packages: list[str]) -> None:
        self.name = name
        self.packages = packages  # folders, as the host has them
        self.package_names = [name for name in map(os.path.basename, packages) if name.isidentifier()]
        self.own_pids = name == "namespaces"
        self.rules_fd = -1
        if name == "landlock":
            devices = [f"/dev/{device}" for device in {*namespaces.DEVICES.values(), "random"}]
            self.rules_fd = syscalls.landlock_ruleset(namespaces.readable_paths() + packages, devices)
        self.null_fd = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        self.pid_namespace = -1  # set inside
        self.test_filter = b""  # set inside


class Packages:
    """Finds installed packages by name, each where it is (or under `root`), and nothing beside them."""

    def __init__(self, folders: dict[str, str], root: str | None) -> None:
        self._folders = {name: f"{root}/{name}" if root else path for name, path in folders.items()}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        folder = self._folders.get(name) if path is None else None
        if folder is None:
            return None
        return spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


def main(control_fd: int, parent_fd: int, level_name: str, packages: str) -> None:
    """Serve programs until the host is gone. If set-up fails, the host is told and the worker ends."""
    control = socket.socket(fileno=control_fd)
    for name in protocol.LOADER:
        del os.environ[name]
    try:
        for name in _USUAL.split():
            __import__(name)
        level = Level(level_name, json.loads(packages))
        _enter(level, control_fd, parent_fd)
    except BaseException as error:
        control.send(protocol.FAILED + (str(error) or type(error).__name__).encode("utf-8", "replace"))
        sys.exit(1)
    # No collection between a fork and the program's first line: it would touch, and so copy, every page.
    for name in [each for each in sys.modules if each.partition(".")[0] == "cobalt"]:
        del sys.modules[name]  # a program that imports one of our names gets its own, or none
    gc.collect()
    gc.disable()
    gc.freeze()
    control.send(protocol.READY)
    _serve(control, level, parent_fd)


def _enter(level: Level, control_fd: int, parent_fd: int) -> None:
    syscalls.set_thread_stack(8 << 20)
    syscalls.share_one_arena()
    syscalls.find_recursion()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out on this machine, let it be ours that goes
    filter_tests = level.name == "landlock"
    root = namespaces.PACKAGES if level.own_pids else None
    sys.meta_path.append(Packages({os.path.basename(path): path for path in level.packages}, root))
    if level.own_pids:
        filter_tests = not namespaces.enter(parent_fd, control_fd, level.packages)
        level.pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    elif level.name == "landlock":
        if os.geteuid() == 0:
            syscalls.drop_bounding_set()
            namespaces.become_nobody([os.__file__, *level.packages])
        syscalls.drop_capabilities()
    _reset_signals()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    if level.name != "none":
        seccomp.Prepared(seccomp.base_filter(own_namespaces=level.own_pids)).install(os.getpid())
    if filter_tests:
        level.test_filter = seccomp.test_filter(own_namespaces=level.own_pids)


def _reset_signals() -> None:
    """As in any interpreter that is started from a shell, whatever the host ignores or blocks."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _serve(control: socket.socket, level: Level, parent_fd: int) -> None:
    idle = select.poll()
    idle.register(control.fileno(), select.POLLIN)
    idle.register(parent_fd, select.POLLIN)
    while True:
        events = dict(idle.poll())
        if parent_fd in events:
            return
        what, order, descriptors = protocol.receive(control)
        if not what:
            return
        if what != protocol.PROGRAM:
            for fd in descriptors:
                os.close(fd)
            continue  # meant for a supervisor that has died; the host has been told
        pid = _fork_supervisor(control, level, order, descriptors, parent_fd)
        for fd in descriptors:
            os.close(fd)
        status = namespaces.wait_while_host_lives(pid, parent_fd, control.fileno())
        if status is None:
            return
        control.send(protocol.FAILED + b"supervisor ended with %d" % status if status else protocol.IDLE)


def _fork_supervisor(
    control: socket.socket, level: Level, order: bytes, descriptors: tuple[int, ...], parent_fd: int
) -> int:
    if level.own_pids:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    parent = os.getpid()
    pid = syscalls.fork()
    if pid == 0:
        code = 70
        try:
            if not level.own_pids:
                syscalls.die_with_parent(parent)
            os.setsid()
            os.close(parent_fd)
            limits, fn = protocol.unpack_program(order)
            supervisor.Supervisor(control, level, limits, fn).serve(*descriptors)
            code = 0
        except BaseException:
            why = traceback.format_exc()[-4000:]
            control.send(protocol.FAILED + why.encode("utf-8", "replace"))
        finally:
            os._exit(code)
    if level.own_pids:
        syscalls.setns(level.pid_namespace, syscalls.CLONE_NEWPID)
    return pid
