"""Clients of the evaluator over HTTP or a Ray Serve handle."""

import json
import os
import random
import socket
import sys
import time
import urllib.error
import urllib.request
from abc import abstractmethod
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cobalt.errors import BadRequest, CobaltError, InfraError, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.checker import Rule
from cobalt.evaluator.requests import canary, is_run, make_request
from cobalt.evaluator.runs import Run, RunRequest
from cobalt.sandbox.limits import Limits
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

APPLICATION = "evaluator"
DEPLOYMENT = "Evaluator"
ROUTE = "/evaluator"
TOKEN_VARIABLE = "COBALT_EVALUATOR_TOKEN"  # for HTTP; without it the service asks for none

_TRIES = 6
_REFUSED_S = 1800.0  # a service that is alive but full is asked again for this long
_LONGEST_PAUSE_S = 10.0
_ABSENT_S = 15.0  # a service that starts is waited for
_SERVICE = "remote_reward_server:app"
_BATCH = 16
_REQUESTS_AT_ONCE = 32
_ANSWER = {"passing", "feedback", "status", "per_test"}


class Transient(Exception):
    """The request failed for a reason that may pass: unreachable, timed out, a server's fault."""


class Refused(Transient):
    """The service is full and has not begun: the request is to be sent again later."""


class Absent(Transient):
    """Nobody listens there, or nobody who understands: no such route, or the request breaks the server."""


