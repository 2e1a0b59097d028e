"""`cobalt eval` as a process against a served model: table, files, kill and continue; single-turn scores."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_server import add_task, chat_server, rates_of, without_times

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from data_rows import lcb

from cobalt.errors import InputError, SettingsChanged
from cobalt.manifest import read_manifest
from cobalt.prompts import DEFAULT
from cobalt.rollouts.runner import BudgetReached
from cobalt.rows import read_rows
from cobalt.run.evaluate import main, task_set

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = f"{ROOT / 'examples/engine/template_engine.py'}:TemplateEngine"
TASKS, SAMPLES, TURNS = 8, 2, 3


def command(*words):
    return [sys.executable, "-m", "cobalt", "eval", *map(str, words)]


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(add_task(i)) + "\n" for i in range(TASKS)))
    return path


def rows_of(folder, name):
    return without_times([row for _, row in read_rows(folder / f"{name}.jsonl")])


def test_a_served_model_is_evaluated_killed_and_continued(tasks, tmp_path):
    """The address as a person copies it, without /v1; killed twice; then the table, then the table again."""
    out, whole, env = tmp_path / "out", tmp_path / "whole", os.environ | {"PYTHONPATH": str(ROOT)}
    with chat_server(delay_s=0.05) as (url, requests):
        how = [url.removesuffix("/v1"), "--tasks", tasks, "-n", SAMPLES, "--concurrency", 2, "--workers", 1]
        said = subprocess.run(
            command(*how, "--dry_run"), capture_output=True, text=True, cwd=tmp_path, env=env
        )
        assert f"{TASKS} tasks, {TASKS * SAMPLES * TURNS} completions" in said.stdout, said.stderr
        assert not requests and [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]
        for paid in (6, 28):  # in the first turn, in a later one
            process = subprocess.Popen(command(*how, "-o", out), stderr=subprocess.DEVNULL, env=env)
            while len(requests) < paid and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert not (out / "multi_eval.jsonl").exists()
        done = subprocess.run(command(*how, "-o", out), capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        assert len(requests) <= TASKS * SAMPLES * TURNS + 2 * 2 * 2
        before = len(requests)
        again = subprocess.run(command(*how, "-o", out), capture_output=True, text=True, env=env)
        assert len(requests) == before  # nothing is paid for twice
        assert again.stdout.splitlines()[1:] == done.stdout.splitlines()[1:]
        assert main([*map(str, how), "-o", str(whole)]) == 0
        with pytest.raises(SettingsChanged, match="temperature"):
            main([*map(str, how), "-o", str(out), "--temperature", "0.1"])
    for name in ("tasks", "single", "multi", "multi_eval"):
        assert rows_of(out, name) == rows_of(whole, name)
        assert (out / f"{name}.jsonl.manifest.json").exists()
    assert (
        json.loads((out / "multi.jsonl.manifest.json").read_text())["settings"]["model"] == "openai:scripted"
    )
    right = [0] * TURNS
    for row in rows_of(out, "multi_eval"):
        for turn in range(TURNS):
            for sample in range(SAMPLES):
                right[turn] += rates_of(row["raw_responses"][turn][sample], row["id"])[1] == 1
    shown = re.findall(r"^ +(\d) +(\d+\.\d) \[", done.stdout, re.M)
    assert shown == [(str(t + 1), f"{100 * n / TASKS / SAMPLES:.1f}") for t, n in enumerate(right)]
    assert "openai:scripted on" in done.stdout and f"{TASKS} tasks, {SAMPLES} samples each" in done.stdout


def test_what_it_may_cost_is_for_first_programs_and_repairs_together(tasks, tmp_path):
    with chat_server() as (url, _):
        how = [url, "--tasks", str(tasks), "-n", "2", "-o", str(tmp_path / "out"), "--prices", "1", "1"]
        with pytest.raises(BudgetReached, match=r"--max_cost 0\.03: \$0\.02\d* are spent"):
            main([*how, "--max_cost", "0.03"])
    parts = [read_manifest(tmp_path / "out" / f"{name}.jsonl") for name in ("single", "multi")]
    costs = [part["tokens"]["cost_usd"] for part in parts]
    assert min(costs) > 0.005 and 0.02 < sum(costs) <= 0.03


def test_single_turn_runs_say_their_score_and_are_evaluated(tasks, tmp_path):
    def door(name, *words, code=0):
        line = [sys.executable, str(ROOT / f"{name}.py"), *map(str, words), "--evaluator", "local"]
        done = subprocess.run(
            line, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    single, judged = tmp_path / "single.jsonl", tmp_path / "single_eval.jsonl"
    with chat_server() as (url, _):
        model = ["--engine", "openai", "--base_url", url]
        said = door("run_single_turn_vllm", "-i", tasks, "-o", single, "-n", 4, *model)
    rates = [[rates_of(text, row["id"]) for text in row["responses"]] for _, row in read_rows(single)]
    for place, what in ((0, "public tests"), (1, "all tests")):
        # who passes the hidden tests of these tasks passes the public ones
        right = sum(each[place] == 1 for row in rates for each in row)
        assert f"{what}: Pass@1 {100 * right / 4 / TASKS:.1f} [" in said
    assert f"({TASKS} tasks, {4 * TASKS} completions)" in said and "Pass@4" in said
    said = door("eval_multi_turn", "-i", single, "-o", judged)
    hidden = [[each[1] for each in row] for row in rates]
    assert [[rate for (rate,) in row["all_pass_rates"]] for _, row in read_rows(judged)] == [
        pytest.approx(row) for row in hidden
    ]
    summary = json.loads((tmp_path / "single_eval.jsonl.summary.json").read_text())
    one = sum(rate == 1 for row in hidden for rate in row) / 4 / TASKS
    assert summary["pass_at_1"] == pytest.approx([one]) and summary["turns"] == 1
    assert summary["pass_at_k"]["4"] == pytest.approx([sum(1 in row for row in hidden) / TASKS])
    assert None not in summary["pass_at_k_ci95"]["2"][0] and "Pass@2 per turn" in said
    said = door("eval_multi_turn", "-i", tasks, "-o", tmp_path / "x.jsonl", code=2)
    assert "these are tasks, not programs; run_single_turn_vllm.py, or" in said
    assert not (tmp_path / "x.jsonl").exists()


PLAIN = {"id": 1, "question": "Add.", "test_cases": add_task(1)["test_cases"]}
SWAPPED = {"modified_test_cases": add_task(1)["public_test_cases"]}


@pytest.mark.parametrize(
    ("row", "public", "asked"),
    [
        (add_task(1), 2, "Print the sum"),
        (PLAIN, 4, "Add."),
        (add_task(1) | SWAPPED, 2, "Print the sum"),
        (lcb("q1"), None, "stdin"),
    ],
    ids=["ready", "bare", "perturbed", "livecodebench"],
)
def test_every_kind_of_task_is_made_whole(tmp_path, row, public, asked):
    (path := tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    ((_, made),) = list(task_set(str(path), DEFAULT))
    assert asked in made["instruction"]
    for name in ("test_cases", "public_test_cases", "hidden_test_cases"):
        assert json.loads(made[name])["inputs"]
    assert public is None or len(json.loads(made["public_test_cases"])["inputs"]) == public


def test_the_tiny_set_is_the_held_out_one_of_the_demo():
    rows = [row for _, row in task_set("tiny", DEFAULT)]
    assert len(rows) == 300 and rows[0]["id"] == "tiny-heldout-0000" and rows[0]["group"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tasks", "none.jsonl"], "cannot read none.jsonl"),
        (["--tasks", "bad.jsonl"], "bad.jsonl:1: field 'test_cases' is missing"),
        (["--turns", "2", "--engine", "openai"], "needs --base_url|needs --model_name"),
        (["--max_cost", "1"], "no price is known"),
        (["-o", "tasks.jsonl"], "cannot write"),
    ],
)
def test_nothing_is_written_for_what_cannot_be_used(tasks, tmp_path, monkeypatch, flags, says):
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_text('{"id": 1, "question": "Add."}\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InputError, match=says):
        main([TEMPLATE, "--tasks", "tasks.jsonl", *flags])
    assert sorted(path.name for path in tmp_path.iterdir()) == before
