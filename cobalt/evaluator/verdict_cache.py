"""Verdicts that are known already, or under way: a program is not run again for them, whoever asks."""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from cobalt.evaluator.checker import Rule, encode
from cobalt.sandbox.limits import Limits
from cobalt.schema import SKIPPED, ExecutionResult
from cobalt.testcases import TestCases

Start = Callable[[TestCases], Future[ExecutionResult]]


@dataclass
class _Request:
    """`whole`: the key of the suite; `each`: those of its tests, empty where they are not kept one by one."""

    tests: TestCases
    whole: bytes
    each: list[bytes]
    start: Start
    on_shared: Callable[[], None]


class VerdictCache:
    """Hands a verdict to all who ask for it. Thread-safe; for one evaluator.

    Suites are remembered as they were asked for, or, `by_test`, test by test: then only what is missing of a
    suite is run, and its verdict put together. Tests whose time together is over that of a suite (`limits`)
    are run as one all the same: that suite has another verdict than its parts. `most` tests are kept (20,000
    are some 30 MB), then the oldest are forgotten. Verdicts of our own faults (`infra_error`) are neither
    remembered nor shared.
    """

    def __init__(self, most: int = 20_000, *, by_test: bool = False, limits: Limits | None = None) -> None:
        self._most = most
        self._by_test = by_test
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._waiting: dict[bytes, list[Future[ExecutionResult]]] = {}
        self._known: OrderedDict[bytes, ExecutionResult] = OrderedDict()
        self._size = 0

    def request(
        self, code: str, tests: TestCases, rule: Rule | None, start: Start, on_shared: Callable[[], None]
    ) -> Future[ExecutionResult]:
        """A future of the verdict. `start` begins a run of the tests it is given, where one is needed.

        `on_shared` is called for each verdict that needed no run of its own.
        """
        by_test = self._by_test and not (rule and rule.stop_on_first_failure)
        request = _Request(tests, *_keys(code, tests, rule, by_test=by_test), start, on_shared)
        mine: Future[ExecutionResult] = Future()
        with self._lock:
            parts = self._recall(request)
            known = None if None in parts else self._joined([part for part in parts if part is not None])
            first = known is None and request.whole not in self._waiting
            if known is None:
                self._waiting.setdefault(request.whole, []).append(mine)
        if known is not None:
            _give(mine, known, request.on_shared)
        elif first:
            self._run(request, parts if None in parts else [None] * len(parts))
        return mine

    def _recall(self, request: _Request) -> list[ExecutionResult | None]:
        """The suite, or if that is not known its tests, as far as they are."""
        keys = request.each if request.each and request.whole not in self._known else [request.whole]
        found = [self._known.get(key) for key in keys]
        for key, result in zip(keys, found, strict=True):
            if result is not None:
                self._known.move_to_end(key)
        return found

    def _joined(self, parts: list[ExecutionResult]) -> ExecutionResult | None:
        """One verdict of a suite's, or of its tests'; None if these are over the time of a suite together."""
        if len(parts) == 1:
            return parts[0]
        facts = [test for part in parts for test in part["per_test"]]
        if sum(test["cpu_s"] for test in facts) >= self._limits.suite_s:
            return None
        if sum(test["wall_s"] for test in facts) >= self._limits.suite_wall_s:
            return None
        return {
            "passing": [part["passing"][0] for part in parts],
            "feedback": [part["feedback"][0] for part in parts],
            "status": "ok",
            "per_test": facts,
            "suite_limit": False,
            "shared": False,
        }

    def _run(self, request: _Request, parts: list[ExecutionResult | None]) -> None:
        """Run what is None in `parts`: the suite, or those of its tests."""
        missing = [place for place, part in enumerate(parts) if part is None]
        some = len(missing) < len(parts)
        tests = request.tests
        if some:
            inputs, outputs = (
                [column[place] for place in missing] for column in (tests.inputs, tests.outputs)
            )
            tests = TestCases(inputs, outputs, tests.fn_name)

        def finish(run: Future[ExecutionResult]) -> None:
            try:
                found = run.result()
                ran = _by_test(found) if request.each else None
                if ran:
                    self._keep(zip([request.each[place] for place in missing], ran, strict=True))
                elif not some and found["status"] != "infra_error":
                    self._keep([(request.whole, found)])
                if some:
                    rest = iter(ran or ())
                    joined = self._joined([part or next(rest) for part in parts]) if ran else None
                    if joined is None:
                        self._run(request, [None] * len(parts))
                        return
                    found = joined
                self._settle(request, found)
            except BaseException as error:  # that of a run that was cancelled too
                self._settle(request, error)

        try:
            run = request.start(tests)
        except BaseException as error:
            self._settle(request, error)
        else:
            run.add_done_callback(finish)

    def _keep(self, results: Iterable[tuple[bytes, ExecutionResult]]) -> None:
        with self._lock:
            for key, result in results:
                old = self._known.pop(key, None)
                self._known[key] = copy.deepcopy(result)
                self._size += _weight(result) - (_weight(old) if old else 0)
            while self._size > self._most and self._known:
                self._size -= _weight(self._known.popitem(last=False)[1])

    def _settle(self, request: _Request, outcome: ExecutionResult | BaseException) -> None:
        with self._lock:
            waiting = self._waiting.pop(request.whole)
        for place, future in enumerate(waiting):
            if isinstance(outcome, BaseException):
                if future.set_running_or_notify_cancel():
                    future.set_exception(outcome)
            else:
                shared = place > 0 and outcome["status"] != "infra_error"
                _give(future, outcome, request.on_shared if shared else None)


def _weight(result: ExecutionResult) -> int:
    return max(1, len(result["passing"]))


def _give(
    future: Future[ExecutionResult], result: ExecutionResult, on_shared: Callable[[], None] | None
) -> None:
    result = copy.deepcopy(result)
    result["shared"] = on_shared is not None
    if on_shared is not None:
        on_shared()
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _by_test(result: ExecutionResult) -> list[ExecutionResult] | None:
    """The verdict of each test; None where the program did not run on all of them."""
    count = len(result["per_test"])
    ran = all(test["status"] != SKIPPED for test in result["per_test"])
    if result["status"] != "ok" or result["suite_limit"] or count != len(result["passing"]) or not ran:
        return None
    columns = zip(result["passing"], result["feedback"], result["per_test"], strict=True)
    return [
        {**result, "passing": [passed], "feedback": [text], "per_test": [test]}
        for passed, text, test in columns
    ]


def _keys(code: str, tests: TestCases, rule: Rule | None, *, by_test: bool) -> tuple[bytes, list[bytes]]:
    """The key of a suite, and if asked for those of its tests."""
    head = hashlib.blake2b(digest_size=20)
    for part in (code, tests.fn_name or "", repr(rule)):
        data = encode(part)
        head.update(len(data).to_bytes(8, "little") + data)

    def key(values: object) -> bytes:
        digest = head.copy()
        digest.update(json.dumps(values).encode())
        return digest.digest()

    pairs = zip(tests.inputs, tests.outputs, strict=True) if by_test else ()
    return key([tests.inputs, tests.outputs]), [key(pair) for pair in pairs]
