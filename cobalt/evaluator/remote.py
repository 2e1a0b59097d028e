"""What evaluators behind a wire have in common: retries, batches, readiness."""

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from cobalt.errors import BadRequest, CobaltError, InfraError
from cobalt.evaluator.base import Tests
from cobalt.evaluator.request import canary, make_request
from cobalt.records import ExecutionResult
from cobalt.sandbox.policy import Limits

_TRIES = 6
_BATCH = 16
_REQUESTS_AT_ONCE = 32


class Transient(Exception):
    """The request failed for a reason that may pass: refused, unreachable, timed out, a server's fault."""


class RemoteEvaluator:
    """Base of the clients; `_send` (blocking, thread-safe) is theirs.

    `_send` takes a request or a list of them and a deadline in seconds, and returns the answer; it raises
    BadRequest if the server calls the request malformed, else Transient. After several Transient errors,
    with growing pauses, InfraError is raised: a verdict is never made up.
    """

    name = "remote"

    def __init__(self, where: str) -> None:
        self.where = where
        self.isolation = "unknown"
        self.counters: dict[str, Any] = {"tests": 0, "shared": 0, "infra_errors": 0, "cpu_s": 0.0}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="evaluator-client")

    def evaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult:
        result: ExecutionResult = self._threads.submit(self._request, make_request(code, test_cases)).result()
        return result

    async def aevaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult:
        future = self._threads.submit(self._request, make_request(code, test_cases))
        result: ExecutionResult = await asyncio.wrap_future(future)
        return result

    def evaluate_many(self, programs: Iterable[tuple[str | None, Tests]]) -> Iterator[ExecutionResult]:
        """Results in the order of `programs`, which travel many per request."""
        window: deque[Future[Any]] = deque()
        batch: list[dict[str, Any]] = []
        for code, tests in programs:
            batch.append(make_request(code, tests))
            if len(batch) == _BATCH:
                window.append(self._threads.submit(self._request, batch))
                batch = []
                if len(window) >= _REQUESTS_AT_ONCE // 4:
                    yield from window.popleft().result()
        if batch:
            window.append(self._threads.submit(self._request, batch))
        while window:
            yield from window.popleft().result()

    def wait_ready(self, seconds: float) -> None:
        """Return once a program whose verdict is known is judged rightly. Raises InfraError if that fails."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                result = self._send(canary(), max(1.0, deadline - time.monotonic()))
                if result["passing"] == [True]:
                    return
                problem = f"a right program got {result['status']}: {result['feedback']}"
            except (Transient, BadRequest) as error:
                problem = str(error)
            if time.monotonic() >= deadline:
                raise InfraError(f"the evaluator at {self.where} is not ready: {problem}")
            time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))

    def close(self) -> None:
        """Let go of the connection; the evaluator itself goes on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Any, seconds: float) -> Any:
        raise NotImplementedError

    def _request(self, request: Any) -> Any:
        count = len(request) if isinstance(request, list) else 1
        seconds = (
            600.0 + Limits().suite_wall_s * count
        )  # queueing included; the server's own limits are shorter
        for attempt in range(_TRIES):
            try:
                answer = self._send(request, seconds)
                break
            except Transient as error:
                if attempt == _TRIES - 1:
                    with self._lock:
                        self.counters["infra_errors"] += count
                    raise InfraError(
                        f"the evaluator at {self.where} failed {_TRIES} times: {error}"
                    ) from error
                time.sleep(min(10.0, 0.2 * 2**attempt) * random.uniform(0.5, 1.5))
        self._count(answer if isinstance(request, list) else [answer], count)
        return answer

    def _count(self, results: Any, count: int) -> None:
        if not isinstance(results, list) or len(results) != count:
            raise CobaltError(f"the evaluator at {self.where} gave an answer of the wrong shape")
        with self._lock:
            for result in results:
                self.counters["shared"] += bool(result.get("shared"))
                self.counters["infra_errors"] += result.get("status") == "infra_error"
                if not result.get("shared"):
                    tests = result.get("per_test", [])
                    self.counters["tests"] += len(tests)
                    self.counters["cpu_s"] += sum(test["cpu_s"] for test in tests)
