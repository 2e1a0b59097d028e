"""The evaluator of this machine: a pool of sandbox workers, and verdicts made from what they return."""

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cobalt.errors import InfraError
from cobalt.evaluator.base import SubmittingEvaluator, Tests, infra_result
from cobalt.evaluator.rule import PUBLISHED, Rule
from cobalt.evaluator.sharing import SharedVerdicts
from cobalt.evaluator.suite import judge_suite
from cobalt.sandbox.levels import resolve
from cobalt.sandbox.policy import Limits
from cobalt.sandbox.pool import Pool
from cobalt.schema import SKIPPED, ExecutionResult
from cobalt.testcases import TestCases

NO_CODE = "No code block could be extracted."


class LocalEvaluator(SubmittingEvaluator):
    """Judges programs on this machine, `workers` at a time (default: one per CPU that we may use).

    `isolation`: `auto` (the best level that works here) or a level's name. `shared_verdicts`: identical
    (program, tests) pairs, at the same time or lately, run once. `rule`: how outputs are compared and when to
    stop, unless a call says otherwise. `counters` has `tests` run, verdicts
    `shared`, `infra_errors` reported, and `cpu_s`, the CPU seconds of the tests.

    Raises InputError for bad arguments and InfraError if the machine does not give the isolation asked for.
    """

    name = "local"

    def __init__(
        self,
        workers: int | None = None,
        *,
        isolation: str = "auto",
        limits: Limits | None = None,
        shared_verdicts: bool = True,
        rule: Rule = PUBLISHED,
    ) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self.limits = limits or Limits()
        self.isolation = resolve(isolation, self.limits)
        self.counters: dict[str, Any] = {"tests": 0, "shared": 0, "infra_errors": 0, "cpu_s": 0.0}
        self.rule = rule
        self._lock = threading.Lock()
        self._waiting = 0
        self._sharing = SharedVerdicts(enabled=shared_verdicts, on_shared=self._count_shared)
        self._pool = Pool(self.workers, self.isolation, self.limits)
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="evaluator")
        self._ahead = 4 * self.workers
        self._closed = False

    def submit(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> Future[ExecutionResult]:
        if self._closed:
            raise InfraError("the evaluator is closed")
        tests = TestCases.parse(test_cases)
        if code is None:
            future: Future[ExecutionResult] = Future()
            future.set_result(_no_code(len(tests)))
            return future
        chosen = rule or self.rule
        return self._sharing.request(code, tests, chosen, lambda: self._start(code, tests, chosen))

    def close(self) -> None:
        """End the workers; requests still waiting are cancelled or raise InfraError. May be called twice."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._threads.shutdown(wait=True)

    @property
    def waiting(self) -> int:
        """Programs that wait for a worker or are being run."""
        return self._waiting

    @property
    def restarts(self) -> int:
        """Workers that had to be replaced."""
        return self._pool.restarts

    def _start(self, code: str, tests: TestCases, rule: Rule) -> Future[ExecutionResult]:
        try:
            future = self._threads.submit(self._judge, code, tests, rule)
        except RuntimeError as error:  # closed meanwhile, or no thread can be started
            if self._closed:
                raise InfraError("the evaluator is closed") from None
            return self._fault(len(tests), str(error))
        with self._lock:
            self._waiting += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: Future[ExecutionResult]) -> None:
        with self._lock:
            self._waiting -= 1

    def _judge(self, code: str, tests: TestCases, rule: Rule) -> ExecutionResult:
        try:
            result = judge_suite(self._pool, code, tests, self.limits, rule)
        except Exception as error:  # of whatever kind: none of them is the program's doing
            if self._closed:
                raise
            if not isinstance(error, InfraError):
                logging.getLogger(__name__).exception("judging a program failed")
            result = infra_result(len(tests), str(error) or type(error).__name__)
        with self._lock:
            self.counters["tests"] += sum(each["status"] != SKIPPED for each in result["per_test"])
            self.counters["cpu_s"] += sum(each["cpu_s"] for each in result["per_test"])
            self.counters["infra_errors"] += result["status"] == "infra_error"
        return result

    def _fault(self, count: int, why: str) -> Future[ExecutionResult]:
        with self._lock:
            self.counters["infra_errors"] += 1
        future: Future[ExecutionResult] = Future()
        future.set_result(infra_result(count, why))
        return future

    def _count_shared(self) -> None:
        with self._lock:
            self.counters["shared"] += 1


def _no_code(count: int) -> ExecutionResult:
    return {
        "passing": [False] * count,
        "feedback": [f"Exception: {NO_CODE}"] * count,
        "status": "no_code",
        "per_test": [
            {"status": "runtime_error", "cpu_s": 0.0, "wall_s": 0.0, "returncode": None} for _ in range(count)
        ],
        "suite_limit": False,
        "shared": False,
    }
