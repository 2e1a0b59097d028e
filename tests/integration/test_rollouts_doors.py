"""The inference and evaluation doors as commands, against a local server and the real evaluator."""

import json
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from chat_server import add_task, chat_server, rates_of, without_times
from doors import ROOT, run
from rollout_tools import random_model

from cobalt.errors import InputError
from cobalt.manifest import read_manifest
from cobalt.rollouts.single_turn import main
from cobalt.rows import read_rows
from cobalt.tasks import tiny

TASKS, SAMPLES, TURNS = 5, 3, 3
LOCAL = ["--evaluator", "local", "--workers", "1"]


def command(name, *args):
    return [sys.executable, str(ROOT / f"{name}.py"), *map(str, args), *LOCAL]


def door(name, *args, code=0):
    done = run(f"{name}.py", *args, *LOCAL, code=code)
    assert code == 0 or "error: " in done.stderr
    return done.stdout if code == 0 else done.stderr


def rows_of(path):
    return without_times([row for _, row in read_rows(path, repair=True)]) if path.exists() else []


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
    return ["--engine", "openai", "--model_name", "scripted", "--base_url", url, "--seed", "3"]


def test_from_tasks_to_evaluated_trajectories(server, tasks, tmp_path):
    url, requests = server
    single, multi, judged, joined = (tmp_path / f"{n}.jsonl" for n in ("single", "multi", "judged", "joined"))
    repair = ["-i", single, "-o", multi, "--turns", TURNS, *sampling(url)]
    door("run_single_turn_vllm", "-i", tasks, "-o", single, "-n", SAMPLES, *sampling(url))
    door("run_multi_turn_vllm", *repair)
    said = door("eval_multi_turn", "-i", multi, "-o", judged)
    rows = rows_of(judged)
    assert [row["id"] for row in rows] == list(range(TASKS))
    for row in rows:
        assert row["notes"] == add_task(row["id"])["notes"] and row["responses"] == row["raw_responses"][0]
        assert [len(c) for c in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        assert [len(result["passing"]) for result in row["exec_results"]] == [5] * SAMPLES
        for name in ("raw_responses", "public_exec_results", "finish_reasons", "usage"):
            assert [len(turn) for turn in row[name]] == [SAMPLES] * TURNS
        for s in range(SAMPLES):
            for t in range(TURNS):
                text = row["raw_responses"][t][s]
                rates = row["public_pass_rates"][t][s], row["all_pass_rates"][s][t]
                assert rates == pytest.approx(rates_of(text, row["id"])), text
                told = row["conversations"][s][3 + 2 * t]["content"]
                assert ("passed all public test cases" in told) == (rates[0] == 1)
    summary = json.loads((tmp_path / "judged.jsonl.summary.json").read_text())
    right = [
        [rate == 1 for row in rows for rate in list(zip(*row["all_pass_rates"], strict=True))[t]]
        for t in range(TURNS)
    ]
    shares = [sum(turn) / len(turn) for turn in right]
    assert summary["pass_at_1"] == pytest.approx(shares) and summary["groups"] == 3 and 0 < shares[0] < 1
    assert f"Pass@1 per turn (%): {' '.join(f'{100 * x:.2f}' for x in shares)}\n" in said
    manifest = read_manifest(multi)
    assert manifest["settings"]["turns"] == TURNS and manifest["tokens"]["programs"] == TASKS * SAMPLES * 2
    before, files = len(requests), {p.name: p.read_bytes() for p in tmp_path.glob("*.jsonl")}
    door("run_multi_turn_vllm", *repair)
    assert len(requests) == before and files == {p.name: p.read_bytes() for p in tmp_path.glob("*.jsonl")}
    more = ["-o", joined, "--turns", TURNS, "--first-turn", "-n", SAMPLES, *sampling(url)]
    door("run_multi_turn_vllm", "-i", tasks, *more)
    apart = [{k: v for k, v in row.items() if k != "exec_results"} for row in rows_of(multi)]
    assert rows_of(joined) == apart
    # Other settings are refused with the difference.
    bad = door("run_multi_turn_vllm", "-i", tasks, *more, "--temperature", "0.9", code=2)
    assert "temperature: 0.6 -> 0.9" in bad and rows_of(joined) == apart


def test_nothing_is_sampled_by_a_dry_run_or_for_a_service_that_is_not_there(server, tasks, tmp_path):
    url, requests = server
    before, out = len(requests), tmp_path / "out.jsonl"
    files = ["-i", tasks, "-o", out]
    said = door("run_multi_turn_vllm", *files, "--first_turn", "--dry_run", *sampling(url))
    assert f"{TASKS} tasks, {TASKS * 16 * 9} completions" in said
    said = door("run_single_turn_vllm", *files, "--base_url", "http://127.0.0.1:9", code=2)
    assert "no vLLM server answers at http://127.0.0.1:9; start one with: serve run" in said
    nobody = ["--engine", "openai", "--model_name", "m", "--base_url", "http://127.0.0.1:9/v1"]
    assert "no answer" in door("run_single_turn_vllm", *files, *nobody, code=1)
    assert len(requests) == before and [p.name for p in tmp_path.iterdir()] == ["tasks.jsonl"]


@pytest.mark.parametrize(
    "changes, says",
    [
        (["-i", "none.jsonl"], "none.jsonl"),
        (["--engine", "transformers", "--base_url", "", "--model_name", "none"], "no such folder"),
        (["--engine", "vllm", "--model_name", "other"], "serves scripted"),
        (["--model_name", "other"], "serves scripted"),
        (["--rpm", "5"], "limits of --engine litellm"),
        (["--max_cost", "1"], "no price is known for openai:scripted"),
        (["-o", "tasks.jsonl"], "is the input file"),
        (["-o", "/proc/none/out.jsonl"], "cannot write"),
        (["--temperature", "-1"], "temperature must be at least 0"),
    ],
)
def test_nothing_is_sampled_or_written_for_bad_input(server, tasks, tmp_path, monkeypatch, changes, says):
    url, requests = server
    before = len(requests)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(says)):
        main(["-i", "tasks.jsonl", "-o", "out.jsonl", *LOCAL, *sampling(url), *changes])
    assert len(requests) == before and [p.name for p in tmp_path.iterdir()] == ["tasks.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_killed_runs_add_up_to_an_undisturbed_one(tmp_path, kills):
    tasks, whole, out = (tmp_path / f"{name}.jsonl" for name in ("tasks", "whole", "out"))
    tasks.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(8 * kills)))
    with chat_server(delay_s=0.1) as (url, requests):
        how = ["-i", tasks, "--first_turn", "-n", "2", "--turns", "3", "--concurrency", "4", *sampling(url)]
        door("run_multi_turn_vllm", *how, "-o", whole)
        paid, rng, progress = len(requests), random.Random(kills), []
        for _ in range(kills):
            process = subprocess.Popen(
                command("run_multi_turn_vllm", *how, "-o", out), stderr=subprocess.DEVNULL
            )
            seen, wanted = len(requests), rng.randrange(5, paid // (kills + 1))
            while len(requests) < seen + wanted and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            progress.append(len(rows_of(out)))
        assert progress[-1] < 8 * kills and progress == sorted(progress)  # killed in the middle, nothing lost
        door("run_multi_turn_vllm", *how, "-o", out)
        again = len(requests) - paid
    assert rows_of(out) == rows_of(whole) and not out.with_name("out.jsonl.journal").exists()
    # At each kill 4 completions are in flight, and as many may have arrived in the last milliseconds.
    assert again <= paid + kills * 2 * 4


@pytest.mark.slow
def test_the_transformers_engine_behind_the_door(tmp_path):
    """A random tiny Qwen3, whose programs are noise: the same in another process and in other batches."""
    model = random_model(tmp_path / "random")
    tiny.write_splits(tmp_path, seed=0, train=6, dev=1, heldout=1)
    common = ["-i", tmp_path / "train.jsonl", "--first_turn", "-n", 2, "--turns", 3, "--prompts", "tiny",
              "--engine", "transformers", "--model_name", model, "--temperature", 1, "--top_p", 1,
              "--max_tokens", 24]  # fmt: skip
    subprocess.run(command("run_multi_turn_vllm", *common, "-o", tmp_path / "a.jsonl"), check=True)
    rows = rows_of(tmp_path / "a.jsonl")
    assert [row["id"] for row in rows] == [row["id"] for row in rows_of(tmp_path / "train.jsonl")]
    for row in rows:
        assert [len(c) for c in row["conversations"]] == [8, 8]
        assert all(used["completion_tokens"] <= 24 for turn in row["usage"] for used in turn)
        assert row["responses"][0] != row["responses"][1]
        assert {reason for turn in row["finish_reasons"] for reason in turn} <= {"stop", "length"}
    assert read_manifest(tmp_path / "a.jsonl")["settings"]["model"].startswith("model:")
    door("run_multi_turn_vllm", *common, "-o", tmp_path / "b.jsonl", "--concurrency", 3)
    assert rows_of(tmp_path / "b.jsonl") == rows
