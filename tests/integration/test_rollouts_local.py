"""The multi-turn door with a model of its own: a random tiny Qwen3, whose programs are noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import without_times

from cobalt.manifest import read_manifest
from cobalt.rollouts.multi_turn import main
from cobalt.rows import read_rows
from cobalt.tasks import tiny

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder, reference = tmp_path_factory.mktemp("random"), ROOT / "models" / "tiny-reference"
    torch.manual_seed(2)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(reference)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(reference).save_pretrained(folder)
    return folder


def door(*args):
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_multi_turn_vllm.py"), *map(str, args)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_the_transformers_engine_behind_the_door(model, tmp_path):
    tiny.write_splits(tmp_path, seed=0, train=6, dev=1, heldout=1)
    common = ["-i", tmp_path / "train.jsonl", "--first_turn", "-n", 2, "--turns", 3, "--prompts", "tiny",
              "--engine", "transformers", "--model_name", model, "--temperature", 1, "--top_p", 1,
              "--max_tokens", 24, "--evaluator", "local", "--workers", 1]  # fmt: skip
    door(*common, "-o", tmp_path / "a.jsonl")
    rows = [row for _, row in read_rows(tmp_path / "a.jsonl")]
    assert [row["id"] for row in rows] == [
        json.loads(line)["id"] for line in (tmp_path / "train.jsonl").read_text().splitlines()
    ]
    for row in rows:
        assert [len(c) for c in row["conversations"]] == [8, 8]
        assert {used["completion_tokens"] <= 24 for turn in row["usage"] for used in turn} == {True}
        assert row["responses"][0] != row["responses"][1]
        assert {reason for turn in row["finish_reasons"] for reason in turn} <= {"stop", "length"}
    settings = read_manifest(tmp_path / "a.jsonl")["settings"]
    assert settings["model"].startswith("model:")
    assert main([*map(str, common), "-o", str(tmp_path / "b.jsonl"), "--concurrency", "3"]) == 0
    assert without_times([row for _, row in read_rows(tmp_path / "b.jsonl")]) == without_times(rows)
