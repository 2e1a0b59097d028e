"""What every evaluator offers, in process or remote."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self

from cobalt.evaluator.rule import Rule
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

Tests = TestCases | Mapping[str, Any] | str


class Evaluator(Protocol):
    """Runs programs on tests. Safe to call from any thread. Use as a context manager, or call `close`.

    A program given as None (the answer held no code) gets the status `no_code` without being run.

    Raises BadRequest for tests of the wrong shape. What fails on our side is retried and then reported as
    the status `infra_error` of that result; an evaluator that cannot be reached at all raises InfraError.
    """

    name: str
    isolation: str
    counters: dict[str, Any]

    def evaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult: ...

    async def aevaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult: ...

    def evaluate_many(self, programs: Iterable[tuple[str | None, Tests]]) -> Iterator[ExecutionResult]:
        """Results in the order of `programs`, which is read only a little ahead of them."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closed(ABC):
    """Closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; what still waits is cancelled or raises InfraError. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SubmittingEvaluator(Closed):
    """The interface of evaluators, from `submit`. `_ahead`: programs that `evaluate_many` reads ahead."""

    _ahead: int

    @abstractmethod
    def submit(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> Future[ExecutionResult]:
        """Start judging; never blocks. Raises BadRequest at once for tests of the wrong shape."""

    def evaluate(self, code: str | None, test_cases: Tests, *, rule: Rule | None = None) -> ExecutionResult:
        return self.submit(code, test_cases, rule=rule).result()

    async def aevaluate(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> ExecutionResult:
        return await asyncio.wrap_future(self.submit(code, test_cases, rule=rule))

    def evaluate_many(self, programs: Iterable[tuple[str | None, Tests]]) -> Iterator[ExecutionResult]:
        """Results in the order of `programs`, which is read only a little ahead of them."""
        window: deque[Future[ExecutionResult]] = deque()
        for code, tests in programs:
            window.append(self.submit(code, tests))
            if len(window) >= self._ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()


def infra_result(count: int, why: str) -> ExecutionResult:
    """A result that says that we failed: to be retried or masked, never scored."""
    return {
        "passing": [False] * count,
        "feedback": [f"Exception: {why}"] * count,
        "status": "infra_error",
        "per_test": [],
        "suite_limit": False,
        "shared": False,
    }
