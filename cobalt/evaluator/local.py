"""The evaluator of this machine: a pool of sandbox workers, and verdicts made from what they return."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from cobalt.errors import BadRequest, InfraError
from cobalt.evaluator.base import Evaluator, infra_result
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.judge import judge_suite
from cobalt.evaluator.runs import Run, RunRequest, run_program
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.probe import resolve
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

T = TypeVar("T")


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
        work = partial(judge_suite, self._pool, code, tests, self.limits, rule or self.rule)
        return self._queue(work, partial(infra_result, len(tests)), self._count)

    def _start_run(self, request: RunRequest) -> Future[Run]:
        if (request.files or request.fetch_files) and self.isolation != "namespaces":
            raise BadRequest(f"'files' need isolation level namespaces, this is {self.isolation}")
        future: Future[Run] = Future()  # can be cancelled while the run is under way
        work = partial(run_program, self._pool, request, self.limits, future.cancelled)
        queued = self._queue(work, lambda why: Run("infra_error", stderr=why), self._count_run)
        queued.add_done_callback(partial(_hand_on, future))
        return future

    def _queue(
        self, work: Callable[[], T], lost: Callable[[str], T], count: Callable[[T], None]
    ) -> Future[T]:
        """Have `work` done by a thread; `lost` makes the result of what fails on our side."""
        try:
            future = self._threads.submit(self._done, work, lost, count)
        except RuntimeError as error:  # closed meanwhile, or no thread can be started
            if self._closed.is_set():
                raise InfraError("the evaluator is closed") from None
            result = lost(str(error))
            count(result)
            future = Future()
            future.set_result(result)
            return future
        with self._lock:
            self.waiting += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: Future[Any]) -> None:
        with self._lock:
            self.waiting -= 1

    def _done(self, work: Callable[[], T], lost: Callable[[str], T], count: Callable[[T], None]) -> T:
        try:
            result = work()
        except Exception as error:  # of whatever kind: none of them is the program's doing
            if self._closed.is_set() or isinstance(error, CancelledError):
                raise
            if not isinstance(error, InfraError):
                logging.getLogger(__name__).exception("judging a program failed")
            result = lost(str(error) or type(error).__name__)
        count(result)
        return result


def _hand_on(future: Future[T], done: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    error = CancelledError() if done.cancelled() else done.exception()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)
