"""An evaluator that runs no pair of program and test twice in one run.

The stages ask about overlapping parts of a task's tests (all of them, the public ones, the hidden ones) and
about the same programs again: few programs fit a tiny task, and every model and control writes many of them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cobalt.evaluator.base import Closed
from cobalt.sandbox.policy import Limits
from cobalt.schema import ExecutionResult, TestResult
from cobalt.testcases import TestCases

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator, Tests


class _Known(NamedTuple):
    passed: bool
    feedback: str
    facts: TestResult


class Remember(Closed):
    """Stands in front of another evaluator (which it closes) and remembers verdicts test by test.

    Only verdicts of programs that ran in full are remembered (status `ok`, within the time of the suite).
    Tests whose CPU time together is over `suite_s`, the evaluator's limit of a suite, are run as one all the
    same: that suite has another verdict than its parts. `limit` tests are kept, then the oldest are
    forgotten. A request that needs no run at all is counted in `counters["remembered"]`.
    """

    def __init__(self, inner: Evaluator, limit: int = 200_000, suite_s: float = Limits.suite_s) -> None:
        self.inner, self.limit, self.suite_s = inner, limit, suite_s
        self.name, self.isolation = inner.name, inner.isolation
        self._known: dict[bytes, _Known] = {}
        self._lock = threading.Lock()
        self.counters: dict[str, Any] = inner.counters
        self.counters["remembered"] = 0

    async def aevaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult:
        request = self._look_up(code, test_cases)
        if not request.missing:
            return self._from_memory(request)
        result = self._merge(request, await self.inner.aevaluate(code, request.to_run()))
        return result or await self.inner.aevaluate(code, request.tests)

    def evaluate(self, code: str | None, test_cases: Tests) -> ExecutionResult:
        request = self._look_up(code, test_cases)
        if not request.missing:
            return self._from_memory(request)
        result = self._merge(request, self.inner.evaluate(code, request.to_run()))
        return result or self.inner.evaluate(code, request.tests)

    def evaluate_many(self, programs: Iterable[tuple[str | None, Tests]]) -> Iterator[ExecutionResult]:
        return self.inner.evaluate_many(programs)

    def close(self) -> None:
        self.inner.close()

    def _look_up(self, code: str | None, test_cases: Tests) -> _Request:
        tests = TestCases.parse(test_cases)
        head = hashlib.blake2b(f"{tests.fn_name}\0{code}".encode("utf-8", "surrogatepass"), digest_size=16)
        keys = []
        for pair in zip(tests.inputs, tests.outputs, strict=True):
            each = head.copy()
            each.update(b"\0" + json.dumps(pair).encode())
            keys.append(each.digest())
        with self._lock:
            known = [self._known.get(key) if code is not None else None for key in keys]
        request = _Request(tests, keys, known)
        if not request.missing and request.cpu_s >= self.suite_s:
            request.known = [None] * len(keys)
        return request

    def _from_memory(self, request: _Request) -> ExecutionResult:
        with self._lock:
            self.counters["remembered"] += 1
        return request.result(shared=True)

    def _merge(self, request: _Request, result: ExecutionResult) -> ExecutionResult | None:
        """The verdict on all tests from that on some; None if the whole must be run for it."""
        ran = request.missing
        whole = len(ran) == len(request.keys)
        if result["status"] != "ok" or result.get("suite_limit") or len(result["per_test"]) != len(ran):
            return result if whole else None
        for place, passed, feedback, facts in zip(
            ran, result["passing"], result["feedback"], result["per_test"], strict=True
        ):
            request.known[place] = _Known(passed, feedback, copy.copy(facts))
        with self._lock:
            self._known.update(zip(request.keys, request.known, strict=True))  # type: ignore[arg-type]
            while len(self._known) > self.limit:
                self._known.pop(next(iter(self._known)))
        if whole:
            return result
        return request.result(shared=False) if request.cpu_s < self.suite_s else None


@dataclass
class _Request:
    """Tests, a key for each, and what is known of each."""

    tests: TestCases
    keys: list[bytes]
    known: list[_Known | None]

    @property
    def missing(self) -> list[int]:
        return [place for place, each in enumerate(self.known) if each is None]

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the tests that are known."""
        return sum(each.facts["cpu_s"] for each in self.known if each is not None)

    def to_run(self) -> TestCases:
        places, tests = self.missing, self.tests
        inputs, outputs = ([column[place] for place in places] for column in (tests.inputs, tests.outputs))
        return TestCases(inputs, outputs, tests.fn_name)

    def result(self, *, shared: bool) -> ExecutionResult:
        known = [each for each in self.known if each is not None]
        return {
            "passing": [each.passed for each in known],
            "feedback": [each.feedback for each in known],
            "status": "ok",
            "per_test": [copy.copy(each.facts) for each in known],
            "suite_limit": False,
            "shared": shared,
        }
