"""The evaluator service on a real Ray Serve: handle, HTTP and `connect`, in one Ray session."""

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from serve_session import application, free_port, ray_session

from cobalt.cluster import READY_S, READY_VARIABLE
from cobalt.errors import BadRequest, InfraError
from cobalt.evaluator import connect
from cobalt.evaluator.remote import HttpEvaluator

pytestmark = pytest.mark.slow

ADD = "print(sum(map(int, input().split())))"
TESTS = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3", "8"]}
PORT = free_port()
URL = f"http://127.0.0.1:{PORT}/evaluator"


@pytest.fixture(scope="module")
def handle() -> Iterator[Any]:
    with ray_session(), application(PORT, workers=2, cpus_per_replica=0.5) as opened:
        yield opened


def post(body: bytes) -> tuple[int, Any]:
    request = urllib.request.Request(URL, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_published_request_through_a_handle_and_over_http(handle: Any) -> None:
    request = {"code": ADD, "test_cases": TESTS}
    result = handle.remote(request).result(timeout_s=120)
    assert result["passing"] == [True, False] and result["status"] == "ok"
    assert result["feedback"][1] == "Input:\n3 4\nProgram's Output:\n7\nExpected Output:\n8"
    status, result = post(json.dumps(request).encode())
    assert status == 200
    assert [test["status"] for test in result["per_test"]] == ["passed", "wrong_answer"]


def test_a_list_is_answered_with_a_list_in_order(handle: Any) -> None:
    codes = [f"print({n})" for n in range(6)]
    tests = {"inputs": [""], "outputs": ["3"]}
    status, results = post(json.dumps([{"code": code, "test_cases": tests} for code in codes]).encode())
    assert status == 200
    assert [result["passing"] for result in results] == [[n == 3] for n in range(6)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "JSON"),
        (b'{"code": "x"}', "'test_cases'"),
        (b'{"code": "x", "test_cases": {"inputs": ["1"], "outputs": []}}', "1 inputs but 0 outputs"),
        (b'[{"code": "x", "test_cases": {"inputs": [], "outputs": []}}, 3]', "request[1]"),
    ],
)
def test_a_wrong_shape_is_refused_and_named(handle: Any, body: bytes, field: str) -> None:
    status, answer = post(body)
    assert status == 422
    assert field in answer["error"]


def test_connect_finds_the_application(handle: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with connect("auto") as evaluator:
        assert "Ray Serve application" in capsys.readouterr().err
        assert evaluator.evaluate(ADD, TESTS)["passing"] == [True, False]
        assert evaluator.evaluate(None, TESTS)["status"] == "no_code"
        many = list(
            evaluator.evaluate_many((f"print({n})", {"inputs": [""], "outputs": ["7"]}) for n in range(40))
        )
        assert [result["passing"] for result in many] == [[n == 7] for n in range(40)]
        with pytest.raises(BadRequest, match="outputs"):
            evaluator.evaluate(ADD, {"inputs": ["1"]})


def test_connect_by_url(handle: Any) -> None:
    with connect(f"http://127.0.0.1:{PORT}") as evaluator:
        lone = {"inputs": ["\ud800\n"], "outputs": ["\ud800"]}
        assert evaluator.evaluate("print(input())", lone)["passing"] == [True]

        async def both() -> list[Any]:
            return await asyncio.gather(*(evaluator.aevaluate(ADD, TESTS) for _ in range(2)))

        assert [result["passing"] for result in asyncio.run(both())] == [[True, False]] * 2


def test_an_evaluator_inside_an_actor(handle: Any) -> None:
    import ray

    @ray.remote(num_cpus=0.1)
    class Judge:
        def judge(self) -> list[bool]:
            with connect("local", workers=1) as evaluator:
                return evaluator.evaluate(ADD, TESTS)["passing"]

    assert ray.get(Judge.remote().judge.remote(), timeout=120) == [True, False]


def test_an_unreachable_service_is_an_error_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cobalt.evaluator.remote.RemoteEvaluator._pause", lambda self, seconds: None)
    with HttpEvaluator("http://127.0.0.1:9") as evaluator:
        with pytest.raises(InfraError, match="failed"):
            evaluator.evaluate(ADD, TESTS)
        assert evaluator.counters["infra_errors"] == 1


def test_serve_gets_time_to_start_before_ray_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve run` builds the application first; what the environment already says is left."""
    from cobalt.evaluator.service import Settings, app

    monkeypatch.delenv(READY_VARIABLE, raising=False)
    app(Settings())
    assert os.environ[READY_VARIABLE] == READY_S
    monkeypatch.setenv(READY_VARIABLE, "7")
    app(Settings())
    assert os.environ[READY_VARIABLE] == "7"
