"""The published README travelled: its commands, each in a process of its own, beside one running cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from chat_server import add_task, respond, without_times
from data_doors import make_model
from data_rows import lcb, many_taco, read, write
from http_server import serving
from hub_server import hub
from published_readme import ENGINE, EVAL, EVALUATOR, README, SHORT, Step
from serve_session import ROOT, Cluster, cluster
from training_assets import TESTS
from training_assets import make_model as make_policy

from cobalt.data import main as data_main
from cobalt.evaluator import LocalEvaluator
from cobalt.prompts import ALL_PASSED_MARKER, FEEDBACK_MARKER
from cobalt.text import extract_code

pytestmark = pytest.mark.slow
VLLM_ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_CI_ENV": "1",
}  # fmt: skip
SAMPLES, TURNS, KEY = 16, 9, "sk-a-key-3141592653589793"
VLLM = ROOT / ".venv-vllm" / "bin"  # as `make test-vllm` leaves it


def tasks(count: int) -> list[dict[str, Any]]:
    """Published rows, and no field more than those have; the two first public tests can be perturbed."""
    rows = []
    for key in range(count):
        row = add_task(key)
        tests = {
            "inputs": [f"{key} {n}\n" for n in (1, 5, 9)],
            "outputs": [f"{key + n}\n" for n in (1, 5, 9)],
        }
        hidden = json.loads(row["hidden_test_cases"])
        row |= {
            "id": f"task-{key}", "public_test_cases": json.dumps(tests),
            "test_cases": json.dumps({name: tests[name] + hidden[name] for name in tests}),
        }  # fmt: skip
        rows.append({name: value for name, value in row.items() if name not in ("group", "notes")})
    return rows


@contextmanager
def provider() -> Iterator[str]:
    """An OpenAI-compatible service: dialogues as the stand-in answers them, and a judge."""

    async def chat(request: web.Request) -> web.Response:
        payload = await request.json()
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        judging = "Final Verdict" in payload["messages"][0]["content"]
        text = "Final Verdict: (1) Hard Coding" if judging else respond(payload["messages"], payload["seed"])
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        return web.json_response({
            "id": "1", "object": "chat.completion", "created": 1, "model": payload["model"], "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        })  # fmt: skip

    with serving(chat) as url:
        yield url


def checkout(folder: Path, count: int) -> None:
    """A folder like a clone of this project, with inputs beside the doors."""
    for path in [*ROOT.glob("*.py"), ROOT / "preproc", ROOT / "scripts"]:
        (folder / path.name).symlink_to(path)
    write(folder / "tasks.jsonl", tasks(count))
    write(folder / "test6.jsonl", [lcb("a"), lcb("b", functional=True)])
    write(folder / "hub" / "train.jsonl", many_taco(16))
    make_model(folder / "model")
    make_policy(folder / "policy")


def released_ptb(folder: Path) -> None:
    """As released: perturbed tests under the name that the runners read; first turns are the clean run's."""
    first = {row["id"]: row["responses"] for row in read(folder / "single.jsonl")}
    rows = read(folder / "perturbed.jsonl")
    for row in rows:
        row["public_test_cases"] = row.pop("perturbed_public_test_cases")
        row["responses"] = first[row["id"]]
    write(folder / "ptb.jsonl", rows)


def twin(step: Step) -> str:
    """The same command where programs run in the door's own process."""
    line = f"{step.line} --evaluator local"
    for name in step.writes:
        line = line.replace(f"--output_file {name}", f"--output_file local/{name}")
    return line if "--output_file" in line else f"{line} --output_file local/{next(iter(step.writes))}"


