"""What every evaluator offers, in process or remote."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from cobalt.records import ExecutionResult, TestCases

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
