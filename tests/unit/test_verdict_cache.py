"""Verdicts that are shared and remembered, suite by suite or test by test: the same answers, fewer runs."""

import asyncio
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from cobalt.errors import InfraError
from cobalt.evaluator import Evaluator
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.sandbox.limits import Limits
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

TESTS = TestCases(["1"], ["2"])
GOOD = {
    "passing": [True], "feedback": ["x"], "status": "ok", "per_test": [], "suite_limit": False,
    "shared": False,
}  # fmt: skip


class Runs:
    """Counts runs; each ends when told to."""

    def __init__(self, most=20_000):
        self.futures, self.shared = [], 0
        self.verdicts = VerdictCache(most)

    def _count(self):
        self.shared += 1

    def start(self, tests):
        self.futures.append(Future())
        return self.futures[-1]

    def request(self, code="x", tests=TESTS):
        return self.verdicts.request(code, tests, PUBLISHED, self.start, self._count)


def test_identical_requests_run_once_at_the_same_time_and_later():
    runs = Runs()
    requests = [runs.request() for _ in range(4)]
    requests.pop().cancel()  # a caller that gives up does not stop the others
    assert len(runs.futures) == 1 and not any(each.done() for each in requests)
    runs.futures[0].set_result(GOOD)
    assert [each.result()["shared"] for each in requests] == [False, True, True]
    requests[0].result()["passing"][0] = False  # a caller's own copy
    again = runs.request().result()
    assert again["passing"] == [True] and again["shared"] and len(runs.futures) == 1 and runs.shared == 4


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("y", TESTS),
        ("x", TestCases(["1"], ["3"])),
        ("x", TestCases(["2"], ["2"])),
        ("x", TestCases(["1"], ["2"], "f")),
        ("x", TestCases(["1", "1"], ["2", "2"])),
        ("x\ud800", TESTS),
    ],
)
def test_any_difference_is_another_request(code, tests):
    runs = Runs()
    runs.request()
    runs.request(code, tests)
    assert len(runs.futures) == 2


def test_our_own_faults_are_not_shared_or_remembered():
    runs = Runs()
    first, second = runs.request(), runs.request()
    runs.futures[0].set_result(GOOD | {"status": "infra_error", "passing": [False]})
    assert first.result()["status"] == second.result()["status"] == "infra_error"
    assert second.result()["shared"] is False
    first, second = runs.request(), runs.request()
    runs.futures[1].set_exception(InfraError("broken"))
    runs.start = lambda tests: (_ for _ in ()).throw(InfraError("broken"))
    for each in (first, second, runs.request(), runs.request()):
        with pytest.raises(InfraError, match="broken"):
            each.result()


class Echo(Evaluator):
    """Passes a test whose input equals its output; a test of its n-th run takes n CPU seconds."""

    name, isolation = "echo", "none"

    def __init__(self, cache: VerdictCache | None = None, **more: Any) -> None:
        super().__init__(ahead=1, cache=cache)
        self.ran: list[list[str]] = []
        self.more = more

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        self.ran.append(tests.inputs)
        passing = [a == b for a, b in zip(tests.inputs, tests.outputs, strict=True)]
        fact = {"status": "passed", "cpu_s": float(len(self.ran)), "wall_s": 0.0, "returncode": 0}
        future: Future[ExecutionResult] = Future()
        result = {
            "passing": passing,
            "feedback": [f"{code} on {given}" for given in tests.inputs],
            "per_test": [dict(fact) for _ in passing],
        }
        future.set_result(GOOD | result | self.more)
        return future

    def close(self) -> None:
        pass


def by_test(most: int = 200_000, suite_s: float = 108.0) -> Echo:
    return Echo(VerdictCache(most, by_test=True, limits=Limits(suite_s=suite_s, cpu_s=1.0)))


ALL = TestCases(["1", "2", "3", "4"], ["1", "x", "3", "4"])
PUBLIC, HIDDEN = TestCases(["1", "2"], ["1", "x"]), TestCases(["3", "4"], ["3", "4"])


def plain(result: ExecutionResult) -> tuple[Any, ...]:
    facts = [each["status"] for each in result["per_test"]]
    return result["passing"], result["feedback"], result["status"], facts


def test_parts_of_a_known_suite_are_not_run_again():
    evaluator = by_test()
    evaluator.evaluate("p", ALL)
    for part in (PUBLIC, HIDDEN, TestCases(["4", "1"], ["4", "1"])):
        found = evaluator.evaluate("p", part)
        assert plain(found) == plain(Echo().evaluate("p", part)) and found["shared"]
        found["per_test"][0]["status"] = "spoilt"  # a caller's own copy
    assert len(evaluator.ran) == 1 and evaluator.counters["shared"] == 3
    for code, tests in (
        ("q", ALL),
        ("p", TestCases(["1"], ["other"])),
        ("p", TestCases([["1"]], ["1"], "f")),
    ):
        assert not evaluator.evaluate(code, tests)["shared"]
    assert evaluator.evaluate(None, ALL)["status"] == "no_code" and len(evaluator.ran) == 4


