"""What every evaluator offers, in process or remote."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from cobalt.errors import InfraError
from cobalt.evaluator.checker import Rule
from cobalt.evaluator.runs import Run, RunRequest, text_of
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.schema import SKIPPED, ExecutionResult, TestResult
from cobalt.testcases import TestCases

Tests = TestCases | Mapping[str, Any] | str


class Evaluator(ABC):
    """Runs programs on tests. Safe to call from any thread. Use as a context manager, or call `close`.

    A program given as None (the answer held no code) gets the status `no_code` without being run. What fails
    on our side is tried again and then reported as the status `infra_error` of that result; an evaluator that
    cannot be reached at all raises InfraError. `counters` has `tests` run, verdicts `shared` with or
    remembered from others (`cache`; None: every request runs), `infra_errors`, and `cpu_s` of the tests.
    """

    name: str
    isolation: str

    def __init__(self, *, ahead: int, cache: VerdictCache | None = None) -> None:
        self.counters: dict[str, Any] = {"tests": 0, "shared": 0, "infra_errors": 0, "cpu_s": 0.0}
        self.cache = cache
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ahead = ahead  # programs that `evaluate_many` reads ahead

    def submit(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> Future[ExecutionResult]:
        """Start judging; never blocks. `rule`: in place of the evaluator's own.

        Raises BadRequest at once for tests of the wrong shape, InfraError if the evaluator is closed.
        """
        if self._closed.is_set():
            raise InfraError("the evaluator is closed")
        tests = TestCases.parse(test_cases)
        if code is None:
            future: Future[ExecutionResult] = Future()
            future.set_result(_no_code(len(tests)))
            return future
        if self.cache is None:
            return self._start(code, tests, rule)
        shared = self._count_shared
        return self.cache.request(code, tests, rule, lambda some: self._start(code, some, rule), shared)

    def evaluate(self, code: str | None, test_cases: Tests, *, rule: Rule | None = None) -> ExecutionResult:
        return self.submit(code, test_cases, rule=rule).result()

    async def aevaluate(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> ExecutionResult:
        return await asyncio.wrap_future(self.submit(code, test_cases, rule=rule))

    def submit_run(
        self,
        source: str | bytes,
        stdin: str | bytes = "",
        *,
        files: Mapping[str, str | bytes] | None = None,
        time_s: float | None = None,
        fetch_files: Sequence[str] = (),
    ) -> Future[Run]:
        """Start one raw run of a program, never shared; never blocks (see `cobalt.evaluator.runs.Run`).

        ``files``: of its working folder, read-only, by relative path (isolation level `namespaces` only);
        ``time_s``: CPU seconds, in place of a test's; ``fetch_files``: read at its end, at that level.
        In process, the future's `cancel` ends a program that runs. A fault of ours is the status
        `infra_error`. Raises BadRequest at once for a request of the wrong shape, InfraError if the evaluator
        is closed.
        """
        if self._closed.is_set():
            raise InfraError("the evaluator is closed")
        given = {path: text_of(data) for path, data in (files or {}).items()}
        return self._start_run(RunRequest(text_of(source), text_of(stdin), given, time_s, fetch_files))

    def run(self, source: str | bytes, stdin: str | bytes = "", **more: Any) -> Run:
        """`submit_run`, waited for."""
        return self.submit_run(source, stdin, **more).result()

    @property
    def plain(self) -> "Evaluator":
        """The evaluator that runs programs and compares what they print."""
        return self

    def trial(self, row: Mapping[str, Any]) -> None:  # noqa: B027 - mostly nothing is
        """Try what is the user's own on a task, if anything is. Raises InputError if that fails."""

    @property
    def identity(self) -> dict[str, str]:
        """What else decides its verdicts, for manifests."""
        return {}

    def evaluate_many(self, programs: Iterable[tuple[str | None, Tests]]) -> Iterator[ExecutionResult]:
        """Results in the order of `programs`, which is read only a little ahead of them."""
        window: deque[Future[ExecutionResult]] = deque()
        for code, tests in programs:
            window.append(self.submit(code, tests))
            if len(window) >= self._ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; what still waits is cancelled or raises InfraError. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        """Begin a run; never blocks."""

    def _start_run(self, request: RunRequest) -> Future[Run]:
        """Begin a raw run; never blocks."""
        raise InfraError(f"the evaluator '{self.name}' runs programs on tests only")

    def _count_run(self, run: Run) -> None:
        with self._lock:
            self.counters["infra_errors"] += run.status == "infra_error"
            self.counters["tests"] += run.status != "infra_error"
            self.counters["cpu_s"] += run.cpu_s

    def _count(self, result: ExecutionResult) -> None:
        with self._lock:
            self.counters["infra_errors"] += result["status"] == "infra_error"
            if result.get("shared"):
                self.counters["shared"] += 1
            else:
                self.counters["tests"] += sum(each["status"] != SKIPPED for each in result["per_test"])
                self.counters["cpu_s"] += sum(each["cpu_s"] for each in result["per_test"])

    def _count_shared(self) -> None:
        with self._lock:
            self.counters["shared"] += 1


def infra_result(count: int, why: str) -> ExecutionResult:
    """A result that says that we failed: to be retried or masked, never scored."""
    return _not_run(count, "infra_error", why, [])


def _no_code(count: int) -> ExecutionResult:
    test: TestResult = {"status": "runtime_error", "cpu_s": 0.0, "wall_s": 0.0, "returncode": None}
    tests = [test.copy() for _ in range(count)]
    return _not_run(count, "no_code", "No code block could be extracted.", tests)


def _not_run(count: int, status: str, why: str, tests: list[TestResult]) -> ExecutionResult:
    return {
        "passing": [False] * count,
        "feedback": [f"Exception: {why}"] * count,
        "status": status,
        "per_test": tests,
        "suite_limit": False,
        "shared": False,
    }