def take(
    step: Step, there: Cluster, folder: Path, env: dict[str, str], capsys: Any, twins: bool = True
) -> str:
    """One command, and beside it its twin; what it printed."""
    names = {
        "TASKS": "tasks.jsonl", "PTB": "ptb.jsonl", "MODEL": "./model", "KEY": KEY,
    }  # fmt: skip
    if "{PTB}" in step.line:
        released_ptb(folder)
    twins = twins and step.judged
    lines = [step.line, *([twin(step)] if twins else [])]
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(lambda line: there.run(line.format(**names), folder, **env), lines))
    for line, each in zip(lines, done, strict=True):
        assert each.returncode == 0, f"{line}\n{each.stdout}\n{each.stderr}"
        assert KEY not in each.stdout + each.stderr
    if step.judged:
        assert "the Ray Serve application 'evaluator'" in done[0].stderr
    if twins:
        assert "evaluator: in process" in done[1].stderr
    capsys.readouterr()
    for name, kind in step.writes.items():
        assert data_main(["check", str(folder / name)]) == 0
        assert f"rows, {kind}" in capsys.readouterr().out, name
        if twins:
            assert by_id(folder / name) == by_id(folder / "local" / name), name
    assert all(text in done[0].stdout for text in step.prints)
    return done[0].stdout


def by_id(path: Path) -> dict[str, Any]:
    return {row["id"]: without_times(row) for row in read(path)}


def check_axes(folder: Path, name: str, count: int) -> None:
    rows = read(folder / name)
    assert len(rows) == count
    for row in rows:
        assert [len(row[field]) for field in ("raw_responses", "public_pass_rates")] == [TURNS, TURNS]
        assert {len(turn) for turn in row["public_pass_rates"]} == {SAMPLES}
        assert [len(messages) for messages in row["conversations"]] == [2 + 2 * TURNS] * SAMPLES
        assert all(len(rates) == TURNS for rates in row["all_pass_rates"])
        for s, messages in enumerate(row["conversations"]):
            for t, message in enumerate(messages[3::2]):
                assert FEEDBACK_MARKER in message["content"]
                passed = row["public_pass_rates"][t][s] == 1
                assert (ALL_PASSED_MARKER in message["content"]) == passed


def check_printed(folder: Path, printed: str) -> None:
    """The line that people parse holds the rates of the file."""
    rows = [row["all_pass_rates"] for row in read(folder / "judged.jsonl")]
    shares = [sum(s[t] == 1 for row in rows for s in row) / (len(rows) * SAMPLES) for t in range(TURNS)]
    listed = printed.split("Hidden Test Cases Pass @ 1: ")[1].splitlines()[0]
    assert json.loads(listed) == pytest.approx([100 * share for share in shares], abs=0.006)
    assert 0 < shares[0] < 1


@pytest.mark.full
def test_the_published_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 4
    checkout(tmp_path, count)
    (tmp_path / "local").mkdir()
    with cluster() as there, provider() as url, hub({"likaixin/TACO-verified": tmp_path / "hub"}) as (at, _):
        env = {
            "OPENAI_BASE_URL": url,
            "HF_ENDPOINT": at,
            "HF_HUB_OFFLINE": "0",
            "HF_HOME": str(tmp_path / "hf"),
            "MODEL": "./policy",
        }
        printed = {}
        for step in README:
            if step.stays:
                serve(step, there, tmp_path)
            else:
                printed[step.line] = take(step, there, tmp_path, env, capsys)
    check_axes(tmp_path, "judged.jsonl", count)
    check_printed(tmp_path, next(text for line, text in printed.items() if "eval_multi_turn" in line))
    check_axes(tmp_path, "ptb_judged.jsonl", count)
    verdicts = read(tmp_path / "verdicts.jsonl")
    assert verdicts and all(row["classification"] == ["(1) Hard Coding"] for row in verdicts)


def serve(step: Step, there: Cluster, folder: Path) -> None:
    line = step.line
    if step is ENGINE and there.servers:
        line += " model=./policy device=cpu enforce_eager=true gpu_memory_utilization=0.1"
        # On a CPU vLLM ends if a seeded request's prompt is read in several steps ("Generator ... offset").
        line += " max_num_batched_tokens=131072"
    elif step is ENGINE:
        line = line.replace("vllm_engine_actor:app", "standin_actor:app")
    there.start(line, step.stays, folder)