def test_only_missing_tests_run_and_the_answer_is_in_the_order_asked():
    evaluator = by_test()
    evaluator.evaluate("p", TestCases(["3"], ["3"]))
    found = asyncio.run(evaluator.aevaluate("p", ALL))
    assert evaluator.ran[1] == ["1", "2", "4"]
    assert plain(found) == plain(Echo().evaluate("p", ALL)) and not found["shared"]
    assert [each["cpu_s"] for each in found["per_test"]] == [2.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("more", "runs"),
    [({"status": "infra_error"}, 2), ({"status": "compile_error"}, 1), ({"suite_limit": True}, 1)],
)
def test_a_suite_that_did_not_run_in_full_is_remembered_as_one_unless_the_fault_was_ours(more, runs):
    evaluator = by_test()
    evaluator.more = more
    for _ in range(2):
        assert plain(evaluator.evaluate("p", ALL)) == plain(Echo(**more).evaluate("p", ALL))
    assert len(evaluator.ran) == runs
    evaluator.more = {}
    assert evaluator.evaluate("p", PUBLIC)["shared"] is False
    evaluator.more = {"suite_limit": True}  # the missing tests do not run in full: the suite runs as one
    evaluator.evaluate("q", PUBLIC)
    evaluator.more = {}
    assert len(evaluator.evaluate("q", ALL)["passing"]) == 4 and evaluator.ran[-1] == ALL.inputs


def test_suites_that_stop_early_are_not_put_together():
    evaluator = by_test()
    for tests in (PUBLIC, TestCases(["1"], ["1"])):
        evaluator.evaluate("p", tests, rule=Rule(stop_on_first_failure=True))
    skipped = {"status": "skipped", "cpu_s": 0.0, "wall_s": 0.0, "returncode": None}
    evaluator.more = {"per_test": [skipped] * 2}
    evaluator.evaluate("q", PUBLIC)  # a service may stop early by itself
    evaluator.more = {}
    evaluator.evaluate("q", TestCases(["1"], ["1"]))
    assert len(evaluator.ran) == 4


@pytest.mark.parametrize(("suite_s", "parts"), [(5.0, (PUBLIC, HIDDEN)), (2.5, (PUBLIC,))])
def test_parts_that_together_are_over_the_time_of_a_suite_are_run_as_one(suite_s, parts):
    evaluator = by_test(suite_s=suite_s)
    for part in parts:
        evaluator.evaluate("p", part)
    evaluator.evaluate("p", ALL)
    assert evaluator.ran == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]


def test_memory_is_bounded_and_old_verdicts_are_forgotten_first():
    evaluator = by_test(4)
    for code in ("old", "new", "new"):
        evaluator.evaluate(code, ALL)
    assert len(evaluator.ran) == 2
    evaluator.evaluate("old", PUBLIC)
    assert len(evaluator.ran) == 3


class Faulty(Echo):
    """Judges in threads, a little later; now and then it fails, or has no verdict."""

    def __init__(self, cache: VerdictCache) -> None:
        super().__init__(cache)
        self.threads, self.dice = ThreadPoolExecutor(4), random.Random(1)

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        return self.threads.submit(self._judge, code, tests)

    def _judge(self, code: str, tests: TestCases) -> ExecutionResult:
        time.sleep(0.001 * self.dice.random())
        kind = self.dice.choice(["fails", "infra_error", *["ok"] * 8])
        if kind == "fails":
            raise OSError("lost")
        result = super()._start(code, tests, None).result()
        result["per_test"] = [{**each, "cpu_s": 1.0} for each in result["per_test"]]
        return result | {"status": kind, "suite_limit": len(tests) > 5}


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("most", [8, 1000])
def test_whoever_asks_at_once_gets_the_verdict_of_what_was_asked(each, most):
    evaluator = Faulty(VerdictCache(most, by_test=each, limits=Limits(suite_s=5.5)))

    def ask(seed):
        dice = random.Random(seed)
        inputs = [str(dice.randint(0, 5)) for _ in range(dice.randint(0, 7))]
        tests, code = TestCases(inputs, [dice.choice([each, "x"]) for each in inputs]), dice.choice("pq")
        try:
            found = evaluator.evaluate(code, tests)
        except OSError:
            return
        if found["status"] == "infra_error":
            assert not found["shared"]
            return
        assert plain(found) == plain(Echo().evaluate(code, tests))
        assert found["suite_limit"] is (len(inputs) > 5)

    with evaluator.threads, ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(600)))
    assert evaluator.counters["shared"] > 0 and not evaluator.cache._waiting
    assert sum(max(1, len(each["passing"])) for each in evaluator.cache._known.values()) <= most
