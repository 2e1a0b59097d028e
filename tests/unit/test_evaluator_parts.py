"""Requests and the clients of a service: what travels, what is sent again, what is an error in the end."""

import json
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator import base, connect
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.remote import Refused, RemoteEvaluator, Transient
from cobalt.evaluator.requests import make_request, parse_request
from cobalt.schema import SKIPPED, SUITE_STATUSES, TEST_STATUSES
from cobalt.testcases import TestCases

TESTS = TestCases(["1"], ["2"])
GOOD = {
    "passing": [True], "feedback": ["x"], "status": "ok", "per_test": [], "suite_limit": False,
    "shared": False,
}  # fmt: skip
EMPTY = {"code": "x", "test_cases": {"inputs": [], "outputs": []}}


def test_requests_are_read_as_published(caplog):
    tests = {"inputs": ["1"], "outputs": ["2"]}
    assert parse_request({"code": None, "test_cases": '{"inputs": [], "outputs": []}'})[0] is None
    for _ in range(3):
        assert parse_request({"code": "x", "test_cases": tests, "extra": 1}) == ("x", TESTS, PUBLISHED)
    (record,) = caplog.records
    assert "unknown keys" in record.getMessage() and "'extra'" in record.getMessage()


def test_a_rule_travels_with_a_request_or_is_the_service_s_own():
    own, asked = Rule("lines", stop_on_first_failure=True), Rule("float(1e-3, 0)")
    assert parse_request(make_request("x", TESTS, asked), rule=own) == ("x", TESTS, asked)
    assert parse_request(make_request("x", TESTS), rule=own) == ("x", TESTS, own)


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
        (EMPTY | {"compare": 3}, "'compare'"),
        (EMPTY | {"compare": "x"}, "request: 'compare'"),
        (EMPTY | {"stop_on_first_failure": "yes"}, "'stop_on_first_failure'"),
    ],
)
def test_a_wrong_shape_is_named(value, named):
    with pytest.raises(BadRequest) as caught:
        parse_request(value)
    assert named in str(caught.value)


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
        time.sleep(0.01)
        self.sizes.append(len(requests))
        return [GOOD | {"feedback": [request["code"]]} for request in requests]


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(RemoteEvaluator, "_pause", lambda self, seconds: None)


@pytest.mark.parametrize(("failures", "error"), [(5, Transient), (500, Refused)])
def test_a_failed_request_is_sent_again_and_a_full_service_asked_until_it_has_room(
    no_pauses, failures, error
):
    with Flaky(failures, error) as evaluator:
        assert evaluator.evaluate("x", TESTS)["passing"] == [True]
        assert evaluator.counters["infra_errors"] == 0


@pytest.mark.parametrize(
    ("failures", "error", "told"),
    [(6, Transient, "failed 6 times: busy"), (10**9, Refused, "refused requests")],
)
def test_a_service_that_stays_dead_or_full_is_an_error_and_no_verdict(
    no_pauses, monkeypatch, failures, error, told
):
    monkeypatch.setattr("cobalt.evaluator.remote._REFUSED_S", 0.05)
    with Flaky(failures, error) as evaluator:
        with pytest.raises(InfraError, match=told):
            evaluator.evaluate("x", TESTS)
        assert evaluator.counters["infra_errors"] == 1


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
    with Flaky(0) as evaluator:
        results = list(evaluator.evaluate_many((str(n), TESTS) for n in range(300)))
        assert [result["feedback"] for result in results] == [[str(n)] for n in range(300)]
        assert sum(evaluator.sizes) == 300 and 8 <= max(evaluator.sizes) <= 16 and len(evaluator.sizes) < 60


def test_a_bad_request_is_not_sent_and_readiness_is_a_right_verdict(no_pauses):
    with Flaky(1) as evaluator:
        with pytest.raises(BadRequest):
            evaluator.evaluate("x", {"inputs": ["1"]})
        assert evaluator.failures == 1
        evaluator.wait_ready(5)
        assert evaluator.sizes == [1]


def test_the_described_interface_names_all_statuses():
    document = json.loads((Path(base.__file__).parent / "openapi.json").read_text())
    schemas = document["components"]["schemas"]
    assert schemas["TestResult"]["properties"]["status"]["enum"] == [*TEST_STATUSES, SKIPPED]
    assert schemas["Verdict"]["properties"]["status"]["enum"] == list(SUITE_STATUSES)