@pytest.mark.full
@pytest.mark.skipif(not (VLLM / "serve").exists(), reason="vLLM's CPU build is not here: make test-vllm")
def test_the_published_readme_on_vllm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same with the real engine, which samples anew each time: its programs are judged once more here."""
    checkout(tmp_path, 0)
    both = json.dumps(TESTS)
    fields = ("test_cases", "public_test_cases", "hidden_test_cases")
    write(
        tmp_path / "tasks.jsonl",
        [{"id": n, "instruction": f"Task {n}", **dict.fromkeys(fields, both)} for n in range(2)],
    )
    make_policy(tmp_path / "policy", head_dim=32, positions=16384, other=r"\w+|[\s\S]")
    (tmp_path / "local").mkdir()
    with cluster(VLLM) as there:
        for step in SHORT:
            if step.stays:
                serve(step, there, tmp_path)
            else:
                take(step, there, tmp_path, VLLM_ENV, capsys, twins=step is EVAL)
    check_axes(tmp_path, "judged.jsonl", 2)
    with LocalEvaluator(2) as judge:
        for row in read(tmp_path / "judged.jsonl"):
            for texts, results in zip(row["raw_responses"], row["public_exec_results"], strict=True):
                for text, result in zip(texts, results, strict=True):
                    assert judge.evaluate(extract_code(text), TESTS)["passing"] == result["passing"]
            assert row["all_pass_rates"] == [
                list(rates) for rates in zip(*row["public_pass_rates"], strict=True)
            ]


@pytest.mark.full
def test_services_that_are_not_ours(tmp_path: Path) -> None:
    """One line, exit code 2, and nothing written, for whatever else may run in a cluster."""
    checkout(tmp_path, 2)
    write(tmp_path / "judge_me.jsonl", trajectories())
    door = "python eval_multi_turn.py -i judge_me.jsonl -o out.jsonl"
    single = "python run_single_turn_vllm.py -i tasks.jsonl -o out.jsonl --evaluator local"
    with cluster() as there:
        refused(
            there.run(f"{door} --evaluator serve", tmp_path), "no Ray Serve application 'evaluator'", tmp_path
        )
        refused(there.run(single, tmp_path), "no vLLM server answers", tmp_path)
        judge = "serve run remote_reward_server:app --name judge --route-prefix /judge"
        there.start(judge, "Application 'judge' is ready", tmp_path)
        engine = "serve run standin_actor:app --name m --route-prefix /m"
        there.start(engine, "Application 'm' is ready", tmp_path)
        for line, says in ((door, "as application 'judge'"), (single, "as application 'm'")):
            refused(there.run(line, tmp_path), says, tmp_path)
        there.start(
            "serve run standin_actor:old_evaluator --name evaluator --route-prefix /evaluator",
            EVALUATOR.stays, tmp_path,
        )  # fmt: skip
        for where in ("auto", f"http://127.0.0.1:{there.http}"):
            done = there.run(f"{door} --evaluator {where}", tmp_path)
            refused(done, "this version's" if where == "auto" else "of this version running there?", tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nobody.invalid:6379", "{server}"])
def test_a_cluster_that_is_none(address: str, tmp_path: Path) -> None:
    write(tmp_path / "judge_me.jsonl", trajectories())
    with provider() as url:
        env = {"RAY_ADDRESS": address.format(server=url.removeprefix("http://").removesuffix("/v1"))}
        command = [
            sys.executable,
            str(ROOT / "eval_multi_turn.py"),
            "-i",
            "judge_me.jsonl",
            "-o",
            "out.jsonl",
        ]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    refused(done, "no Ray cluster can be joined", tmp_path)


def refused(done: subprocess.CompletedProcess[str], says: str, folder: Path) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert [line.startswith("error: ") for line in lines] == [True] and says in lines[0], done.stderr
    assert not list(folder.glob("out*"))


def trajectories() -> list[dict[str, Any]]:
    """Rows as the published multi-turn script writes them, one turn long."""
    rows = []
    for row in tasks(2):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": row["instruction"]}]
        messages.append({"role": "assistant", "content": respond(messages)})
        messages.append({"role": "user", "content": f"{FEEDBACK_MARKER}\nnone"})
        rows.append(row | {"conversations": [messages]})
    return rows
