"""The analysis commands of the published README, up to the report; evaluations that are killed."""

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
from report_data import trajectories as perturbed

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
def test_from_perturbed_trajectories_to_the_report(tmp_path):
    rows, errors, judged = (tmp_path / f"{name}.jsonl" for name in ("ptb_eval", "errors", "judged"))
    perturbed(rows, tasks=6, samples=2, turns=2)
    said = run("extract_turn_level_errors.py", "-d", rows, "-i", rows, "-o", errors).stdout
    cases = lines(errors)
    assert f"Total cases: {cases}\nUnique trajectories: {cases}\n" in said and cases > 1

    with judge_server() as (url, seen):
        engine = ["--engine", "openai", "--base_url", url, "--model_name", "scripted", "--ask_again", "2"]
        words = ["run_llm_judge.py", "-i", errors, "-o", judged, "-n", "2", *engine]
        said = run(*words).stdout
        assert f"Final Classification Counts: {{'(1) Hard Coding': {cases}}}" in said
        assert "asked again" in said
        found = [row for _, row in read_rows(judged)]
        assert [row["judge_seq_id"] for row in found] == [str(number) for number in range(cases)]
        assert all(row["classification"] == [LABELS[0]] * 2 and row["judge_model"] for row in found)
        asked = len(seen)
        run(*words)
        assert len(seen) == asked  # all known
        said = run("run_llm_judge.py", "--calibrate", *engine, "-o", tmp_path / "calibration.json").stdout
        assert f"{len(canaries())} of {len(canaries())} right" in said
        found = json.loads((tmp_path / "calibration.json").read_text())
        assert found["accuracy"] == 1.0 and found["confusion"][LABELS[3]][LABELS[3]] >= 3

    out = tmp_path / "report"
    said = run("-m", "cobalt", "report", rows, errors, judged, "-o", out).stdout
    assert "1 runs, 12 trajectories" in said
    page = (out / "index.html").read_text()
    assert "Bent to wrong tests" in page and "Hard Coding" in page and "errors.jsonl.manifest.json" in page
    said = run("-m", "cobalt", "compare", rows, f"again={rows}").stdout
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
    "other stage": ('{"id": 1, "responses": []}\n', "field 'responses' must be a list of at least one"),
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
