"""One warm worker process, driven from the host: programs in, bytes and resource facts out."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cobalt.sandbox.guest import wire
from cobalt.sandbox.policy import ENVIRONMENT, Limits, package_paths

_ENTRY = str(Path(__file__).parent / "guest" / "__main__.py")
_START_S = 60.0
_GRACE_S = 30.0  # on top of a limit that the worker itself enforces
_PATIENCE = 10  # as in guest/supervisor.py: how far a busy host may stretch a wall limit
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class WorkerLost(Exception):
    """The worker died, broke the protocol or did not answer in time: a fault of ours, not the program's."""


@dataclass(frozen=True)
class RunFacts:
    """What one run did. Times in seconds; `peak_bytes` is resident memory of its largest process.

    `limit` is what the supervisor struck for: "", "cpu", "wall", "memory" or "processes"; `returncode` is
    negative for a signal. `stdout` is cut at the run's output limit, `stderr` to its first and last 64 KiB;
    the sizes say how much was written. `queued_s`: of `wall_s`, the time in which the host gave the program
    no CPU though it was ready to run. `compile_failed`: the program was refused by the compiler.
    """

    returncode: int
    limit: str
    cpu_s: float
    wall_s: float
    peak_bytes: int
    stdout: bytes
    stderr: bytes
    stdout_size: int
    stderr_size: int
    queued_s: float = 0.0
    compile_failed: bool = False


class Worker:
    """A zygote and its control socket. Not thread-safe: one caller at a time.

    `packages`: folders of installed packages that programs may import (None: those of `policy.PACKAGES`).

    Raises WorkerLost from every method once the worker cannot be trusted; then only `close` is left.
    """

    def __init__(self, level: str, *, stack_bytes: int = 1 << 30, packages: list[str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        host = os.pidfd_open(os.getpid())
        command = [sys.executable, "-s", "-S", "-P", _ENTRY, str(theirs.fileno()), str(host), level]
        try:
            self._process = subprocess.Popen(
                [*command, str(stack_bytes), json.dumps(package_paths() if packages is None else packages)],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), host),
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(host)
        self._socket = ours
        self.level = level
        try:
            self.facts: dict[str, Any] = json.loads(self._receive(wire.READY, _START_S))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the worker's outermost process."""
        return self._process.pid

    def kill(self) -> None:
        """End the worker while another thread may be talking to it: that thread gets WorkerLost."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, *, at_once: bool = True) -> None:
        """End the worker with everything inside it. May be called twice.

        Unless `at_once`, an idle worker ends by itself, so that the times of all its processes are counted
        as this process's children's.
        """
        self._socket.close()
        if at_once:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def program(self, source: bytes, limits: Limits, *, fn_name: str | None = None) -> "Program":
        """Compile a program; use the result as a context manager and run tests on it."""
        return Program(self, source, limits, fn_name)

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        try:
            self._socket.settimeout(_GRACE_S)
            socket.send_fds(self._socket, [message], descriptors)
        except OSError as error:
            raise WorkerLost(f"cannot reach the worker: {error}") from None

    def _receive(self, expected: bytes, seconds: float) -> bytes:
        """Content of the next message, which must be what is expected."""
        try:
            self._socket.settimeout(seconds)
            data = self._socket.recv(wire.MESSAGE_BYTES)
        except OSError as error:
            raise WorkerLost(f"no answer from the worker in {seconds:.0f} s: {error}") from None
        if not data:
            raise WorkerLost("the worker ended without an answer")
        what, content = data[:1], data[1:]
        if what != expected:
            if what == wire.FAILED:
                raise WorkerLost(content.decode("utf-8", "replace"))
            raise WorkerLost(f"the worker answered {what!r} instead of {expected!r}")
        return content


class Program:
    """A program held by a worker. `compile_error` is the compiler's run if it failed, else None."""

    def __init__(self, worker: Worker, source: bytes, limits: Limits, fn_name: str | None) -> None:
        self._worker = worker
        self._limits = limits
        with _Files() as files:
            errors = files.empty("compiler")
            order = wire.PROGRAM + wire.pack_program(_guest_limits(limits), fn_name)
            worker._send(order, [files.sealed("source", source), errors, files.empty("code")])
            answer = worker._receive(wire.COMPILED, _PATIENCE * limits.wall_limit_s + _GRACE_S)
            facts = _facts(answer, None, errors, 0)
        self.compile_error = facts if facts.returncode != 0 or facts.limit else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._worker._send(wire.END, [])
            self._worker._receive(wire.IDLE, _GRACE_S)

    def run(
        self,
        stdin: bytes,
        *,
        cpu_s: float | None = None,
        wall_s: float | None = None,
        output_bytes: int | None = None,
    ) -> RunFacts:
        """Run the program once. `cpu_s`, `wall_s` and `output_bytes` replace the program's limits."""
        limits = self._limits
        cpu_s = limits.cpu_s if cpu_s is None else cpu_s
        wall_s = limits.wall_limit_s if wall_s is None else wall_s
        output_bytes = limits.output_bytes if output_bytes is None else output_bytes
        order = wire.RUN + wire.ORDER.pack(cpu_s, wall_s, output_bytes)
        with _Files() as files:
            inputs = files.sealed("stdin", stdin)
            outputs, errors = files.empty("stdout"), files.empty("stderr")
            self._worker._send(order, [inputs, outputs, errors])
            answer = self._worker._receive(wire.DONE, _PATIENCE * wall_s + _GRACE_S)
            return _facts(answer, outputs, errors, output_bytes)


class _Files:
    """Memory files of one run; closed at the end."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._open:
            os.close(fd)

    def empty(self, name: str) -> int:
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        self._open.append(fd)
        return fd

    def sealed(self, name: str, data: bytes) -> int:
        """A file that holds `data`, at its start, and can never be changed."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._open.append(fd)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return fd


def _guest_limits(limits: Limits) -> wire.GuestLimits:
    same = {name: getattr(limits, name) for name in wire.GuestLimits._fields if name != "wall_s"}
    return wire.GuestLimits(**same, wall_s=limits.wall_limit_s)


def _facts(answer: bytes, stdout_fd: int | None, stderr_fd: int, output_bytes: int) -> RunFacts:
    stderr_size = os.fstat(stderr_fd).st_size
    stderr = os.pread(stderr_fd, 1 << 17, 0)
    if stderr_size > 1 << 17:
        stderr = stderr[: 1 << 16] + os.pread(stderr_fd, 1 << 16, stderr_size - (1 << 16))
    returncode, why, ready, cpu_s, wall_s, peak_bytes = wire.FACTS.unpack(answer)
    if not ready:
        raise WorkerLost(f"the worker could not set up a test: {stderr.decode(errors='replace').strip()}")
    stdout, stdout_size = b"", 0
    if stdout_fd is not None:
        stdout_size = os.fstat(stdout_fd).st_size
        stdout = _read(stdout_fd, min(stdout_size, output_bytes))
    return RunFacts(
        returncode=returncode,
        limit=wire.WHY[why],
        cpu_s=cpu_s,
        wall_s=wall_s,
        peak_bytes=peak_bytes,
        stdout=stdout,
        stderr=stderr,
        stdout_size=stdout_size,
        stderr_size=stderr_size,
    )


def _read(fd: int, size: int) -> bytes:
    data = os.pread(fd, size, 0)
    while len(data) < size:
        more = os.pread(fd, size - len(data), len(data))
        if not more:
            break
        data += more
    return data
