"""The files of one run on the host's side: pipes and memory files, read here and nowhere else."""

import contextlib
import fcntl
import json
import os

from cobalt.sandbox.guest import protocol

_PIPE_DEFAULT_BYTES, _PIPE_BYTES = 1 << 16, 1 << 20  # what Linux gives, and what it gives on request
_ANYBODY = 0o666  # may open it again by name (/dev/stdin), under whatever account the program runs
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class RunFiles:
    """What one run reads and writes, on the host's side; closed at its end.

    stdin and stdout are pipes, as programs expect them of whoever runs them; an input that does not fit into
    a pipe is a file. stderr is a file, and so is what receives the answer of a function task.
    """

    def __init__(self, stdin: bytes, output_bytes: int, *, answers: bool, fetches: bool = False) -> None:
        self._open: list[int] = []
        self._parts: list[bytes] = []
        self._output_bytes = output_bytes
        self._output = -1  # where a pipe's content is read; -1: not a pipe, or closed
        self.stdout_size = 0
        try:
            self._stdin = self._input(stdin)
            self._stdout = memory_file("answer") if answers else self._pipe()
            self._open.append(self._stdout)
            self._stderr = memory_file("stderr")
            self._open.append(self._stderr)
            self._fetched = [memory_file("fetched")] if fetches else []
            self._open += self._fetched
        except BaseException:
            self.close()
            raise

    @property
    def descriptors(self) -> list[int]:
        """For the program: stdin, stdout (or answer), stderr; and for its files, if they are fetched."""
        return [self._stdin, self._stdout, self._stderr, *self._fetched]

    def close(self) -> None:
        if self._output >= 0:
            os.close(self._output)
            self._output = -1
        while self._open:
            os.close(self._open.pop())

    def drain(self) -> int:
        """Take what has been printed so far; returns the bytes taken.

        Beyond the limit the pipe is closed, so that the program's next write fails.
        """
        taken = 0
        while self._output >= 0:
            try:
                part = os.read(self._output, _PIPE_BYTES)
            except BlockingIOError:
                break
            if not part:
                break
            taken += len(part)
            self._parts.append(part)
            self.stdout_size += len(part)
            if self.stdout_size >= self._output_bytes:
                os.close(self._output)
                self._output = -1
        return taken

    def widen(self) -> None:
        """Make room for a program that prints much, if the system allows it."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def stdout(self) -> bytes:
        """All that was printed, up to the limit."""
        self.drain()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return data[: self._output_bytes]

    def answer(self) -> bytes:
        """The answer of a function task, up to the limit; its length is then in `stdout_size`."""
        if os.fstat(self._stdout).st_size:
            self.stdout_size = protocol.ANSWER.unpack(os.pread(self._stdout, protocol.ANSWER.size, 0))[0]
        return os.pread(self._stdout, min(self.stdout_size, self._output_bytes), protocol.ANSWER.size)

    def stderr(self) -> tuple[bytes, int]:
        """First and last 64 KiB, and how much there was."""
        size = os.fstat(self._stderr).st_size
        if size <= 1 << 17:
            return os.pread(self._stderr, size, 0), size
        ends = os.pread(self._stderr, 1 << 16, 0), os.pread(self._stderr, 1 << 16, size - (1 << 16))
        return b"".join(ends), size

    def fetched(self) -> dict[str, str]:
        """Those files that there are, in base64; {} if they were too much."""
        found: dict[str, str] = {}
        for fd in self._fetched:
            with contextlib.suppress(ValueError):
                found = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
        return found

    def _input(self, data: bytes) -> int:
        if len(data) <= _PIPE_BYTES:
            fd, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._open.append(fd)
            try:
                if len(data) > _PIPE_DEFAULT_BYTES:
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                os.fchmod(fd, _ANYBODY)
                if os.write(end, data) == len(data):
                    os.set_blocking(fd, True)
                    return fd
            except OSError:
                pass  # the user's share of pipes is used up
            finally:
                os.close(end)
        fd = sealed_file("stdin", data)
        self._open.append(fd)
        return fd

    def _pipe(self) -> int:
        self._output, end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        os.fchmod(end, _ANYBODY)
        return end


def memory_file(name: str) -> int:
    """A descriptor of an empty file to which all writers append."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    return fd


def sealed_file(name: str, data: bytes) -> int:
    """A descriptor of a file that holds `data`, at its start, and can never be changed."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    written = 0
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], written)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return fd
