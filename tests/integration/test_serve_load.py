"""The evaluator service under load: a full queue, two nodes of which one is killed, a token, its metrics."""

import asyncio
import json
import os
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from serve_session import application, before_ray, free_port, ray_session

from cobalt.errors import InputError
from cobalt.evaluator.remote import TOKEN_VARIABLE, HttpEvaluator, ServeEvaluator

pytestmark = pytest.mark.slow

TOKEN = "a secret of this test"


def program(number: int) -> tuple[str, dict[str, list[str]], list[bool]]:
    """A program of its own, tests, and the verdicts that it must get: one test passes, one does not."""
    code = f"print(int(input()) * 2 + {number})"
    tests = {"inputs": ["1", "2"], "outputs": [str(number + 2), str(number)]}
    return code, tests, [True, False]


@pytest.fixture(scope="module")
def ray_here() -> Iterator[Any]:
    with ray_session() as ray:
        yield ray


def get(url: str, token: str | None) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.full)])
def test_many_requests_at_once_with_a_token(
    ray_here: Any, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    port = free_port()
    url = f"http://127.0.0.1:{port}/evaluator"
    from ray import serve

    limits = {"max_ongoing_requests": 8, "max_queued_requests": 16}
    with application(port, replicas=1, workers=2, **limits) as handle:
        refused = asyncio.run(post_all(url, count))
        assert refused > 0, "the queue was never full: the test shows nothing"
        # The same through our clients, which wait and send again by themselves.
        for evaluator in (HttpEvaluator(url), ServeEvaluator(handle)):
            with evaluator:
                futures = [evaluator.submit(*program(number)[:2]) for number in range(count)]
                verdicts = [future.result(timeout=300)["passing"] for future in futures]
                assert verdicts == [[True, False]] * count
                assert evaluator.counters["infra_errors"] == 0

        assert get(url, None)[0] == get(url, "wrong")[0] == 401
        status, answer = get(url, TOKEN)
        assert status == 200
        assert answer["counters"]["infra_errors"] == 0
        status, document = get(f"{url}/openapi.json", TOKEN)
        assert status == 200
        assert set(document["paths"]["/evaluator"]) == {"get", "post"}

        monkeypatch.setenv(TOKEN_VARIABLE, "wrong")
        with HttpEvaluator(url) as stranger, pytest.raises(InputError, match=TOKEN_VARIABLE):
            stranger.evaluate(*program(0)[:2])

        told = metrics(ray_here, 3 * count)
        assert told["cobalt_evaluator_tests_total", "passed"] >= count
        assert told["cobalt_evaluator_tests_total", "wrong_answer"] >= count
        assert told["cobalt_evaluator_programs_total", "ok"] >= 3 * count
        assert TOKEN not in str(ray_here.nodes()) + str(serve.status())


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


def test_a_node_that_dies_under_load_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two Ray nodes with a replica on each; one is killed while both work."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    folder = tempfile.mkdtemp(prefix="r")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    os.mkdir(f"{folder}/ray")
    before_ray()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False},
        shutdown_at_exit=False,
    )
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        other = cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        with application(free_port(), workers=1) as handle:  # without `replicas`: one on each node
            evaluator = ServeEvaluator(handle)
            wait_for_two(handle)
            numbers = range(600)
            futures = [evaluator.submit(*program(number)[:2]) for number in numbers]
            left = []

            def kill() -> None:
                left.append(sum(not future.done() for future in futures))
                cluster.remove_node(other, allow_graceful=False)

            threading.Timer(1.0, kill).start()
            results = [future.result(timeout=300) for future in futures]
            assert left, "all was done before the node was killed: the test shows nothing"
            assert left[0] > 50
            assert [result["passing"] for result in results] == [[True, False]] * len(numbers)
            evaluator.close()
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_two(handle: Any) -> None:
    """Until both replicas answer."""
    from ray import serve

    deadline = time.monotonic() + 60
    while True:
        replicas = serve.status().applications["evaluator"].deployments["Evaluator"].replica_states
        if replicas.get("RUNNING") == 2:
            return
        assert time.monotonic() < deadline, replicas
        time.sleep(0.5)
