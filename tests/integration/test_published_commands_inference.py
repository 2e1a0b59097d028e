"""The inference commands as published, against a local server; a server that fails in every way."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web
from chat_server import add_task, chat_server, rates_of
from doors import ROOT, run
from fault_server import FAULTS, fault_server
from http_server import serving

from cobalt.engines import connect
from cobalt.errors import InputError
from cobalt.evaluator import LocalEvaluator
from cobalt.manifest import read_manifest
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import main, single_turn
from cobalt.rows import read_rows

CANARY = "sk-canary-2718281828459045"
pytestmark = pytest.mark.slow


def command(name, *args):
    return [sys.executable, str(ROOT / f"{name}.py"), *map(str, args)]


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
        words = ["-i", tasks, "-o", single, *model, *keys, "-n", "2", *where]
        done = subprocess.run(
            command("run_single_turn_litellm", *words), capture_output=True, text=True, check=True
        )
        assert done.stderr.count("warning: ") == 1 and "set OPENAI_API_KEY instead" in done.stderr
        words = ["-i", single, "-o", multi, "--turns", "3", *where]
        again = run("run_multi_turn_litellm.py", *words, env={"OPENAI_API_KEY": CANARY})
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


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is here")
def test_the_door_without_vllm_says_what_to_install():
    from cobalt.engines.vllm_server import Settings, app

    with pytest.raises(InputError, match=r"requirements-gpu.txt"):
        app(Settings(model="m"))
    with pytest.raises(ValueError, match="replicas"):
        Settings(model="m", replicas=-1)


# --- A service of which every fifth call fails: nothing is lost, doubled or misjudged

SAMPLES, TURNS = 8, 2


@pytest.mark.parametrize(
    "engine_name, count",
    [("openai", 40), ("litellm", 10), pytest.param("openai", 125, marks=pytest.mark.full)],
)
async def test_nothing_is_lost_doubled_or_misjudged(tmp_path, engine_name, count):
    few, out = engine_name == "litellm", tmp_path / "out.jsonl"
    tasks = [add_task(i) for i in range(count)]
    settings = MultiTurnSettings(n=SAMPLES, turns=TURNS, first_turn=True, prompts=TINY, seed=1)
    # A time-out so long that a busy machine does not make a good answer late, which would be paid for twice.
    with fault_server(hang_s=12.0) as (url, faults), LocalEvaluator(2) as evaluator:
        engine = connect(engine_name, "scripted", url, timeout_s=1.0 if few else 5.0, retries=12)
        summary = await multi_turn(tasks, out, engine, evaluator, settings, concurrency=64)
        await engine.aclose()
    assert (summary.failed, summary.written) == (0, len(tasks))
    assert few or set(faults.faulty) == set(FAULTS)
    assert sum(faults.faulty.values()) > 0.15 * faults.calls
    rows = rows_of(out)
    assert [row["id"] for row in rows] == [task["id"] for task in tasks]
    for row in rows:
        assert [len(c) for c in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        for texts, rates in zip(row["raw_responses"], row["public_pass_rates"], strict=True):
            assert rates == [rates_of(text, row["id"])[0] for text in texts]
    # Every conversation the rows hold was answered by the server, each once: no call was paid for twice.
    assert sum(faults.given.values()) == len(faults.given) or few  # litellm may drop an answer that came late
    assert len(faults.given) == len(tasks) * SAMPLES * TURNS
    assert not list(tmp_path.glob("*.journal")) and not list(tmp_path.glob("*.failures.jsonl"))


@pytest.mark.parametrize("turns", [1, 2])
async def test_a_dead_service_is_a_failure_record_and_the_next_run_samples_what_is_missing(tmp_path, turns):
    tasks, out, paid = [add_task(i) for i in range(4)], tmp_path / "out.jsonl", 0
    stage, settings = multi_turn, MultiTurnSettings(n=3, turns=2, first_turn=True, prompts=TINY)
    if turns == 1:
        stage, settings = single_turn, RolloutSettings(n=3, prompts=TINY)
    with LocalEvaluator(1) as evaluator:
        for share in (0.75, 0.0):
            with fault_server(share=share) as (url, faults):
                engine = connect("openai", "scripted", url, timeout_s=0.5, retries=1)
                summary = await stage(tasks, out, engine, evaluator, settings, retries=0)
                await engine.aclose()
                paid += sum(faults.given.values())
            if share:
                failures = [row["error"] for row in rows_of(f"{out}.failures.jsonl")]
                assert len(failures) == summary.failed > 0 and 0 < paid < 4 * 3 * turns
                assert all("gave up after 2 tries" in error for error in failures)
    assert paid == 4 * 3 * turns and summary.exit_code == 0 and len(rows_of(out)) == 4
    assert not list(tmp_path.glob("*.failures.jsonl")) and not list(tmp_path.glob("*.journal"))
