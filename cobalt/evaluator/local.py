"""The evaluator of this machine: a pool of sandbox workers, and verdicts made from what they return."""

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor

from cobalt.errors import InfraError
from cobalt.evaluator.base import Evaluator, infra_result
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.judge import judge_suite
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.probe import resolve
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases


class LocalEvaluator(Evaluator):
    """Judges programs on this machine, `workers` at a time (default: one per CPU that we may use).

    `isolation`: `auto` (the best level that works here) or a level's name. `shared_verdicts`: identical
    (program, tests) pairs, at the same time or lately, run once. `rule`: how outputs are compared and when to
    stop, unless a call says otherwise. `limits`: those of the rule where none are given.

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
        self.limits = limits or rule.limits
        self.isolation = resolve(isolation, self.limits)
        self.rule = rule
        self.waiting = 0  # programs that wait for a worker or are being run
        super().__init__(
            ahead=4 * self.workers, cache=VerdictCache(limits=self.limits) if shared_verdicts else None
        )
        self._pool = Pool(self.isolation, self.limits)
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="evaluator")

    def close(self) -> None:
        """End the workers; requests still waiting are cancelled or raise InfraError. May be called twice."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._threads.shutdown(wait=True)

    @property
    def restarts(self) -> int:
        """Workers that had to be replaced."""
        return self._pool.restarts

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        try:
            future = self._threads.submit(self._judge, code, tests, rule or self.rule)
        except RuntimeError as error:  # closed meanwhile, or no thread can be started
            if self._closed.is_set():
                raise InfraError("the evaluator is closed") from None
            result = infra_result(len(tests), str(error))
            self._count(result)
            future = Future()
            future.set_result(result)
            return future
        with self._lock:
            self.waiting += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: Future[ExecutionResult]) -> None:
        with self._lock:
            self.waiting -= 1

    def _judge(self, code: str, tests: TestCases, rule: Rule) -> ExecutionResult:
        try:
            result = judge_suite(self._pool, code, tests, self.limits, rule)
        except Exception as error:  # of whatever kind: none of them is the program's doing
            if self._closed.is_set():
                raise
            if not isinstance(error, InfraError):
                logging.getLogger(__name__).exception("judging a program failed")
            result = infra_result(len(tests), str(error) or type(error).__name__)
        self._count(result)
        return result
