"""Identical requests run once: a verdict in flight or remembered is handed to all who ask for it."""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from cobalt.evaluator.output import encode
from cobalt.evaluator.rule import Rule
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

_REMEMBERED_TESTS = 20_000  # some 30 MB at most


class SharedVerdicts:
    """Thread-safe. Verdicts of our own faults (`infra_error`) are never remembered or shared."""

    def __init__(self, *, enabled: bool = True, on_shared: Callable[[], None]) -> None:
        self._enabled = enabled
        self._on_shared = on_shared
        self._lock = threading.Lock()
        self._running: dict[bytes, list[Future[ExecutionResult]]] = {}
        self._done: OrderedDict[bytes, ExecutionResult] = OrderedDict()
        self._size = 0

    def request(
        self, code: str, tests: TestCases, rule: Rule, start: Callable[[], Future[ExecutionResult]]
    ) -> Future[ExecutionResult]:
        """A future of the verdict; `start` begins a run, and is called only if no other request does it."""
        if not self._enabled:
            return start()
        key = _key(code, tests, rule)
        mine: Future[ExecutionResult] = Future()
        with self._lock:
            known = self._done.get(key)
            if known is not None:
                self._done.move_to_end(key)
            waiting = self._running.get(key)
            leads = known is None and waiting is None
            if leads:
                self._running[key] = []
            elif waiting is not None:
                waiting.append(mine)
        if known is not None:
            self._share(mine, known)
        elif leads:
            self._lead(key, mine, start)
        return mine

    def _lead(
        self, key: bytes, mine: Future[ExecutionResult], start: Callable[[], Future[ExecutionResult]]
    ) -> None:
        def finish(run: Future[ExecutionResult]) -> None:
            error = run.exception() if not run.cancelled() else None
            good = not run.cancelled() and error is None and run.result()["status"] != "infra_error"
            with self._lock:
                others = self._running.pop(key)
                if good:
                    self._remember(key, run.result())
            _settle(mine, run)
            for other in others:
                if good:
                    self._share(other, run.result())
                else:
                    _settle(other, run)

        try:
            run = start()
        except BaseException:
            with self._lock:
                others = self._running.pop(key)
            for other in others:
                other.cancel()
            raise
        run.add_done_callback(finish)

    def _remember(self, key: bytes, result: ExecutionResult) -> None:
        self._done[key] = copy.deepcopy(result)
        self._size += len(result["passing"]) + 1
        while self._size > _REMEMBERED_TESTS and self._done:
            _, old = self._done.popitem(last=False)
            self._size -= len(old["passing"]) + 1

    def _share(self, future: Future[ExecutionResult], result: ExecutionResult) -> None:
        result = copy.deepcopy(result)
        result["shared"] = True
        self._on_shared()
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _settle(future: Future[ExecutionResult], run: Future[ExecutionResult]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(copy.deepcopy(run.result()))
    except BaseException as error:
        future.set_exception(error)


def _key(code: str, tests: TestCases, rule: Rule) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for part in (code, tests.fn_name or "", repr(rule), json.dumps([tests.inputs, tests.outputs])):
        data = encode(part)
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
