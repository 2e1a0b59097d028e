"""Parts of the evaluator that need no sandbox: requests, shared verdicts, limits, retries."""

import json
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator import base, connect
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.remote import Refused, RemoteEvaluator, Transient
from cobalt.evaluator.request import make_request, parse_request
from cobalt.sandbox.limits import Limits
from cobalt.schema import SKIPPED, SUITE_STATUSES, TEST_STATUSES
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


def test_the_described_interface_names_all_statuses():
    document = json.loads((Path(base.__file__).parent / "openapi.json").read_text())
    schemas = document["components"]["schemas"]
    assert schemas["TestResult"]["properties"]["status"]["enum"] == [*TEST_STATUSES, SKIPPED]
    assert schemas["Verdict"]["properties"]["status"]["enum"] == list(SUITE_STATUSES)