class RemoteEvaluator(Evaluator):
    """Base of the clients; `_send` is theirs. `where`: what errors call the service.

    Programs travel together: while all senders are busy, those that wait are shared out among them, up to 16
    in a request. Refused requests are sent again, with growing pauses, for half an hour; after several other
    Transient errors InfraError is raised: a verdict is never made up.
    """

    name = "remote"

    def __init__(self, where: str) -> None:
        super().__init__(ahead=_BATCH * _REQUESTS_AT_ONCE)
        self.where = where
        self.isolation = "unknown"
        self._waiting: deque[tuple[dict[str, Any], Future[Any]]] = deque()
        self._threads = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="evaluator-client")

    @abstractmethod
    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        """The list of answers within a deadline, to requests of one kind (`is_run`). Blocking, thread-safe.

        Raises BadRequest if the server calls the request malformed, else Refused or another Transient.
        """

    def wait_ready(self, seconds: float) -> None:
        """Return once a program whose verdict is known is judged rightly.

        Raises InputError where nobody answers or the answer is none of ours, InfraError for a wrong verdict.
        """
        began, verdict, told = time.monotonic(), None, False
        while True:
            left = began + seconds - time.monotonic()
            try:
                # In a thread: a Serve handle cannot be waited for where an event loop runs.
                answers = self._threads.submit(self._send, [canary()], max(1.0, left)).result()
                verdict = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
                if not isinstance(verdict, dict) or not set(verdict) >= _ANSWER:
                    raise self.foreign(repr(answers))
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
            if not told:
                waits = f"waiting up to {left:.0f} s for the evaluator at {self.where}"
                print(f"{waits}: {problem[:300]}", file=sys.stderr)
                told = True
            time.sleep(min(1.0, left))

    def foreign(self, answer: str) -> InputError:
        """The error for a service that does not speak as this version does."""
        return InputError(
            f"the evaluator at {self.where} is an older one or another service (it answered "
            f"{' '.join(answer.split())[:200]}): start this version's {_SERVICE} in its place"
        )

    def close(self) -> None:
        """Let go of the connection; the evaluator itself goes on. What still waits is cancelled."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._waiting:
            self._waiting.popleft()[1].cancel()

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        return self._enqueue(make_request(code, tests, rule))

    def _start_run(self, request: RunRequest) -> Future[Run]:
        return self._enqueue(request.to_mapping())

    def _enqueue(self, request: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((request, future))
        self._threads.submit(self._send_some)
        return future

    def _send_some(self) -> None:
        """Take this thread's share of what waits, perhaps nothing, and send it as one request."""
        taken: list[tuple[dict[str, Any], Future[Any]]] = []
        with self._lock:
            share = min(_BATCH, max(1, len(self._waiting) // _REQUESTS_AT_ONCE))
            while self._waiting and len(taken) < share:
                if taken and is_run(self._waiting[0][0]) != is_run(taken[0][0]):
                    self._threads.submit(self._send_some)  # another thread's, which found nothing
                    break
                each = self._waiting.popleft()
                if each[1].set_running_or_notify_cancel():
                    taken.append(each)
        if not taken:
            return
        try:
            answers = self._ask([request for request, _ in taken])
            if not isinstance(answers, list) or len(answers) != len(taken):
                raise CobaltError(f"the evaluator at {self.where} gave an answer of the wrong shape")
            if is_run(taken[0][0]):
                answers = [Run(**answer) for answer in answers]
            for answer in answers:
                (self._count_run if isinstance(answer, Run) else self._count)(answer)
        except BaseException as error:
            for _, future in taken:
                future.set_exception(error)
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            future.set_result(answer)

    def _ask(self, requests: list[dict[str, Any]]) -> Any:
        # Programs of a request may run one after another, each for as long as a suite may take; the rest is
        # for the service's queue, and for a host so busy that time is not charged.
        seconds = 600.0 + Limits().suite_wall_s * len(requests)
        began, attempt, failures = time.monotonic(), 0, 0
        while True:
            try:
                return self._send(requests, seconds)
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

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise InfraError("the evaluator's client is closed")


class HttpEvaluator(RemoteEvaluator):
    """The service over HTTP; `url` is that of the application (the route `/evaluator` is added if absent).

    A token that the service asks for is taken from the environment (COBALT_EVALUATOR_TOKEN).
    """

    name = "http"

    def __init__(self, url: str) -> None:
        url = url.rstrip("/")
        super().__init__(url if url.endswith(ROUTE) else url + ROUTE)

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        headers = {"Content-Type": "application/json"}
        token = os.environ.get(TOKEN_VARIABLE)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        where = self.where + ("/run" if is_run(requests[0]) else "")
        post = urllib.request.Request(where, json.dumps(requests).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(post, timeout=seconds) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1 << 16).decode("utf-8", "replace")
            raise self._error(error.code, text) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None)
            if isinstance(reason, ConnectionRefusedError | socket.gaierror):
                raise Absent(str(reason)) from None
            raise Transient(f"{type(error).__name__}: {error}") from None

    def _error(self, code: int, text: str) -> Exception:
        if code in (413, 422):
            try:
                text = str(json.loads(text)["error"])
            except (ValueError, KeyError, TypeError):
                text = text[:300]
            return BadRequest(text)
        if code in (401, 403):
            return InputError(
                f"the evaluator at {self.where} refuses the token: set {TOKEN_VARIABLE} to the service's"
            )
        refused, absent = code in (429, 503), code in (404, 405, 500, 501)
        kind = Refused if refused else Absent if absent else Transient
        return kind(f"HTTP {code}: {text[:300]}")


class ServeEvaluator(RemoteEvaluator):
    """The service through a Ray Serve handle."""

    name = "serve"

    def __init__(self, handle: Any) -> None:
        super().__init__(f"the Ray Serve application '{APPLICATION}'")
        self._handle = handle

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        from ray.exceptions import RayError, RayTaskError
        from ray.serve.exceptions import BackPressureError, RayServeException

        try:
            return self._handle.remote(requests).result(timeout_s=seconds)
        except BackPressureError as error:
            raise Refused(str(error)) from None
        except BadRequest as error:
            raise BadRequest(str(getattr(error, "cause", error))) from None
        except RayTaskError as error:
            if isinstance(error.cause, BadRequest):
                raise BadRequest(str(error.cause)) from None
            if isinstance(error.cause, TypeError | LookupError | AttributeError):
                raise self.foreign(f"{type(error.cause).__name__}: {error.cause}") from None
            raise Transient(f"{type(error.cause).__name__}: {error.cause}") from None
        except (RayError, RayServeException, TimeoutError, OSError) as error:
            raise Transient(f"{type(error).__name__}: {error}") from None
