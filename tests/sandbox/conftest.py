"""Fixtures of the sandbox tests: one warm worker per isolation level, proven sound after every test."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cobalt.errors import InfraError
from cobalt.sandbox.levels import resolve
from cobalt.sandbox.policy import Limits
from cobalt.sandbox.worker import RunFacts, Worker

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
            if program.compile_error is not None:
                return [program.compile_error] * len(inputs)
            return [program.run(_bytes(each)) for each in inputs]

    def output(self, code: str | bytes, stdin: str | bytes = "") -> str:
        """Stripped stdout of a run that must end well."""
        facts = self.run(code, stdin)
        assert facts.returncode == 0, facts.stderr.decode()
        return facts.stdout.decode().strip()


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _open(level: str) -> Worker:
    try:
        resolve(level)
    except InfraError as error:
        pytest.skip(str(error))
    return Worker(level)


@pytest.fixture(scope="session")
def workers() -> Iterator[dict[str, Worker]]:
    opened: dict[str, Worker] = {}
    yield opened
    for worker in opened.values():
        worker.close()


def _sound(level: str, workers: dict[str, Worker]) -> Iterator[Box]:
    if level not in workers:
        workers[level] = _open(level)
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
