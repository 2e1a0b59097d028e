"""One warm worker process, driven from the host: programs in, bytes and resource facts out."""

import contextlib
import json
import marshal
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from cobalt.sandbox.guest import protocol
from cobalt.sandbox.limits import ENVIRONMENT, Limits, package_paths
from cobalt.sandbox.run_files import RunFiles, memory_file, sealed_file

_ENTRY = str(Path(__file__).parent / "guest" / "__main__.py")
_START_S = 60.0
_GRACE_S = 30.0  # on top of a limit that the worker itself enforces
_PATIENCE = 10  # as in guest/supervisor.py: how far a busy host may stretch a wall limit
_TIMEVAL = struct.Struct("ll")
_FIRST_LOOK_MS, _LAST_LOOK_MS = 3, 50


class WorkerLost(Exception):
    """The worker died, broke the protocol or did not answer in time: a fault of ours, not the program's."""


@dataclass(frozen=True)
class RunFacts:
    """What one run did. Times in seconds; `peak_bytes` is resident memory of its largest process.

    `limit` is what the supervisor struck for: "", "cpu", "wall", "memory" or "processes"; `returncode` is
    negative for a signal. `stdout` is cut at the program's output limit, `stderr` to its first and last
    64 KiB; the sizes say how much was written. Of a function task `stdout` is the answer's JSON text.
    `queued_s` is the part of `wall_s` in which the host gave the program no CPU though it was ready to run
    (looked at only where much of the time was spent waiting). `compile_failed`: no line of the program was
    run, its compilation failed or met a limit. `files`: of those to fetch, what there is, in base64.
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
    files: Mapping[str, str] = field(default_factory=dict)


class Worker:
    """A zygote and its control socket. Not thread-safe: one caller at a time.

    `packages`: folders of installed packages that programs may import (None: those of `limits.PACKAGES`).

    Raises WorkerLost from every method once the worker cannot be trusted; then only `close` is left.
    """

    def __init__(self, level: str, *, stack_bytes: int = 1 << 30, packages: list[str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        host = os.pidfd_open(os.getpid())
        # Streams of tests are made when the worker starts, and remember that they are pipes.
        read, write = os.pipe2(os.O_CLOEXEC)
        command = [sys.executable, "-s", "-S", "-P", _ENTRY, str(theirs.fileno()), str(host), level]
        try:
            self._process = subprocess.Popen(
                [*command, str(stack_bytes), json.dumps(package_paths() if packages is None else packages)],
                env={**ENVIRONMENT, **protocol.LOADER},
                stdin=read,
                stdout=write,
                stderr=write,
                pass_fds=(theirs.fileno(), host),
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            for fd in (host, read, write):
                os.close(fd)
        self._socket = ours
        self._poller = select.poll()
        self._poller.register(ours, select.POLLIN)
        self._ending = False  # the last program's supervisor may still be on its way out
        self.level = level
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(_GRACE_S), 0))
            self._patience(_START_S)
            self._receive(protocol.READY)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the worker's outermost process."""
        return self._process.pid

    def _settle(self) -> None:
        """Wait until the last program is gone."""
        if self._ending:
            self._ending = False
            self._patience(_GRACE_S)
            self._receive(protocol.IDLE)

    def kill(self) -> None:
        """End the worker while another thread may be talking to it: that thread gets WorkerLost."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the worker with everything inside it. May be called twice."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def program(
        self,
        source: bytes,
        limits: Limits,
        *,
        fn_name: str | None = None,
        output_bytes: int | None = None,
        given: tuple[int, dict[str, bytes], list[str]] | None = None,
    ) -> "Program":
        """A program to run tests on; use it as a context manager. `output_bytes` replaces the limit's;
        `given`, at level `namespaces`: mode and content of the files that every run finds in its working
        folder, by path, and the paths of what is fetched after it.
        """
        return Program(self, source, limits, fn_name, output_bytes or limits.output_bytes, given)

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        try:
            socket.send_fds(self._socket, [message], descriptors)
        except OSError as error:
            raise WorkerLost(f"cannot reach the worker: {error}") from None

    def _patience(self, seconds: float) -> None:
        """How long to wait for an answer from now on."""
        self._seconds = seconds
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(int(seconds) + 1, 0))

    def _wait_and_drain(self, files: RunFiles, unwanted: Callable[[], bool]) -> None:
        """Wait for a message, or too long; meanwhile make room for what is printed.

        Small outputs fit into their pipe and are left there until the end. Looking in turns, instead of
        whenever something is there, spares a wake-up for each line that a program flushes.
        """
        if self._poller.poll(_FIRST_LOOK_MS):
            return
        deadline = time.monotonic() + self._seconds
        wait_ms = _FIRST_LOOK_MS
        files.widen()
        while time.monotonic() < deadline:
            if unwanted():
                raise WorkerLost("nobody waits for this run any longer")
            wait_ms = _FIRST_LOOK_MS if files.drain() else min(2 * wait_ms, _LAST_LOOK_MS)
            if self._poller.poll(wait_ms):
                return

    def _receive(self, expected: bytes) -> bytes:
        """Content of the next message, which must be what is expected."""
        try:
            data = self._socket.recv(protocol.MESSAGE_BYTES)
        except OSError as error:
            raise WorkerLost(f"no answer from the worker in {self._seconds:.0f} s: {error}") from None
        if not data:
            raise WorkerLost("the worker ended without an answer")
        what, content = data[:1], data[1:]
        if what != expected:
            if what == protocol.FAILED:
                raise WorkerLost(content.decode("utf-8", "replace"))
            raise WorkerLost(f"the worker answered {what!r} instead of {expected!r}")
        return content


class Program:
    """A program held by a worker. It is compiled before its first run."""

    def __init__(
        self,
        worker: Worker,
        source: bytes,
        limits: Limits,
        fn_name: str | None,
        output_bytes: int,
        given: tuple[int, dict[str, bytes], list[str]] | None,
    ) -> None:
        self._worker = worker
        self._fetches = given is not None and bool(given[-1])
        self._unwanted: Callable[[], bool] = bool
        self._limits = limits
        self._output_bytes = output_bytes
        self._answers = fn_name is not None
        self._cpu_s = limits.cpu_s  # of the run under way
        self._files: list[RunFiles] = []  # of the run under way, then of those to come
        guest = protocol.GuestLimits(
            limits.cpu_s, limits.wall_limit_s, limits.memory_bytes, output_bytes, limits.tmp_bytes,
            limits.processes, limits.files, limits.exit_and_quit,
        )  # fmt: skip
        worker._settle()
        descriptors = [sealed_file("source", source), memory_file("code")]
        if given:
            descriptors.append(sealed_file("files", marshal.dumps(given)))
        try:
            worker._send(protocol.PROGRAM + protocol.pack_program(guest, fn_name), descriptors)
        finally:
            for fd in descriptors:
                os.close(fd)
        worker._patience(_PATIENCE * limits.wall_limit_s + _GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for files in self._files:
            files.close()
        if kind is None:
            self._worker._send(protocol.END, [])
            self._worker._ending = True

    def run(self, stdin: bytes, unwanted: Callable[[], bool] = bool) -> RunFacts:
        """Run the program once. Raises WorkerLost when it is `unwanted`, which is asked now and then."""
        self._unwanted = unwanted
        self.prepare(stdin)
        self.start(self._limits.cpu_s, self._limits.wall_limit_s)
        return self.finish()

    def compiles(self) -> bool:
        """Compile the program and do not run it: for who asks before the first run."""
        self.prepare(b"")
        self.start(self._limits.cpu_s, self._limits.wall_limit_s, only_compile=True)
        return not self.finish().compile_failed

    def prepare(self, stdin: bytes) -> None:
        """Make the files of a run to come, while another one may be under way."""
        files = RunFiles(stdin, self._output_bytes, answers=self._answers, fetches=self._fetches)
        self._files.append(files)

    def start(self, cpu_s: float, wall_s: float, *, only_compile: bool = False) -> None:
        """Begin the run that was prepared first; the one before must have been finished."""
        self._cpu_s = cpu_s
        order = protocol.ORDER.pack(cpu_s, wall_s, only_compile)
        self._worker._send(protocol.RUN + order, self._files[0].descriptors)

    def finish(self) -> RunFacts:
        """Wait for the end of the run under way."""
        files = self._files[0]
        if not self._answers:
            self._worker._wait_and_drain(files, self._unwanted)
        answer = self._worker._receive(protocol.DONE)
        try:
            return _facts(answer, files, self._cpu_s, answers=self._answers)
        finally:
            self._files.pop(0).close()


def _facts(answer: bytes, files: RunFiles, most_cpu_s: float, *, answers: bool) -> RunFacts:
    why, phase, wall_s, queued_s, left_cpu_s = protocol.FACTS.unpack_from(answer)
    status, user_s, user_us, system_s, system_us, peak_kib = protocol.USAGE.unpack_from(
        answer, protocol.FACTS.size
    )
    cpu_s = user_s + system_s + (user_us + system_us) / 1e6 + left_cpu_s
    stdout = files.answer() if answers else files.stdout()
    stderr, stderr_size = files.stderr()
    return RunFacts(
        returncode=os.waitstatus_to_exitcode(status),
        limit=protocol.WHY[why] or ("cpu" if cpu_s >= most_cpu_s else ""),
        cpu_s=cpu_s,
        wall_s=wall_s,
        peak_bytes=peak_kib * 1024,
        stdout=stdout,
        stderr=stderr,
        stdout_size=files.stdout_size,
        stderr_size=stderr_size,
        queued_s=queued_s,
        compile_failed=phase == protocol.COMPILES,
        files=files.fetched(),
    )
