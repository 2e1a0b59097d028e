"""SandboxFusion's interface: fields and refusals, verl's own scorer, its client package from the index."""

import asyncio
import base64
import http.client
import json
import subprocess
import threading
import time
from pathlib import Path

import pytest
from docs_blocks import ROOT, blocks
from foreign_env import python_of

from cobalt.evaluator.remote import TOKEN_VARIABLE
from cobalt.evaluator.sandbox_fusion import RunCodeRequest

TOKEN = "a secret of this test"

pytestmark = pytest.mark.slow


class Service:
    """A replica behind HTTP, without Ray around it."""

    def __init__(self, token=None):
        uvicorn = pytest.importorskip("uvicorn")
        pytest.importorskip("ray.serve")
        from cobalt.evaluator.access import fingerprint
        from cobalt.evaluator.service import EvaluatorReplica, Settings

        salted = ("salt", fingerprint("salt", token)) if token else None
        self.replica = EvaluatorReplica(Settings(workers=2).model_dump(), salted)
        self.server = uvicorn.Server(
            uvicorn.Config(self._app, port=0, log_level="error", lifespan="off", interface="asgi3")
        )
        self.thread = threading.Thread(target=asyncio.run, args=(self.server.serve(),))
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/evaluator"

    async def _app(self, scope, receive, send):
        from starlette.requests import Request

        await (await self.replica(Request(scope, receive)))(scope, receive, send)

    def ask(self, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", f"/evaluator{path}", data, headers)
        response = connection.getresponse()
        return response.status, json.load(response)

    def run(self, code, **more):
        return self.ask("/run_code", {"code": code, "language": "python", **more})

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.replica._evaluator.close()


@pytest.fixture(scope="module")
def service():
    made = Service()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("code", "more", "status", "wanted"),
    [
        ("print(int(input()) + 1)", {"stdin": "4"}, "Success",
         {"status": "Finished", "return_code": 0, "stdout": "5\n", "stderr": ""}),
        ("print(1)", {"stdin": None, "memory_limit_MB": 1024, "compile_timeout": 3}, "Success",
         {"stdout": "1\n"}),
        ("import sys; sys.stdout.buffer.write(b'\\xff'); sys.exit(3)", {}, "Failed",
         {"status": "Finished", "return_code": 3, "stdout": "\ufffd"}),
        ("int a = 1", {}, "Failed", {"status": "Finished", "return_code": 1}),
        ("import os; os.abort()", {}, "Failed", {"status": "Finished", "return_code": -6}),
        ("print(1, flush=True)\nimport time; time.sleep(9)", {"run_timeout": 0.3}, "Failed",
         {"status": "TimeLimitExceeded", "return_code": None, "stdout": "1\n"}),
        ("while True: pass", {"run_timeout": 0.3}, "Failed", {"status": "TimeLimitExceeded"}),
        ("bytearray(200 << 20)", {"memory_limit_MB": 150}, "Failed", {"return_code": 1}),
        ("print('x' * (1 << 25))", {}, "Failed", {"status": "Finished"}),
    ],
)  # fmt: skip
def test_how_a_run_ended(code, more, status, wanted, service):
    answered, found = service.run(code, **more)
    assert (answered, found["status"], found["message"], found["compile_result"]) == (
        200,
        status,
        "",
        None,
    )
    result = found["run_result"]
    assert {name: result[name] for name in wanted} == wanted
    assert set(result) == {"status", "execution_time", "cpu_time", "return_code", "stdout", "stderr"}
    assert set(found) == {"status", "message", "compile_result", "run_result", "executor_pod_name", "files"}
    assert 0 <= result["execution_time"] < 9
    assert result["return_code"] != 0 or status == "Success"


