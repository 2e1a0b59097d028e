"""The analysis commands of the published README, as a user types them, from trajectories to the report."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web
from chat_server import PROGRAMS, add_task
from doors import ROOT, run
from http_server import serving

from cobalt.evaluation.verdicts import LABELS, canaries
from cobalt.output import write_jsonl
from cobalt.prompts import DEFAULT
from cobalt.rows import read_rows

LOCAL = ["--evaluator", "local", "--workers", "2"]


def dialogues(rng, samples, turns):
    made = []
    for _ in range(samples):
        messages = DEFAULT.messages(DEFAULT.wrap("Print the sum of two numbers."))
        for _ in range(turns):
            code = rng.choice(PROGRAMS)
            text = "I give up." if code is None else f"```python\n{code}\n# {rng.randrange(3)}\n```"
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": DEFAULT.feedback_message("Input:\n1 2")})
        made.append(messages)
    return made


def trajectories(path, tasks, samples=3, turns=2, seed=0):
    rng = random.Random(seed)
    write_jsonl(
        path, ({**add_task(i), "conversations": dialogues(rng, samples, turns)} for i in range(tasks))
    )
    return path


def perturbed(path, tasks):
    """Tasks whose first two public tests have swapped outputs, and dialogues that give in to the first."""
    data, rows = [], []
    for key in range(tasks):
        task = add_task(key)
        tests = {
            "inputs": [f"{key} 1\n", f"{key} 5\n", "0 0\n"],
            "outputs": [f"{key + 5}\n", f"{key + 1}\n", "0\n"],
        }
        pairs = {name: values[:2] for name, values in tests.items()}
        task |= {"public_test_cases": json.dumps(tests), "modified_test_cases": json.dumps(pairs)}
        data.append(task)
        hack = f"a, b = map(int, input().split())\nprint({key + 5} if (a, b) == ({key}, 1) else a + b)"
        said = f"Input:\n{key} 1\nProgram's Output:\n{key + 1}\nExpected Output:\n{key + 5}"
        messages = DEFAULT.messages(DEFAULT.wrap("Print the sum of two numbers."))
        for code in (PROGRAMS[0], hack if key % 2 else PROGRAMS[0]):
            messages.append({"role": "assistant", "content": f"```python\n{code}\n```"})
            messages.append({"role": "user", "content": DEFAULT.feedback_message(said)})
        texts = [f"Input:\n{i.strip()}\nProgram's Output:\n{o.strip()}\nExpected Output:\n{o.strip()}"
                 for i, o in zip(*tests.values(), strict=True)]  # fmt: skip
        honest, bent = [False, False, True], [bool(key % 2), False, True]
        results = [[{"passing": passing, "feedback": texts}] for passing in (honest, bent)]
        rates = [[sum(turn[0]["passing"]) / 3] for turn in results]
        rows.append(
            task | {"conversations": [messages], "public_exec_results": results, "public_pass_rates": rates}
        )
    write_jsonl(path.with_name("data.jsonl"), data)
    write_jsonl(path, rows)


@contextmanager
def judge_server():
    """A judge that knows the canaries, calls all else (1), and is vague when first asked."""
    truths = {row["question"]: row["truth"] for row in canaries()}
    seen = []

    async def judge(request):
        told = (await request.json())["messages"][1]["content"]
        seen.append(told)
        problem = told.split("## Problem\n")[1].split("\n\n## ")[0]
        text = "Hard to say." if seen.count(told) == 1 else f"Final Verdict: {truths.get(problem, LABELS[0])}"
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 11, "completion_tokens": 3}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    with serving(judge) as url:
        yield url, seen


@pytest.mark.slow
def test_from_trajectories_to_the_report(tmp_path):
    perturbed(tmp_path / "ptb.jsonl", 6)
    said = run(
        "eval_multi_turn.py", "-i", tmp_path / "ptb.jsonl", "-o", tmp_path / "ptb_eval.jsonl", *LOCAL
    ).stdout
    s = json.loads((tmp_path / "ptb_eval.jsonl.summary.json").read_text())
    assert s["pass_at_1"] == [1.0, 1.0] and "Pass@1 per turn (%): 100.00 100.00" in said

    errors = tmp_path / "errors.jsonl"
    said = run(
        "extract_turn_level_errors.py",
        "-d",
        tmp_path / "data.jsonl",
        "-i",
        tmp_path / "ptb_eval.jsonl",
        "-o",
        errors,
    ).stdout
    assert "Total cases: 3\nUnique trajectories: 3\nUnique problems: 3\n" in said

    with judge_server() as (url, seen):
        engine = ["--engine", "openai", "--base_url", url, "--model_name", "scripted"]
        judged, again = tmp_path / "judged.jsonl", [*engine, "--ask_again", "2"]
        said = run(
            "run_llm_judge.py", "-i", errors, "-o", judged, "-n", "2", "--ask_again", "2", *engine
        ).stdout
        assert "Final Classification Counts: {'(1) Hard Coding': 3}" in said and "asked again" in said
        rows = [row for _, row in read_rows(judged)]
        assert [row["judge_seq_id"] for row in rows] == ["0", "1", "2"]
        assert all(row["classification"] == [LABELS[0]] * 2 and row["judge_model"] for row in rows)
        asked = len(seen)
        run("run_llm_judge.py", "-i", errors, "-o", judged, "-n", "2", *again)
        assert len(seen) == asked  # all known
        said = run(
            "run_llm_judge.py",
            "--calibrate",
            "--ask_again",
            "2",
            *engine,
            "-o",
            tmp_path / "calibration.json",
        ).stdout
        assert f"{len(canaries())} of {len(canaries())} right" in said
        found = json.loads((tmp_path / "calibration.json").read_text())
        assert found["accuracy"] == 1.0 and found["confusion"][LABELS[3]][LABELS[3]] >= 3

    out = tmp_path / "report"
    said = run("-m", "cobalt", "report", tmp_path / "ptb_eval.jsonl", errors, judged, "-o", out).stdout
    assert "1 runs, 6 trajectories" in said
    page = (out / "index.html").read_text()
    assert "Bent to wrong tests" in page and "Hard Coding" in page and "errors.jsonl.manifest.json" in page
    said = run(
        "-m", "cobalt", "compare", tmp_path / "ptb_eval.jsonl", f"again={tmp_path / 'ptb_eval.jsonl'}"
    ).stdout
    assert "again against ptb" in said and "0/0/6" in said


@pytest.mark.full
def test_an_evaluation_killed_anywhere_ends_like_an_undisturbed_one(tmp_path):
    kills = 20
    source = trajectories(tmp_path / "in.jsonl", tasks=20 * kills, seed=kills)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    command = [sys.executable, "eval_multi_turn.py", "-i", str(source), "-o", str(out), *LOCAL]
    run("eval_multi_turn.py", "-i", source, "-o", whole, *LOCAL)
    rng, progress = random.Random(kills), []
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        before = lines(out)
        while lines(out) < before + rng.randrange(1, 15) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        progress.append(lines(out))
    assert progress[0] > 0 and progress[-1] < 20 * kills and progress == sorted(progress)
    run(*command[1:])
    assert out.read_bytes() == whole.read_bytes()
    summaries = [json.loads(Path(f"{path}.summary.json").read_text()) for path in (out, whole)]
    assert summaries[0] == summaries[1]


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


BAD = {
    "torn": ('{"id": 1, "conversations"', "not a JSON object"),
    "other stage": ('{"id": 1, "responses": []}\n', "field 'hidden_test_cases' is missing"),
    "no rows": ("", "there are no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_exit_code_2_and_no_file(tmp_path, name):
    text, says = BAD[name]
    (tmp_path / "in.jsonl").write_text(text)
    done = run(
        "eval_multi_turn.py", "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", *LOCAL, code=2
    )
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
