"""What evaluators behind a wire have in common: requests sent together, retries, readiness."""

import random
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cobalt.errors import BadRequest, CobaltError, InfraError, InputError
from cobalt.evaluator.base import SubmittingEvaluator, Tests
from cobalt.evaluator.request import canary, make_request
from cobalt.evaluator.rule import Rule
from cobalt.sandbox.policy import Limits
from cobalt.schema import SKIPPED, ExecutionResult

_TRIES = 6
_REFUSED_S = 1800.0  # a service that is alive but full is asked again for this long
_LONGEST_PAUSE_S = 10.0
_ABSENT_S = 15.0  # a service that starts is waited for
_SERVICE = "remote_reward_server:app"
_BATCH = 16
_REQUESTS_AT_ONCE = 32


class Transient(Exception):
    """The request failed for a reason that may pass: unreachable, timed out, a server's fault."""


class Refused(Transient):
    """The service is full and has not begun: the request is to be sent again later."""


class Absent(Transient):
    """Nobody listens there, or nobody who understands: no such route, or the request breaks the server."""


class RemoteEvaluator(SubmittingEvaluator):
    """Base of the clients; `_send` (blocking, thread-safe) is theirs.

    `_send` takes a list of requests and a deadline in seconds, and returns the list of answers; it raises
    BadRequest if the server calls the request malformed, else Refused or Transient. Refused requests are sent
    again, with growing pauses, for half an hour; after several other Transient errors InfraError is raised: a
    verdict is never made up.

    Programs travel together: while all senders are busy, those that wait are shared out among them, up to 16
    in a request.
    """

    name = "remote"

    def __init__(self, where: str) -> None:
        self.where = where
        self.isolation = "unknown"
        self.counters: dict[str, Any] = {"tests": 0, "shared": 0, "infra_errors": 0, "cpu_s": 0.0}
        self._ahead = _BATCH * _REQUESTS_AT_ONCE
        self._lock = threading.Lock()
        self._waiting: deque[tuple[dict[str, Any], Future[ExecutionResult]]] = deque()
        self._closed = threading.Event()
        self._threads = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="evaluator-client")

    def submit(
        self, code: str | None, test_cases: Tests, *, rule: Rule | None = None
    ) -> Future[ExecutionResult]:
        if self._closed.is_set():
            raise InfraError("the evaluator's client is closed")
        future: Future[ExecutionResult] = Future()
        self._waiting.append((make_request(code, test_cases, rule), future))
        self._threads.submit(self._send_some)
        return future

    def wait_ready(self, seconds: float) -> None:
        """Return once a program whose verdict is known is judged rightly.

        Raises InputError where nobody answers or the answer is none of ours, InfraError for a wrong verdict.
        """
        began, verdict = time.monotonic(), None
        while True:
            left = began + seconds - time.monotonic()
            try:
                # In a thread: a Serve handle cannot be waited for where an event loop runs.
                answers = self._threads.submit(self._send, [canary()], max(1.0, left)).result()
                verdict = self._answered(answers)
                if verdict["passing"] == [True]:
                    return
                problem = f"a right program got {verdict['status']}: {verdict['feedback']}"
            except BadRequest as error:
                raise self.foreign(str(error)) from None
            except Transient as error:
                problem = " ".join(str(error).split())
                if isinstance(error, Absent):
                    left = began + min(seconds, _ABSENT_S) - time.monotonic()
            if left <= 0:
                kind = InputError if verdict is None else InfraError
                ask = f"; is {_SERVICE} of this version running there?" if kind is InputError else ""
                raise kind(f"the evaluator at {self.where} is not ready: {problem[:300]}{ask}")
            time.sleep(min(1.0, left))

    def foreign(self, answer: str) -> InputError:
        """The error for a service that does not speak as this version does."""
        return InputError(
            f"the evaluator at {self.where} is an older one or another service (it answered "
            f"{' '.join(answer.split())[:200]}): start this version's {_SERVICE} in its place"
        )

    def _answered(self, answers: Any) -> Any:
        """The one verdict of a canary's answers."""
        found = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        if not isinstance(found, dict) or not {"passing", "feedback", "status", "per_test"} <= set(found):
            raise self.foreign(repr(answers))
        return found

    def close(self) -> None:
        """Let go of the connection; the evaluator itself goes on. What still waits is cancelled."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._waiting:
            self._waiting.popleft()[1].cancel()

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        raise NotImplementedError

    def _send_some(self) -> None:
        """Take this thread's share of what waits, perhaps nothing, and send it as one request."""
        taken: list[tuple[dict[str, Any], Future[ExecutionResult]]] = []
        with self._lock:
            share = min(_BATCH, max(1, len(self._waiting) // _REQUESTS_AT_ONCE))
            while self._waiting and len(taken) < share:
                each = self._waiting.popleft()
                if each[1].set_running_or_notify_cancel():
                    taken.append(each)
        if not taken:
            return
        try:
            answers = self._ask([request for request, _ in taken])
        except BaseException as error:
            for _, future in taken:
                future.set_exception(error)
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            future.set_result(answer)

    def _ask(self, requests: list[dict[str, Any]]) -> list[ExecutionResult]:
        # Programs of a request may run one after another, each for as long as a suite may take; the rest is
        # for the service's queue, and for a host so busy that time is not charged.
        seconds = 600.0 + Limits().suite_wall_s * len(requests)
        began, attempt, failures = time.monotonic(), 0, 0
        while True:
            try:
                answers = self._send(requests, seconds)
                break
            except Transient as error:
                full = isinstance(error, Refused)
                failures += not full
                if failures >= _TRIES or (full and time.monotonic() - began > _REFUSED_S):
                    how = f"refused requests for {_REFUSED_S:.0f} s" if full else f"failed {_TRIES} times"
                    with self._lock:
                        self.counters["infra_errors"] += len(requests)
                    raise InfraError(f"the evaluator at {self.where} {how}: {error}") from error
            self._pause(min(_LONGEST_PAUSE_S, 0.2 * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.5))
            attempt += 1
        self._count(answers, len(requests))
        results: list[ExecutionResult] = answers
        return results

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise InfraError("the evaluator's client is closed")

    def _count(self, results: Any, count: int) -> None:
        if not isinstance(results, list) or len(results) != count:
            raise CobaltError(f"the evaluator at {self.where} gave an answer of the wrong shape")
        with self._lock:
            for result in results:
                self.counters["shared"] += bool(result.get("shared"))
                self.counters["infra_errors"] += result.get("status") == "infra_error"
                if not result.get("shared"):
                    tests = [test for test in result.get("per_test", []) if test["status"] != SKIPPED]
                    self.counters["tests"] += len(tests)
                    self.counters["cpu_s"] += sum(test["cpu_s"] for test in tests)