def test_files_go_in_and_come_out(service):
    def coded(data):
        return base64.b64encode(data).decode()

    given = {
        "a/b.bin": coded(b"\xff\0"),
        "helper.py": coded(b"x = 3"),
        "/tmp/log": coded(b"one "),
        "none": None,
    }
    code = (
        "import helper, os\nopen('log', 'a').write(input())\nprint(open('a/b.bin', 'rb').read(), helper.x)\n"
        "open('out.txt', 'w').write('made')\nos.symlink('/proc/1/mem', 'link')\nos.mkfifo('pipe')"
    )
    fetch = ["log", "/tmp/out.txt", "a/b.bin", "link", "pipe", "nothing", "/etc/shadow"]
    status, found = service.run(code, files=given, fetch_files=fetch, stdin="two")
    assert (status, found["status"]) == (200, "Success"), found
    assert found["run_result"]["stdout"] == "b'\\xff\\x00' 3\n"
    wanted = {"log": b"one two", "/tmp/out.txt": b"made", "a/b.bin": b"\xff\0"}
    assert {name: base64.b64decode(data) for name, data in found["files"].items()} == wanted
    status, found = service.run("import os; print(os.listdir('.')); exit(1)", fetch_files=["log"])
    assert (found["status"], found["run_result"]["stdout"], found["files"]) == ("Failed", "[]\n", {})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"language": "python"}, "code"),
        ({"code": "1"}, "language"),
        ({"code": 1, "language": "python"}, "code"),
        ({"code": "1", "language": 3}, "language"),
        ({"run_timeout": 0}, "run_timeout"),
        ({"run_timeout": "soon"}, "run_timeout"),
        ({"memory_limit_MB": 1.5}, "memory_limit_MB"),
        ({"files": {"a": "abc"}}, "files.a"),
        ({"files": {"../a": ""}}, "'files'"),
        ({"files": {"/etc/a": ""}}, "'files'"),
        ({"files": {"a": "", "a/b": ""}}, "'files'"),
        ({"fetch_files": ["\0"]}, "'fetch_files'"),
        ({"fetch_files": [3]}, "fetch_files.0"),
        ({"files": {"\ud800": ""}}, "'files'"),
        ([], "dictionary"),
        (b"{", "not valid JSON"),
    ],
)
def test_wrong_fields_are_named(body, named, service):
    given = not isinstance(body, dict) or {"code", "language"} & set(body)
    status, found = service.ask("/run_code", body if given else {"code": "1", "language": "python", **body})
    (told,) = found["detail"]
    assert status == 422 and told["loc"][0] == "body"
    assert named in f"{'.'.join(map(str, told['loc']))}: {told['msg']}", found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/run_code", {"code": "int main() {}", "language": "cpp"}),
        ("/run_code", {"code": "def test(): pass", "language": "pytest"}),
        ("/run_jupyter", {"cells": ["1"]}),
    ],
)
def test_what_is_not_run_is_their_sandbox_error(path, body, service):
    status, found = service.ask(path, body)
    assert (status, found["status"], found["run_result"]) == (200, "SandboxError", None)
    assert "not run here" in found["message"]


def test_health_and_token(service):
    assert service.ask("/v1/ping") == (200, "pong") and service.ask("/v1/ping", {})[0] == 422
    schemas = service.ask("/openapi.json")[1]["components"]["schemas"]
    assert set(schemas["RunCodeRequest"]["properties"]) == set(RunCodeRequest.model_fields)
    closed, path, body = Service(TOKEN), "/run_code", {"code": "", "language": "python"}
    try:
        basic = base64.b64encode(f":{TOKEN}".encode()).decode()
        for given in (f"Bearer {TOKEN}", f"Basic {basic}"):
            assert closed.ask(path, body, Authorization=given)[0] == 200
        for given in ("", "Basic ?", f"Basic {TOKEN}", "Basic Og==", f"Digest {TOKEN}"):
            status, found = closed.ask(path, body, Authorization=given)
            assert status == 401 and TOKEN_VARIABLE in found["error"] and TOKEN not in str(found)
        assert closed.ask("/v1/ping")[0] == 401
    finally:
        closed.close()


TESTS = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}


@pytest.mark.parametrize(
    ("program", "score", "statuses"),
    [
        ("print(sum(map(int, input().split())))", 1.0, ["success", "success"]),
        ("print(3)", 0.5, ["success", "wrong_answer"]),
        ("print(1 / 0)", 0.0, ["runtime_error", "runtime_error"]),
        ("print(", 0.0, ["runtime_error", "runtime_error"]),
        ("while True: pass", 0.0, ["timeout", "timeout"]),
        (
            "import time\nprint(3, flush=True)\nif input()[0] == '3': time.sleep(60)",
            0.5,
            ["success", "timeout"],
        ),
    ],
)
def test_verls_own_scorer(program, score, statuses, service):
    score_of = pytest.importorskip("verl.utils.reward_score").default_compute_score
    from verl.utils.reward_score import sandbox_fusion as scorer

    answer, url = f"```python\n{program}\n```", f"{service.url}/run_code"
    found, told = scorer.compute_score(url, threading.Semaphore(4), 1024, answer, TESTS, timeout=1)
    assert (found, [each["status"] for each in told]) == (score, statuses), told
    if "timeout" not in statuses:  # by way of what a training calls, whose limit is 10 s
        more = {"sandbox_fusion_url": url, "memory_limit_mb": 1024}
        assert score_of("apps", answer, json.dumps(TESTS), **more) == score


@pytest.mark.full
def test_their_client_package(service):
    """In an environment of its own, from the index."""
    python = python_of("sandbox-fusion")
    script = Path(__file__).with_name("sandbox_fusion_client.py")
    done = subprocess.run([python, script, service.url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (block,) = [each for each in blocks(ROOT / "docs" / "integrations.md") if each.mark == "fusion"]
    example = block.text.replace("http://localhost:8000/evaluator", service.url)
    done = subprocess.run([python, "-c", example], capture_output=True, text=True)
    assert done.stdout.split() == ["Success", "42"] and service.url in example, done.stderr
