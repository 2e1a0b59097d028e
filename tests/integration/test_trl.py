"""TRL's own GRPOTrainer with our reward, in an environment of its own: `make test-integrations`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from docs_blocks import ROOT, blocks
from foreign_env import run_in
from serve_session import free_port

from cobalt.evaluator import LocalEvaluator
from cobalt.output import write_jsonl
from cobalt.rewards.cobalt import PLAIN, shaped_reward
from cobalt.rollouts.trajectory import pass_rate
from cobalt.tasks.tiny import draw_tasks
from cobalt.text import extract_code

pytestmark = [pytest.mark.slow, pytest.mark.full]
MODEL = ROOT / "models" / "tiny-reference"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    path = tmp_path_factory.mktemp("trl") / "tasks.jsonl"
    write_jsonl(path, draw_tasks("train", 12, 0))
    return path


@pytest.fixture
def url():
    port = free_port()
    command = [sys.executable, ROOT / "tests" / "integration" / "evaluator_process.py", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_grpo_trains_with_our_reward(tasks, url, tmp_path):
    cases = [
        {"form": "ids", "named": {}, "steps": 3, "overlapped": True},
        {"form": "columns", "named": {"reward": "passed", "evaluator": url}, "steps": 2},
        {"form": "columns", "named": {"max_masked_share": 0.5}, "steps": 2, "fault_every": 5},
        {"form": "ids", "named": {"max_masked_share": 0.5}, "steps": 1, "fault_every": 5, "beside": True},
        {"form": "ids", "named": {}, "steps": 1, "fault_every": 5},
    ]
    script = ROOT / "tests" / "integration" / "trl_training.py"
    said = run_in("trl", "python", script, MODEL, tasks, json.dumps(cases), tmp_path / "out", cwd=tmp_path)
    made = json.loads(said.partition("RESULT")[2])
    with LocalEvaluator(2) as evaluator:
        for case, found in zip(cases[:3], made, strict=False):
            assert found["changed"] and len(found["seen"]) == 16 * case["steps"]
            for text, tests, best, reward in found["seen"]:
                rate = pass_rate(evaluator.evaluate(extract_code(text), tests))
                assert best == (0.25 if case["form"] == "columns" else 0.0)
                wanted = float(rate == 1) if case["named"].get("reward") else shaped_reward(
                    text, rate, prev_best_pass_rate=best, count_tokens=len, profile=PLAIN
                ).total  # fmt: skip
                assert reward == wanted or (reward is None and "fault_every" in case)
            logged = [each for each in found["log"] if "reward" in each]
            for step, each in enumerate(logged):
                kept = [row[3] for row in found["seen"][16 * step :][:16] if row[3] is not None]
                assert each["reward"] == pytest.approx(sum(kept) / len(kept), abs=1e-6)
                assert "reward/pass_rate" in each and (len(kept) < 16) == ("fault_every" in case)
    rewards = {row[3] for row in made[0]["seen"]}
    assert len(rewards) > 1 and None not in rewards
    assert made[3]["error"].startswith("InfraError") and "beside other reward functions" in made[3]["error"]
    assert made[4]["error"].startswith("InfraError") and "max_masked_share=0.1" in made[4]["error"]


def test_the_example_of_the_page_trains(tasks, tmp_path):
    (block,) = [each for each in blocks(ROOT / "docs" / "integrations.md") if each.mark == "trl"]
    (tmp_path / "tasks.jsonl").write_bytes(tasks.read_bytes())
    (tmp_path / "models").symlink_to(MODEL.parent)
    (tmp_path / "train.py").write_text(block.text)
    assert len(block.text.splitlines()) <= 10
    run_in("trl", "python", "train.py", cwd=tmp_path)
    assert list((tmp_path / "out").glob("**/model.safetensors"))
