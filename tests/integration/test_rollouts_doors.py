"""The inference and evaluation doors as commands, against a local server and the real evaluator."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import add_task, chat_server, without_times

from cobalt.errors import CobaltError, InputError
from cobalt.manifest import read_manifest
from cobalt.rollouts.single_turn import main
from cobalt.rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
TASKS, SAMPLES, TURNS = 5, 3, 3
ALONE = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}


def door(name, *args, **kw):
    command = [sys.executable, str(ROOT / f"{name}.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kw)


def rows_of(path):
    return [row for _, row in read_rows(path)]


@pytest.fixture(scope="module")
def server():
    with chat_server() as (url, requests):
        yield url, requests


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(TASKS)))
    return path


def sampling(url):
    return ["--engine", "openai", "--model_name", "scripted", "--base_url", url, "--evaluator", "local",
            "--workers", "1", "--seed", "3"]  # fmt: skip


def test_from_tasks_to_evaluated_trajectories(server, tasks, tmp_path):
    url, requests = server
    single, multi, judged = (tmp_path / f"{name}.jsonl" for name in ("single", "multi", "judged"))
    done = door("run_single_turn_vllm", "-i", tasks, "-o", single, "-n", SAMPLES, *sampling(url))
    assert done.returncode == 0, done.stderr
    for row in rows_of(single):
        assert len(row["responses"]) == len(row["exec_results"]) == SAMPLES
        assert all(len(r["passing"]) == len(r["feedback"]) == 5 for r in row["exec_results"])
    done = door("run_multi_turn_vllm", "-i", single, "-o", multi, "--turns", TURNS, *sampling(url))
    assert done.returncode == 0, done.stderr
    done = door("eval_multi_turn", "-i", multi, "-o", judged, "--evaluator", "local", "--workers", 1)
    assert done.returncode == 0, done.stderr
    rows = rows_of(judged)
    assert [row["id"] for row in rows] == list(range(TASKS))
    for row in rows:
        assert row["notes"] == add_task(row["id"])["notes"] and row["responses"] == row["raw_responses"][0]
        assert [len(c) for c in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        for name in ("raw_responses", "public_pass_rates", "public_exec_results", "finish_reasons", "usage"):
            assert [len(turn) for turn in row[name]] == [SAMPLES] * TURNS
        for name in ("all_pass_rates", "exec_status"):
            assert [len(sample) for sample in row[name]] == [TURNS] * SAMPLES
        for s in range(SAMPLES):
            for t in range(TURNS):
                text = row["raw_responses"][t][s]
                public, hidden = row["public_pass_rates"][t][s], row["all_pass_rates"][s][t]
                wanted = (
                    (1.0, 1.0) if "print(a + b)" in text
                    else (1.0, 1 / 3) if "abs" in text
                    else (0.0, 0.0) if "```" not in text or "int(input())" in text
                    else (0.5, (2 if row["id"] == 0 else 1) / 3)  # -3 - 0 is right
                )  # fmt: skip
                assert (public, hidden) == pytest.approx(wanted), text
                feedback = row["conversations"][s][3 + 2 * t]["content"]
                assert ("passed all public test cases" in feedback) == (public == 1.0)
    summary = json.loads((tmp_path / "judged.jsonl.summary.json").read_text())
    shares = [
        sum(row["all_pass_rates"][s][t] == 1 for row in rows for s in range(SAMPLES)) / (TASKS * SAMPLES)
        for t in range(TURNS)
    ]
    assert summary["pass_at_1"] == pytest.approx(shares) and summary["groups"] == 3
    assert f"Pass@1 per turn (%): {' '.join(f'{100 * x:.2f}' for x in shares)}\n" in done.stdout
    assert 0 < shares[0] < 1  # the server's programs are neither all right nor all wrong
    manifest = read_manifest(multi)
    assert manifest["settings"]["turns"] == TURNS and manifest["tokens"]["programs"] == TASKS * SAMPLES * 2
    before, files = len(requests), {p.name: p.read_bytes() for p in tmp_path.glob("*.jsonl")}
    again = door("run_multi_turn_vllm", "-i", single, "-o", multi, "--turns", TURNS, *sampling(url))
    assert again.returncode == 0 and len(requests) == before
    assert files == {p.name: p.read_bytes() for p in tmp_path.glob("*.jsonl")}
    joined = tmp_path / "joined.jsonl"
    more = ["--turns", TURNS, "--first-turn", "-n", SAMPLES]
    done = door("run_multi_turn_vllm", "-i", tasks, "-o", joined, *more, *sampling(url))
    assert done.returncode == 0, done.stderr
    apart = [{k: v for k, v in row.items() if k != "exec_results"} for row in rows_of(multi)]
    assert without_times(rows_of(joined)) == without_times(apart)


def test_dry_run_checks_and_writes_nothing(server, tasks, tmp_path):
    url, requests = server
    before = len(requests)
    out = tmp_path / "out.jsonl"
    done = door("run_multi_turn_vllm", "-i", tasks, "-o", out, "--first_turn", "--dry_run", *sampling(url))
    assert done.returncode == 0 and f"{TASKS} tasks, {TASKS * 16 * 9} completions" in done.stdout
    assert len(requests) == before and not out.exists()


def refused(done, says, code=2):
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    message = done.stderr.removeprefix(
        next((x for x in done.stderr.splitlines(True) if "evaluator:" in x), "")
    )
    assert message.startswith("error: ") and says in message and "Traceback" not in message


def test_bad_input_ends_with_exit_code_2(tasks, tmp_path):
    out = tmp_path / "out.jsonl"
    refused(
        door("run_single_turn_vllm", "-i", tasks, "-o", out, "--base_url", "http://127.0.0.1:9", env=ALONE),
        "no vLLM server answers at http://127.0.0.1:9; start one with: serve run vllm_engine_actor:app",
    )
    refused(
        door("run_multi_turn_vllm", "-i", tasks, "-o", out, "--engine", "transformers"),
        "'responses' is missing",
    )
    refused(
        door("eval_multi_turn", "-i", tasks, "-o", out), "tasks.jsonl:1: field 'conversations' is missing"
    )
    nobody = ["--engine", "openai", "--model_name", "m", "--base_url", "http://127.0.0.1:9/v1"]
    refused(door("run_single_turn_vllm", "-i", tasks, "-o", out, *nobody), "no answer", code=1)
    assert [p.name for p in tmp_path.iterdir()] == ["tasks.jsonl"]


@pytest.mark.parametrize(
    "changes, says",
    [
        (["-i", "none.jsonl"], "none.jsonl"),
        (["--engine", "transformers", "--model_name", ""], "needs --model_name"),
        (["--engine", "transformers", "--base_url", "", "--model_name", "none"], "no model could be loaded"),
        (["--engine", "litellm", "--base_url", "", "--model_name", "nobody"], "knows no provider"),
        (["--engine", "vllm", "--model_name", "other"], "serves scripted"),
        (["--rpm", "5"], "limits of --engine litellm"),
        (["--max_cost", "1"], "no price is known for openai:scripted"),
        (["--model_name", "other"], "serves scripted"),
        (["-o", "tasks.jsonl"], "is the input file"),
        (["-o", "tasks.jsonl/x/out.jsonl"], "not a folder"),
        (["-o", "/proc/none/out.jsonl"], "cannot write"),
        (["--prompts", "none.json"], "prompts 'none.json'"),
        (["--temperature", "-1"], "temperature must be at least 0"),
    ],
)
def test_nothing_is_sampled_or_written_for_bad_input(server, tasks, tmp_path, monkeypatch, changes, says):
    url, requests = server
    before = len(requests)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CobaltError, match=re.escape(says)) as refusal:
        main(["-i", "tasks.jsonl", "-o", "out.jsonl", *sampling(url), *changes])
    assert isinstance(refusal.value, InputError)
    assert len(requests) == before and [p.name for p in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_other_settings_are_refused_with_the_difference(server, tasks, tmp_path):
    url, _ = server
    out = tmp_path / "out.jsonl"
    common = ["-i", tasks, "-o", out, "-n", "1", "--limit", "2", *sampling(url)]
    assert door("run_single_turn_vllm", *common).returncode == 0
    before = out.read_bytes()
    refused(door("run_single_turn_vllm", *common, "--temperature", "0.9"), "temperature: 0.6 -> 0.9")
    assert out.read_bytes() == before
    more = [arg if arg != "2" else "4" for arg in common]
    assert door("run_single_turn_vllm", *more).returncode == 0
    assert out.read_bytes().startswith(before) and len(rows_of(out)) == 4
