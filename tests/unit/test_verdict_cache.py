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
    "passing": [True],
    "feedback": ["x"],
    "status": "ok",
    "per_test": [],
    "suite_limit": False,
    "shared": False,
}


class Runs:
    """Counts runs; each ends when told to."""

    def __init__(self, most=20_000):
        self.futures = []
        self.shared = 0
        self.verdicts = VerdictCache(most)

    def _count(self):
        self.shared += 1

    def start(self, tests):
        self.futures.append(Future())
        return self.futures[-1]

    def request(self, code="x", tests=TESTS):
        return self.verdicts.request(code, tests, PUBLISHED, self.start, self._count)


def test_identical_requests_in_flight_run_once():
    runs = Runs()
    requests = [runs.request() for _ in range(3)]
    assert len(runs.futures) == 1
    assert not any(each.done() for each in requests)
    runs.futures[0].set_result(GOOD)
    assert [each.result()["shared"] for each in requests] == [False, True, True]
    assert runs.shared == 2


def test_a_verdict_is_remembered():
    runs = Runs()
    first = runs.request()
    runs.futures[0].set_result(GOOD)
    first.result()["passing"][0] = False  # a caller's own copy
    again = runs.request()
    assert again.result()["passing"] == [True]
    assert again.result()["shared"] is True
    assert len(runs.futures) == 1


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
    runs.request()
    assert len(runs.futures) == 2


def test_an_error_reaches_all_who_wait():
    runs = Runs()
    first, second = runs.request(), runs.request()
    runs.futures[0].set_exception(InfraError("broken"))
    for each in (first, second):
        with pytest.raises(InfraError, match="broken"):
            each.result()


def test_a_caller_that_gives_up_does_not_stop_the_others():
    runs = Runs()
    first, second = runs.request(), runs.request()
    first.cancel()
    runs.futures[0].set_result(GOOD)
    assert second.result()["passing"] == [True]


def test_memory_of_verdicts_is_bounded():
    runs = Runs(most=5)
    for n in range(50):
        runs.request(f"x{n}")
        runs.futures[-1].set_result(GOOD)
    assert len(runs.verdicts._known) == 5
    runs.request("x49")
    runs.request("x0")
    assert len(runs.futures) == 51


class Echo(Evaluator):
    """An evaluator that passes a test whose input equals its output, and notes what it ran."""

    name, isolation = "echo", "none"

    def __init__(self, cache: VerdictCache | None = None, **more: Any) -> None:
        super().__init__(ahead=1, cache=cache)
        self.ran: list[tuple[str, list[str]]] = []
        self.more = more

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        self.ran.append((code, tests.inputs))
        passing = [a == b for a, b in zip(tests.inputs, tests.outputs, strict=True)]
        fact = {"status": "passed", "cpu_s": float(len(self.ran)), "wall_s": 0.0, "returncode": 0}
        future: Future[ExecutionResult] = Future()
        result = {
            "passing": passing,
            "feedback": [f"{code} on {given}" for given in tests.inputs],
            "status": "ok",
            "per_test": [dict(fact) for _ in passing],
            "suite_limit": False,
            "shared": False,
        }
        future.set_result(result | self.more)
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
    assert len(evaluator.ran) == 1
    assert evaluator.counters["shared"] == 3


def test_only_missing_tests_run_and_the_answer_is_in_the_order_asked():
    evaluator = by_test()
    evaluator.evaluate("p", TestCases(["3"], ["3"]))
    found = asyncio.run(evaluator.aevaluate("p", ALL))
    assert evaluator.ran[1] == ("p", ["1", "2", "4"])
    assert plain(found) == plain(Echo().evaluate("p", ALL)) and not found["shared"]
    assert [each["cpu_s"] for each in found["per_test"]] == [2.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("q", ALL),
        ("p", TestCases(["1"], ["other"])),
        ("p", TestCases([["1"]], ["1"], "f")),
    ],
)
def test_another_program_output_or_function_is_another_question(code, tests):
    evaluator = by_test()
    evaluator.evaluate("p", ALL)
    evaluator.evaluate(code, tests)
    assert len(evaluator.ran) == 2


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


def test_a_suite_of_which_the_missing_tests_do_not_run_in_full_is_run_as_one():
    evaluator = by_test()
    evaluator.evaluate("p", PUBLIC)
    evaluator.more = {"suite_limit": True}
    found = evaluator.evaluate("p", ALL)
    assert [inputs for _, inputs in evaluator.ran] == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]
    assert found["suite_limit"] and len(found["passing"]) == 4


def test_no_tests_and_suites_that_stop_early_are_not_put_together():
    evaluator = by_test()
    evaluator.more = {"status": "compile_error"}
    assert evaluator.evaluate("p", TestCases([], []))["status"] == "compile_error"
    evaluator.more = {}
    evaluator.evaluate("p", PUBLIC, rule=Rule(stop_on_first_failure=True))
    evaluator.evaluate("p", TestCases(["1"], ["1"]), rule=Rule(stop_on_first_failure=True))
    assert len(evaluator.ran) == 3
    evaluator.more = {
        "per_test": [{"status": "skipped", "cpu_s": 0.0, "wall_s": 0.0, "returncode": None}] * 2
    }
    evaluator.evaluate("q", PUBLIC)  # a service may stop early by itself
    evaluator.more = {}
    evaluator.evaluate("q", TestCases(["1"], ["1"]))
    assert len(evaluator.ran) == 5


def test_parts_that_together_are_over_the_time_of_a_suite_are_run_as_one():
    """Each test of Echo's n-th request takes n CPU seconds."""
    evaluator = by_test(suite_s=5.0)
    evaluator.evaluate("p", PUBLIC)  # 2 x 1 s
    evaluator.evaluate("p", HIDDEN)  # 2 x 2 s
    evaluator.evaluate("p", ALL)
    assert [inputs for _, inputs in evaluator.ran] == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]
    evaluator = by_test(suite_s=2.5)
    evaluator.evaluate("p", PUBLIC)
    evaluator.evaluate("p", ALL)
    assert [inputs for _, inputs in evaluator.ran] == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]


def test_no_code_is_not_run():
    evaluator = by_test()
    assert evaluator.evaluate(None, ALL)["status"] == "no_code" and evaluator.ran == []


def test_memory_is_bounded_and_old_verdicts_are_forgotten_first():
    evaluator = by_test(4)
    evaluator.evaluate("old", ALL)
    assert plain(evaluator.evaluate("new", ALL)) == plain(Echo().evaluate("new", ALL))
    evaluator.evaluate("new", ALL)
    assert len(evaluator.ran) == 2
    evaluator.evaluate("old", PUBLIC)
    assert len(evaluator.ran) == 3


def test_answers_do_not_share_their_parts():
    evaluator = by_test()
    first = evaluator.evaluate("p", ALL)
    first["per_test"][0]["status"] = "spoilt"
    first["passing"][0] = False
    second = evaluator.evaluate("p", ALL)
    second["per_test"][1]["status"] = "spoilt"
    assert plain(evaluator.evaluate("p", ALL)) == plain(Echo().evaluate("p", ALL))


def test_a_run_that_cannot_be_started_is_an_error_for_all_who_ask():
    runs = Runs()

    def fail(tests):
        raise InfraError("closed")

    runs.start = fail
    for _ in range(2):
        with pytest.raises(InfraError, match="closed"):
            runs.request().result()


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
