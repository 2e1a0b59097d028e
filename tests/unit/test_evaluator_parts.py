"""Parts of the evaluator that need no sandbox: requests, shared verdicts, limits, retries."""

import time
from concurrent.futures import CancelledError, Future

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator import connect
from cobalt.evaluator.output import Output, encode
from cobalt.evaluator.remote import Refused, RemoteEvaluator, Transient
from cobalt.evaluator.request import make_request, parse_request
from cobalt.evaluator.rule import PUBLISHED, Rule
from cobalt.evaluator.sharing import SharedVerdicts
from cobalt.sandbox.policy import Limits
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

    def __init__(self):
        self.futures = []
        self.shared = 0
        self.verdicts = SharedVerdicts(on_shared=self._count)

    def _count(self):
        self.shared += 1

    def start(self):
        self.futures.append(Future())
        return self.futures[-1]

    def request(self, code="x", tests=TESTS):
        return self.verdicts.request(code, tests, PUBLISHED, self.start)


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


def test_memory_of_verdicts_is_bounded(monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.sharing._REMEMBERED_TESTS", 10)
    runs = Runs()
    for n in range(50):
        runs.request(f"x{n}")
        runs.futures[-1].set_result(GOOD)
    assert len(runs.verdicts._done) == 5
    runs.request("x49")
    runs.request("x0")
    assert len(runs.futures) == 51


def test_requests_are_read_as_published():
    tests = {"inputs": ["1"], "outputs": ["2"]}
    assert parse_request({"code": "x", "test_cases": tests}) == ("x", TESTS, PUBLISHED)
    assert parse_request({"code": None, "test_cases": '{"inputs": [], "outputs": []}'})[0] is None
    assert parse_request(make_request("x", TESTS)) == ("x", TESTS, PUBLISHED)


def test_unknown_keys_are_ignored_with_one_warning(caplog):
    request = {"code": "x", "test_cases": {"inputs": ["1"], "outputs": ["2"]}, "extra": 1, "time": 2}
    with caplog.at_level("WARNING"):
        assert [parse_request(request)[1] for _ in range(3)] == [TESTS] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "ignoring unknown keys of a request: 'extra', 'time'"
    ]


def test_a_rule_travels_with_a_request_or_is_the_service_s_own():
    own = Rule("lines", stop_on_first_failure=True)
    asked = Rule("float(1e-3, 0)")
    assert parse_request(make_request("x", TESTS, asked), rule=own)[2] == asked
    assert parse_request(make_request("x", TESTS), rule=own)[2] == own


@pytest.mark.parametrize(
    ("compare", "stdout", "expected", "equal"),
    [
        ("strip", " 1 2\n", "1 2", True),
        ("strip", "1  2", "1 2", False),
        ("strip", "1 \n2", "1\n2", False),
        ("lines", "1 \n2\t\n\n", "1\n2", True),
        ("lines", "1\n\n2", "1\n2", False),
        ("lines", "x\n 1\n2", "x\n1\n2", False),
        ("tokens", "1\n2   3", "1 2\n3", True),
        ("tokens", "1 2 3 4", "1 2 3", False),
        ("tokens", "1.0", "1", False),
        ("float", "1.0000004 yes", "1 yes", True),
        ("float", "1.1", "1", False),
        ("float", "1 no", "1 yes", False),
        ("float(0.1, 0)", "109", "100", True),
        ("float(0.1, 0)", "91", "100", True),
        ("float(0.1, 0)", "112", "100", False),
        ("float( 0 , 2 )", "102", "100", True),
        ("float(0,2)", "103", "100", False),
        ("float(1,1)", "nan", "1", False),
        ("float(1,1)", "inf", "1", False),
        ("float(1,1)", "1e999", "1", False),
        ("float(1,1)", "1", "1e999", False),
        ("float(1,1)", "1_0", "10", False),
        ("float(1,1)", "nan", "nan", True),
        ("float", "9" * 500, "9" * 499 + "8", False),
        ("float", "٣", "3", False),
    ],
)
def test_rules_of_comparison(compare, stdout, expected, equal):
    assert Rule(compare).accepts(Output(encode(stdout)), expected) is equal


@pytest.mark.parametrize("compare", ["", "Strip", "float()", "float(1)x", "float(-1, 0)", "float(nan, 0)"])
def test_an_unknown_rule_is_refused(compare):
    with pytest.raises(BadRequest, match="must be strip, lines, tokens or float"):
        Rule(compare)


