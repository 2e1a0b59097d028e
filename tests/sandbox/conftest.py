"""Fixtures of the sandbox tests: one warm worker per isolation level, proven sound after every test."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from cobalt.errors import InfraError
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.probe import resolve
from cobalt.sandbox.worker import RunFacts, Worker

_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
LIMITS = Limits(cpu_s=2.0, memory_bytes=256 << 20, output_bytes=1 << 20)


@dataclass
class Box:
    """A worker at one isolation level; `run` gives a program to it and returns what one run did."""

    level: str
    worker: Worker

    def run(self, code: str | bytes, stdin: str | bytes = "", *, limits: Limits = LIMITS) -> RunFacts:
        return self.runs(code, [stdin], limits=limits)[0]

    def runs(
        self, code: str | bytes, inputs: list[str | bytes], *, limits: Limits = LIMITS
    ) -> list[RunFacts]:
        """The program on several inputs, in order, compiled once."""
        with self.worker.program(_bytes(code), limits) as program:
            return [program.run(_bytes(each)) for each in inputs]

    def output(self, code: str | bytes, stdin: str | bytes = "") -> str:
        """Stripped stdout of a run that must end well."""
        facts = self.run(code, stdin)
        assert facts.returncode == 0, facts.stderr.decode()
        return facts.stdout.decode().strip()


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _offered(level: str) -> bool:
    """Whether this kernel gives what a level needs, found without a line of the sandbox."""
    if level == "landlock":
        libc = ctypes.CDLL(None)
        return int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)) > 0  # its version
    own = ["--map-root-user", "--ipc", "--net", "--uts", "--pid", "--fork", "--mount-proc"]
    asked = ["unshare", *own, "true"]
    return shutil.which(asked[0]) is not None and subprocess.run(asked, capture_output=True).returncode == 0


def _usable(level: str) -> str:
    try:
        return resolve(level)
    except InfraError as error:
        assert not _offered(level), f"the kernel gives what level {level} needs, but: {error}"
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def usable() -> Callable[[str], str]:
    """Gives back a level that works here; skips the test only where the kernel lacks it."""
    return _usable


@pytest.fixture(scope="session")
def workers() -> Iterator[dict[str, Worker]]:
    opened: dict[str, Worker] = {}
    yield opened
    for worker in opened.values():
        worker.close()


def _sound(level: str, workers: dict[str, Worker]) -> Iterator[Box]:
    if level not in workers:
        workers[level] = Worker(_usable(level))
    box = Box(level, workers[level])
    pid = box.worker.pid
    yield box
    # Whatever the program did, the same worker must go on and judge the next one rightly.
    assert box.output("print(int(input()) + 1)", "41") == "42"
    assert box.worker.pid == pid


@pytest.fixture(params=["namespaces", "landlock"])
def box(request: pytest.FixtureRequest, workers: dict[str, Worker]) -> Iterator[Box]:
    yield from _sound(request.param, workers)


@pytest.fixture
def namespaces(workers: dict[str, Worker]) -> Iterator[Box]:
    yield from _sound("namespaces", workers)


@pytest.fixture
def landlock(workers: dict[str, Worker]) -> Iterator[Box]:
    yield from _sound("landlock", workers)
