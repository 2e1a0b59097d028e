"""Parts of the evaluator that need no sandbox: requests, shared verdicts, limits, retries."""

from concurrent.futures import Future

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator import connect
from cobalt.evaluator.remote import RemoteEvaluator, Transient
from cobalt.evaluator.request import make_request, parse_request
from cobalt.evaluator.sharing import SharedVerdicts
from cobalt.records import TestCases
from cobalt.sandbox.policy import Limits

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
        return self.verdicts.request(code, tests, self.start)


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
    code, tests = parse_request({"code": "x", "test_cases": {"inputs": ["1"], "outputs": ["2"]}, "extra": 1})
    assert (code, tests) == ("x", TESTS)
    assert parse_request({"code": None, "test_cases": '{"inputs": [], "outputs": []}'})[0] is None
    assert parse_request(make_request("x", TESTS)) == ("x", TESTS)


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
    [{"cpu_s": 0}, {"cpu_s": 4, "wall_s": 3}, {"cpu_s": 30}, {"memory_bytes": 1}, {"suite_s": -1}],
)
def test_limits_that_cannot_work_are_refused(values):
    with pytest.raises(ValueError, match="limits"):
        Limits(**values)


def test_limits_are_nested():
    limits = Limits()
    assert limits.cpu_s < limits.wall_limit_s
    assert limits.cpu_s < limits.suite_s < limits.suite_wall_s


def test_an_unknown_evaluator_is_refused():
    with pytest.raises(InputError, match="auto, local, local:LEVEL, serve or a URL"):
        connect("somewhere")


class Flaky(RemoteEvaluator):
    """Fails `failures` times, then answers."""

    def __init__(self, failures):
        super().__init__("nowhere")
        self.failures = failures

    def _send(self, request, seconds):
        if self.failures:
            self.failures -= 1
            raise Transient("busy")
        return [GOOD] * len(request) if isinstance(request, list) else GOOD


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.remote.time.sleep", lambda seconds: None)


def test_a_refused_request_is_sent_again(no_pauses):
    with Flaky(5) as evaluator:
        assert evaluator.evaluate("x", TESTS)["passing"] == [True]
        assert evaluator.counters["infra_errors"] == 0


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
