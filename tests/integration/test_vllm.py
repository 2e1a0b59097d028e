"""Real vLLM: the Serve application by its handle, `vllm serve` over HTTP, and a runner on top.

Runs where vLLM is installed (`make test-vllm`: the CPU build in an environment of its own).
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from rollout_tools import random_model
from serve_session import end, free_port

pytest.importorskip("vllm", reason="vLLM is not installed here; make test-vllm")

from cobalt.engines import check, connect
from cobalt.engines.base import Sampling

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
MAX_LEN = 256
MESSAGES = [{"role": "system", "content": "Write a Python program."}, {"role": "user", "content": "add 3"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Random weights: the reference model's own heads are too narrow for vLLM on a CPU."""
    wide = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    return random_model(tmp_path_factory.mktemp("model"), **wide, max_position_embeddings=512)


@pytest.fixture(scope="module")
def served(model):
    """(URL of `vllm serve`, address of a cluster of its own in which the application runs)."""
    folder = tempfile.mkdtemp(prefix="v", dir="/tmp")  # socket paths must be short
    address, port, serve_port = f"127.0.0.1:{free_port()}", free_port(), free_port()
    env = os.environ | {
        "RAY_TMPDIR": folder, "TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    scripts = Path(sys.executable).parent
    log = open(Path(folder) / "log", "w")  # noqa: SIM115 - all processes write to it
    config = Path(folder) / "serve.yaml"
    arguments = {"model": str(model), "served_model_name": "tiny", "max_model_len": MAX_LEN,
                 "dtype": "float32", "enforce_eager": True}  # fmt: skip
    config.write_text(json.dumps({
        "http_options": {"host": "127.0.0.1", "port": serve_port},
        "applications": [{"name": "vllm_actor", "route_prefix": "/vllm_actor",
                          "import_path": "vllm_engine_actor:app", "args": arguments}],
    }))  # fmt: skip
    started = []

    def start(*words, **more):
        words = [str(scripts / words[0]), *map(str, words[1:])]
        kw = {"env": env | more, "cwd": ROOT, "stdout": log, "stderr": log, "start_new_session": True}
        started.append(subprocess.Popen(words, **kw))

    def wait(ready):
        for _ in range(400):
            if ready():
                return
            assert all(each.poll() is None for each in started), (Path(folder) / "log").read_text()[-3000:]
            time.sleep(1)
        raise AssertionError((Path(folder) / "log").read_text()[-3000:])

    try:
        head = address.rpartition(":")[2]
        start("ray", "start", "--head", f"--port={head}", "--num-cpus=2", "--include-dashboard=false",
              f"--temp-dir={folder}", "--block")  # fmt: skip
        wait(lambda: listens(head))
        start("vllm", "serve", model, "--port", port, "--served-model-name", "tiny", "--enforce-eager",
              "--max-model-len", MAX_LEN, "--dtype", "float32", "--generation-config", "vllm")  # fmt: skip
        wait(lambda: listens(port))
        start("serve", "run", config, RAY_ADDRESS=address)
        wait(lambda: routed(serve_port))
        yield f"http://127.0.0.1:{port}", address
    finally:
        end(started)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def routed(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/routes", timeout=10) as response:
            return "vllm_actor" in response.read().decode()
    except OSError:
        return False


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def test_the_engine_over_http_and_by_handle(served, monkeypatch):
    url, address = served
    seeded = Sampling(temperature=1.0, max_tokens=16, n=3, seed=9, session="a")

    async def answers(engine):
        await check(engine)
        made = await engine.chat(MESSAGES, seeded)
        third = await engine.chat(MESSAGES, Sampling(temperature=1.0, max_tokens=16, seed=9, index=2))
        over = await engine.chat([{"role": "user", "content": "add 3 " * MAX_LEN}], Sampling(seed=1))
        greedy = Sampling(temperature=0.0, seed=1, max_tokens=10 * MAX_LEN)
        (fills,) = await engine.chat([{"role": "user", "content": "add 3 \ud800" * 12}], greedy)
        many = await asyncio.gather(
            *(engine.chat(MESSAGES, Sampling(max_tokens=32, seed=i)) for i in range(24))
        )
        await engine.aclose()
        assert third[0].text == made[2].text and over[0].finish_reason == "context_overflow"
        assert fills.finish_reason != "context_overflow"
        assert fills.prompt_tokens + fills.completion_tokens <= MAX_LEN
        assert all(1 <= each[0].completion_tokens <= 32 for each in many)
        return [(c.text, c.finish_reason, c.prompt_tokens, c.completion_tokens) for c in [*made, fills]]

    http = asyncio.run(answers(connect("vllm", "tiny", url)))
    assert http == asyncio.run(answers(connect("vllm", None, f"{url}/v1")))
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    import ray
    from ray import serve

    engine = connect("vllm", None)
    try:
        assert type(engine).__name__ == "ServeEngine" and http == asyncio.run(answers(engine))
        handle = serve.get_app_handle("vllm_actor")
        published = handle.remote(MESSAGES, temperature=0.6, top_p=0.95, max_new_tokens=8, n=2).result()
        assert set(published) == {"prompts", "responses"} and len(published["responses"]) == 2
        assert len(published["prompts"]) == 1 and "add 3" in published["prompts"][0]
        batch = handle.remote([MESSAGES] * 3, max_new_tokens=8, is_batch=True).result()
        assert len(batch["responses"]) == len(batch["prompts"]) == 3
    finally:
        ray.shutdown()


def test_a_runner_on_top(served, tmp_path):
    url, _ = served
    tests = json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]})
    task = {"id": 0, "instruction": "add 3", "test_cases": tests, "public_test_cases": tests}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    done = subprocess.run(
        [
            sys.executable, "run_multi_turn_vllm.py", "-i", tmp_path / "tasks.jsonl",
            "-o", tmp_path / "out.jsonl", "--base_url", url, "--first_turn", "--turns", "2", "-n", "2",
            "--max_tokens", "16", "--prompts", "tiny", "--evaluator", "local", "--workers", "1",
        ],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert [len(c) for c in row["conversations"]] == [6, 6] and row["usage"][1][0]["completion_tokens"] <= 16