@pytest.mark.parametrize(
    ("more", "named"),
    [({"compare": 3}, "'compare'"), ({"compare": "x"}, "request: 'compare'"),
     ({"stop_on_first_failure": "yes"}, "'stop_on_first_failure'")],
)  # fmt: skip
def test_a_wrong_rule_in_a_request_is_named(more, named):
    with pytest.raises(BadRequest) as caught:
        parse_request({"code": "x", "test_cases": {"inputs": [], "outputs": []}} | more)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (3, "object"),
        ({}, "'code'"),
        ({"code": 3, "test_cases": {}}, "'code'"),
        ({"code": "x"}, "'test_cases'"),
        ({"code": "x", "test_cases": {"outputs": []}}, "'inputs'"),
        ({"code": "x", "test_cases": {"inputs": "1", "outputs": []}}, "'inputs'"),
        ({"code": "x", "test_cases": {"inputs": ["1"], "outputs": [2]}}, "outputs[0]"),
    ],
)
def test_a_wrong_shape_is_named(value, named):
    with pytest.raises(BadRequest) as caught:
        parse_request(value)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"cpu_s": 0},
        {"cpu_s": 4, "wall_s": 3},
        {"cpu_s": 120},
        {"memory_bytes": 1},
        {"suite_s": -1},
        {"stack_bytes": 1},
    ],
)
def test_limits_that_cannot_work_are_refused(values):
    with pytest.raises(ValueError, match="limits"):
        Limits(**values)


def test_limits_are_nested():
    limits = Limits()
    assert limits.cpu_s < limits.wall_limit_s
    assert limits.cpu_s < limits.suite_s < limits.suite_wall_s


def test_an_unknown_evaluator_is_refused():
    with pytest.raises(InputError, match="auto, local, local:LEVEL, "):
        connect("somewhere")


class Flaky(RemoteEvaluator):
    """Fails `failures` times, then answers."""

    def __init__(self, failures, error=Transient):
        super().__init__("nowhere")
        self.failures, self.error, self.sizes = failures, error, []

    def _send(self, requests, seconds):
        if self.failures:
            self.failures -= 1
            raise self.error("busy")
        self.sizes.append(len(requests))
        return [GOOD | {"feedback": [request["code"]]} for request in requests]


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(RemoteEvaluator, "_pause", lambda self, seconds: None)


def test_a_failed_request_is_sent_again(no_pauses):
    with Flaky(5) as evaluator:
        assert evaluator.evaluate("x", TESTS)["passing"] == [True]
        assert evaluator.counters["infra_errors"] == 0


def test_a_full_service_is_asked_until_it_has_room(no_pauses):
    with Flaky(500, Refused) as evaluator:
        assert evaluator.evaluate("x", TESTS)["passing"] == [True]
        assert evaluator.counters["infra_errors"] == 0


def test_a_service_that_stays_full_is_an_error_in_the_end(no_pauses, monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.remote._REFUSED_S", 0.05)
    with Flaky(10**9, Refused) as evaluator, pytest.raises(InfraError, match="refused requests"):
        evaluator.evaluate("x", TESTS)


def test_closing_ends_the_waiting():
    evaluator = Flaky(10**9, Refused)
    futures = [evaluator.submit("x", TESTS) for _ in range(100)]
    evaluator.close()
    for future in futures:
        with pytest.raises((InfraError, CancelledError)):
            future.result(timeout=10)
    with pytest.raises(InfraError, match="closed"):
        evaluator.submit("x", TESTS)


def test_programs_that_wait_travel_together_and_come_back_in_order(monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.remote._REQUESTS_AT_ONCE", 2)

    class Slow(Flaky):
        def _send(self, requests, seconds):
            time.sleep(0.01)
            return super()._send(requests, seconds)

    with Slow(0) as evaluator:
        results = list(evaluator.evaluate_many((str(n), TESTS) for n in range(300)))
        assert [result["feedback"] for result in results] == [[str(n)] for n in range(300)]
        assert sum(evaluator.sizes) == 300
        assert 8 <= max(evaluator.sizes) <= 16
        assert len(evaluator.sizes) < 60


def test_a_dead_service_is_an_error_and_no_verdict(no_pauses):
    with Flaky(6) as evaluator:
        with pytest.raises(InfraError, match="failed 6 times: busy"):
            evaluator.evaluate("x", TESTS)
        assert evaluator.counters["infra_errors"] == 1


def test_a_bad_request_is_not_sent(no_pauses):
    with Flaky(0) as evaluator, pytest.raises(BadRequest):
        evaluator.evaluate("x", {"inputs": ["1"]})


def test_readiness_is_a_right_verdict(no_pauses):
    with Flaky(1) as evaluator:
        evaluator.wait_ready(5)


def test_batches_keep_their_order_and_number(no_pauses):
    with Flaky(0) as evaluator:
        assert len(list(evaluator.evaluate_many([("x", TESTS)] * 37))) == 37
