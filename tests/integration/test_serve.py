"""The evaluator service on a real Ray Serve: handle, HTTP, `connect`; full queue, token, metrics, lost node.

In one Ray session, and in this order: the last two tests put services of their own in its place.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from published_readme import EVAL, MULTI, SINGLE
from serve_session import ROOT, deploy, free_port, ray_session
from test_published_readme import by_id, check_axes, check_printed, tasks, twin

from cobalt.cluster import READY_S, READY_VARIABLE
from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluation.evaluate import main as evaluate
from cobalt.evaluator import connect
from cobalt.evaluator.remote import TOKEN_VARIABLE, HttpEvaluator, ServeEvaluator
from cobalt.evaluator.runs import Run
from cobalt.output import write_jsonl
from cobalt.rollouts.multi_turn import main as multi_turn

pytestmark = pytest.mark.slow

ADD = "print(sum(map(int, input().split())))"
TESTS = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3", "8"]}
PORT = free_port()
URL = f"http://127.0.0.1:{PORT}/evaluator"
TOKEN = "a secret of this test"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with ray_session() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def handle(nodes: Any) -> Iterator[Any]:
    from ray import serve

    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    yield deploy(workers=2, cpus_per_replica=0.5)
    serve.shutdown()


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


def test_a_client_that_goes_away_ends_its_program(handle: Any) -> None:
    """Two programs that run and two that wait for the two workers, by either way to ask for a run."""
    asked = [
        (f"{URL}/run_code", {"code": "while True: pass", "language": "python", "run_timeout": 100}),
        (f"{URL}/run", {"source": "while True: pass", "time_s": 100}),
    ]

    def give_up(url: str, body: Any) -> None:
        request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with pytest.raises(OSError, match="timed out"):
            urllib.request.urlopen(request, timeout=5)

    before = get(URL, None)[1]
    threads = [threading.Thread(target=give_up, args=each) for each in 2 * asked]
    for thread in threads:
        thread.start()
    for waiting in (4, 0):
        deadline = time.monotonic() + 20
        while (after := get(URL, None)[1])["waiting"] != waiting:
            assert time.monotonic() < deadline, after
            time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert after["counters"] == before["counters"], "programs that nobody waits for are not counted"
    status, answer = send(f"{URL}/run_code", b'{"code": "print(1)", "language": "python"}', "")
    assert status == 200 and answer["status"] == "Success" and answer["run_result"]["stdout"] == "1\n"
    assert get(f"{URL}/v1/ping", None) == (200, "pong")


def test_an_evaluator_inside_an_actor(handle: Any) -> None:
    import ray

    @ray.remote(num_cpus=0.1)
    class Judge:
        def judge(self) -> list[bool]:
            with connect("local", workers=1) as evaluator:
                return evaluator.evaluate(ADD, TESTS)["passing"]

    assert ray.get(Judge.remote().judge.remote(), timeout=120) == [True, False]


def test_published_commands_find_model_and_evaluator_in_the_cluster(
    handle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their defaults of 16 samples and 9 turns; each once more with programs judged in its process.

    The first joins the cluster from a process of its own (all do in `test_the_published_readme`).
    """
    import chat_server
    import ray
    import standin_actor
    from ray import serve

    for module in (chat_server, standin_actor):  # which replicas cannot import
        ray.cloudpickle.register_pickle_by_value(module)
    serve.run(standin_actor.app, name="vllm_actor", route_prefix="/vllm_actor")
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "tasks.jsonl", tasks(2))
    single = SINGLE.line.format(TASKS="tasks.jsonl").replace("python", sys.executable)
    env = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    done = subprocess.run(
        single.replace("run_", f"{ROOT}/run_"), shell=True, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0 and "the Ray Serve application 'evaluator'" in done.stderr, done.stderr
    (tmp_path / "local").mkdir()
    capsys.readouterr()
    for step, door in ((MULTI, multi_turn), (EVAL, evaluate)):
        (name,) = step.writes
        assert door(shlex.split(twin(step).partition(".py")[2])) == 0
        assert door(shlex.split(step.line.partition(".py")[2])) == 0
        assert by_id(tmp_path / name) == by_id(tmp_path / "local" / name)
    said = capsys.readouterr()
    assert said.err.count("the Ray Serve application 'evaluator'") == said.err.count("in process") == 2
    check_axes(tmp_path, "judged.jsonl", 2)
    check_printed(tmp_path, said.out)
    serve.delete("vllm_actor")


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


# --- Under load


def program(number: int) -> tuple[str, dict[str, list[str]], list[bool]]:
    """A program of its own, tests, and the verdicts that it must get: one test passes, one does not."""
    code = f"print(int(input()) * 2 + {number})"
    tests = {"inputs": ["1", "2"], "outputs": [str(number + 2), str(number)]}
    return code, tests, [True, False]


def get(url: str, token: str | None) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def send(url: str, body: bytes, token: str) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


RAW = "import sys\nsys.stdout.buffer.write(b'\\xff' + input().encode())\nsys.exit(7)"


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.full)])
def test_many_requests_at_once_with_a_token(handle: Any, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    import ray
    from ray import serve

    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    handle = deploy(replicas=1, workers=2, max_ongoing_requests=8, max_queued_requests=16)
    refused = asyncio.run(post_all(URL, count))
    assert refused > 0, "the queue was never full: the test shows nothing"
    # The same through our clients, which wait and send again by themselves.
    for evaluator in (HttpEvaluator(URL), ServeEvaluator(handle)):
        with evaluator:
            futures = [evaluator.submit(*program(number)[:2]) for number in range(count)]
            verdicts = [future.result(timeout=300)["passing"] for future in futures]
            assert verdicts == [[True, False]] * count
            assert evaluator.counters["infra_errors"] == 0

    assert get(URL, None)[0] == get(URL, "wrong")[0] == 401
    status, answer = get(URL, TOKEN)
    assert status == 200 and answer["counters"]["infra_errors"] == 0
    status, document = get(f"{URL}/openapi.json", TOKEN)
    assert status == 200 and set(document["paths"]["/evaluator"]) == {"get", "post"}
    assert set(document["components"]["schemas"]["Run"]["properties"]) == set(Run.__dataclass_fields__)
    for evaluator in (HttpEvaluator(URL), ServeEvaluator(handle)):
        with evaluator:
            runs = [evaluator.submit_run(RAW, f"{number}\n", time_s=2) for number in range(40)]
            mixed = evaluator.submit(*program(0)[:2])
            found = [future.result(timeout=120) for future in runs]
            assert [each.stdout for each in found] == [f"\udcff{number}" for number in range(40)]
            assert {(each.status, each.returncode) for each in found} == {("runtime_error", 7)}
            assert mixed.result(timeout=120)["passing"] == [True, False]
            assert evaluator.counters["tests"] == 40 and evaluator.counters["infra_errors"] == 0
            with pytest.raises(BadRequest, match="'time_s'"):
                evaluator.run(RAW, time_s=-1)
    for url, wrong, said in ((f"{URL}/run", {"code": ""}, "'source'"), (URL, {"source": ""}, "'code'"),
                             (f"{URL}/run", [{"source": 1}], "request[0]: 'source'")):  # fmt: skip
        status, answer = send(url, json.dumps(wrong).encode(), TOKEN)
        assert status == 422 and said in answer["error"]

    monkeypatch.setenv(TOKEN_VARIABLE, "wrong")
    with HttpEvaluator(URL) as stranger, pytest.raises(InputError, match=TOKEN_VARIABLE):
        stranger.evaluate(*program(0)[:2])

    told = metrics(ray, 3 * count)
    assert told["cobalt_evaluator_tests_total", "passed"] >= count
    assert told["cobalt_evaluator_tests_total", "wrong_answer"] >= count
    assert told["cobalt_evaluator_programs_total", "ok"] >= 3 * count
    assert TOKEN not in str(ray.nodes()) + str(serve.status())


async def post_all(url: str, count: int) -> int:
    """POST `count` requests at once, each again while it is refused; returns how often that was."""
    import aiohttp

    refused = 0
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def one(number: int) -> list[bool]:
            nonlocal refused
            code, tests, _ = program(number)
            pause = 0.05
            while True:
                async with session.post(url, json={"code": code, "test_cases": tests}) as response:
                    if response.status == 200:
                        return list((await response.json())["passing"])
                    assert response.status == 503, await response.text()
                refused += 1
                await asyncio.sleep(pause * (1 + number % 7 / 7))
                pause = min(2 * pause, 2.0)

        verdicts = await asyncio.gather(*(one(number) for number in range(count)))
    assert verdicts == [[True, False]] * count
    return refused


def metrics(ray: Any, programs: int) -> dict[tuple[str, str], float]:
    """What Prometheus would read, by name and status, once it tells of so many programs (or a minute on)."""
    (node,) = ray.nodes()
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    deadline = time.monotonic() + 60
    while True:
        found: dict[tuple[str, str], float] = {}
        with urllib.request.urlopen(url, timeout=30) as response:
            for line in response.read().decode().splitlines():
                name, _, rest = line.partition("{")
                name = name.removeprefix("ray_")
                if name.startswith("cobalt_evaluator_"):
                    status = rest.partition('status="')[2].partition('"')[0]
                    key = name if name.endswith("_total") else f"{name}_total"
                    found[key, status] = found.get((key, status), 0) + float(line.rpartition(" ")[2])
        if found.get(("cobalt_evaluator_programs_total", "ok"), 0) >= programs or time.monotonic() > deadline:
            return found
        time.sleep(2)


def test_a_node_that_dies_under_load_costs_no_verdict(nodes: Any, handle: Any) -> None:
    """A replica on each of two Ray nodes; one is killed while both work."""
    other = nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    handle = deploy(workers=1)  # without `replicas`: one on each node
    wait_for_two()
    evaluator, left = ServeEvaluator(handle), []
    futures = [evaluator.submit(*program(number)[:2]) for number in range(600)]

    def kill() -> None:
        left.append(sum(not future.done() for future in futures))
        nodes.remove_node(other, allow_graceful=False)

    threading.Timer(1.0, kill).start()
    results = [future.result(timeout=300) for future in futures]
    assert left and left[0] > 50, "nearly all was done before the node was killed: the test shows nothing"
    assert [result["passing"] for result in results] == [[True, False]] * len(futures)
    evaluator.close()


def wait_for_two() -> None:
    """Until both replicas answer."""
    from ray import serve

    deadline = time.monotonic() + 60
    while True:
        replicas = serve.status().applications["evaluator"].deployments["Evaluator"].replica_states
        if replicas.get("RUNNING") == 2:
            return
        assert time.monotonic() < deadline, replicas
        time.sleep(0.5)
