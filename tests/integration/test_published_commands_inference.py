"""The inference commands as published, each as its own process against a local server."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web
from chat_server import add_task, chat_server, without_times
from http_server import serving

from cobalt.errors import InputError
from cobalt.manifest import read_manifest
from cobalt.rollouts.single_turn import main
from cobalt.rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
CANARY = "sk-canary-2718281828459045"
pytestmark = pytest.mark.slow


def command(name, *args):
    return [sys.executable, str(ROOT / f"{name}.py"), *map(str, args)]


def door(name, *args, env=None, code=0):
    here = {k: v for k, v in os.environ.items() if k not in ("RAY_ADDRESS", "OPENAI_API_KEY")}
    done = subprocess.run(
        command(name, *args), capture_output=True, text=True, timeout=300, env=here | (env or {})
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def rows_of(path):
    return [row for _, row in read_rows(path)]


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(3)))
    return path


def test_litellm_commands(tasks, tmp_path):
    """Keys as published flags: they work, one warning each run, and they are nowhere afterwards."""
    single, multi = tmp_path / "single.jsonl", tmp_path / "multi.jsonl"
    with chat_server() as (url, requests):
        where = ["--base_url", url, "--evaluator", "local", "--workers", "1"]
        keys = ["--openai_api_key", CANARY, "--aws_access_key_id", "", "--aws_region_name", ""]
        model = ["--model_name", "gpt-5-mini-2025-08-07", "-r", "low"]
        done = door("run_single_turn_litellm", "-i", tasks, "-o", single, *model, *keys, "-n", "2", *where)
        assert done.stderr.count("warning: ") == 1 and "set OPENAI_API_KEY instead" in done.stderr
        again = door(
            "run_multi_turn_litellm", "-i", single, "-o", multi, "--turns", "3", *where,
            env={"OPENAI_API_KEY": CANARY},
        )  # fmt: skip
        assert "warning" not in again.stderr
    first = requests[0]
    assert first["model"] == "gpt-5-mini-2025-08-07" and first["reasoning_effort"] == "low"
    assert first["max_completion_tokens"] == 32000 and first["temperature"] == 1.0
    assert requests[-1]["reasoning_effort"] == "medium"
    for row in rows_of(multi):
        assert [[set(used) for used in turn] for turn in row["usage"]] == [
            [{"prompt_tokens", "completion_tokens", "reasoning_tokens"}] * 2
        ] * 3
        assert [len(c) for c in row["conversations"]] == [8, 8]
    assert read_manifest(single)["tokens"]["cost_usd"] > 0
    written = "".join(path.read_text() for path in tmp_path.iterdir() if path.is_file())
    for text in (written, done.stdout, done.stderr, again.stdout, again.stderr):
        assert CANARY not in text


def environments(pid, own=None):
    """The environments of all processes below one whose command line is `own`.

    Between fork and exec its children show its command line and environment for a moment; one that is to stay
    without a program of its own still does so a second later.
    """
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            folder, deadline = Path("/proc", child), time.monotonic() + 1
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                while (folder / "cmdline").read_bytes() == own and time.monotonic() < deadline:
                    time.sleep(0.001)
                found.append(((folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()))
                found += environments(child)
    return found


def test_no_child_process_is_given_the_key(tasks, tmp_path):
    """The sandbox's processes are looked at while they run."""
    seen = []
    with chat_server(delay_s=0.2) as (url, _):
        here = os.environ | {"OPENAI_API_KEY": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY}
        args = ["-i", tasks, "-o", tmp_path / "a.jsonl", "-n", "4", "--base_url", url, "--evaluator", "local",
                "--concurrency", "2"]  # fmt: skip
        process = subprocess.Popen(command("run_single_turn_vllm", *args), env=here)
        try:
            while process.poll() is None and len(seen) < 3:
                seen += environments(process.pid, Path(f"/proc/{process.pid}/cmdline").read_bytes())
                time.sleep(0.01)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
    assert seen and not any(CANARY.encode() in text for pair in seen for text in pair)


def refusing(status):
    """A service that quotes the key in its refusal."""

    async def refuse(request):
        key = request.headers["Authorization"].removeprefix("Bearer ")
        return web.json_response({"error": {"message": f"Incorrect API key provided: {key}"}}, status=status)

    return serving(refuse)


@pytest.mark.parametrize("engine", ["openai", "litellm"])
def test_an_error_does_not_show_the_key(tasks, tmp_path, monkeypatch, capfd, engine):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    args = ["-i", str(tasks), "-n", "1", "--limit", "1", "--evaluator", "local", "--workers", "1",
            "--model_name", "scripted", "--engine", engine]  # fmt: skip
    with refusing(401) as url, pytest.raises(InputError) as refused:
        main([*args, "-o", str(tmp_path / "a.jsonl"), "--base_url", url], default_engine="litellm")
    with refusing(400) as url:
        assert (
            main([*args, "-o", str(tmp_path / "b.jsonl"), "--base_url", url], default_engine="litellm") == 1
        )
    written = "".join(path.read_text() for path in tmp_path.iterdir() if path.is_file())
    said = capfd.readouterr()
    assert "Incorrect API key provided: (key)" in written  # the failure record
    assert CANARY not in written + said.out + said.err + str(refused.value)


def test_what_a_provider_needs_is_asked_for_and_a_dry_run_tells_the_price(
    tasks, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    args = ["-i", str(tasks), "-o", str(tmp_path / "out.jsonl"), "--evaluator", "local", "--workers", "1"]
    for more in ([], ["--dry_run"]):  # which tells the price first
        with pytest.raises(InputError, match="set OPENAI_API_KEY"):
            main([*args, *more], default_engine="litellm")
    assert "about $" in capsys.readouterr().out
    with pytest.raises(InputError, match="LiteLLM knows no provider"):
        main([*args, "--model_name", "nobody"], default_engine="litellm")
    assert main([*args, "--dry_run", "--openai_api_key", CANARY], default_engine="litellm") == 0
    said = capsys.readouterr().out
    assert "about $" in said and f"{3 * 16} completions to sample" in said
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_ctrl_c_drains_and_the_same_command_continues(tmp_path):
    tasks, out, whole = (tmp_path / f"{name}.jsonl" for name in ("tasks", "out", "whole"))
    tasks.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(4)))
    with chat_server(delay_s=0.15) as (url, requests):
        args = ["-i", tasks, "-n", "2", "--first_turn", "--turns", "4", "--evaluator", "local",
                "--workers", "1", "--base_url", url, "--concurrency", "2"]  # fmt: skip
        process = subprocess.Popen(
            command("run_multi_turn_vllm", *args, "-o", out), stderr=subprocess.PIPE, text=True
        )
        while len(requests) < 9:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        asked = len(requests)
        assert process.returncode == 130 and "finishing the turns in flight" in errors
        assert "run the same command again to continue" in errors and "Traceback" not in errors
        assert asked <= 9 + 2 and out.with_name("out.jsonl.journal").exists()
        door("run_multi_turn_vllm", *args, "-o", out)
        assert len(requests) == 4 * 2 * 4  # nothing was sampled twice
        door("run_multi_turn_vllm", *args, "-o", whole)
    assert without_times(rows_of(out)) == without_times(rows_of(whole))
    assert not out.with_name("out.jsonl.journal").exists()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is here")
def test_the_door_without_vllm_says_what_to_install():
    from cobalt.engines.vllm_server import Settings, app

    with pytest.raises(InputError, match=r"requirements-gpu.txt"):
        app(Settings(model="m"))
    with pytest.raises(ValueError, match="replicas"):
        Settings(model="m", replicas=-1)
