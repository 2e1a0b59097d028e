"""The data section of the published README: every command as it stands there, on local files.

Hub names are given as local files, and `{INPUT_FNAME}` and the like are filled in; nothing else is changed.
Programs run in process (the service is tested in test_serve.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from data_doors import make_model, trajectories
from data_rows import lcb, many_taco, read, task, write

from cobalt.commands.data import main as data_main

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

# name -> (command, files it must write with the kind that `cobalt data check` finds in them)
COMMANDS = {
    "clean TACO": (
        "python preproc/preproc_taco.py --input_file {TACO}",
        {
            "data/taco_verified_filtered.jsonl": "tasks",
            "data/taco_verified_filtered_train.jsonl": "tasks",
            "data/taco_verified_filtered_dev.jsonl": "tasks",
        },
    ),
    "perturb": (
        "python preproc/run_perturbation.py \\\n    --input_file {TASKS} \\\n    --output_file {PTB}",
        {"ptb.jsonl": "perturbed tasks"},
    ),
    "contexts for training": (
        "python preproc/process_multi_turn_taco.py \\\n    --input_file {JUDGED} \\\n"
        "    --output_file {CONTEXTS} \\\n    --model_name {LLM_NAME}",
        {"contexts.jsonl": "contexts"},
    ),
    "contexts for validation": (
        "python preproc/process_multi_turn_taco.py \\\n    --input_file {JUDGED} \\\n"
        "    --output_file {DEV} \\\n    --model_name {LLM_NAME} \\\n    --is_test",
        {"dev_contexts.jsonl": "contexts"},
    ),
    "LiveCodeBench": ("python preproc/preproc_lcb_test6.py", {"data/lcb_v6.jsonl": "tasks"}),
    # Not in the section itself, but what the training scripts read.
    "Parquet of contexts": (
        "python preproc/verl_preproc_multi_turn.py --local_dir {PARQUET} "
        "--train_data_file {CONTEXTS} --val_data_file {DEV}",
        {"parquet/train.parquet": "training examples", "parquet/test.parquet": "training examples"},
    ),
    "Parquet of tasks": (
        "python preproc/verl_preproc_single_turn.py --local_dir {PARQUET_SINGLE}",
        {"parquet_single/train.parquet": "training examples"},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a checkout: the doors, and inputs under the names that the README uses."""
    place = tmp_path_factory.mktemp("checkout")
    (place / "preproc").symlink_to(ROOT / "preproc")
    (place / "remote_reward_server.py").symlink_to(ROOT / "remote_reward_server.py")
    write(place / "taco.jsonl", many_taco(16))
    write(place / "tasks.jsonl", [task(n) for n in range(6)])
    write(place / "judged.jsonl", trajectories(12))
    write(place / "test6.jsonl", [lcb("a"), lcb("b", functional=True)])
    make_model(place / "model")
    return place


def command_line(text: str) -> str:
    names = {
        "TACO": "taco.jsonl", "TASKS": "tasks.jsonl", "PTB": "ptb.jsonl", "JUDGED": "judged.jsonl",
        "CONTEXTS": "contexts.jsonl", "DEV": "dev_contexts.jsonl", "LLM_NAME": "./model",
        "PARQUET": "parquet", "PARQUET_SINGLE": "parquet_single",
    }  # fmt: skip
    return text.format(**names)


def shell(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PATH": path} | environment,
    )  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_command(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, written = COMMANDS[name]
    done = shell(command_line(text), folder)
    assert done.returncode == 0, done.stderr
    for file, kind in written.items():
        assert (folder / f"{file}.manifest.json").exists()
        assert data_main(["check", str(folder / file)]) == 0
        assert f"rows, {kind}" in capsys.readouterr().out


def test_the_files_fit_together(folder: Path) -> None:
    # What the commands above left (run this file as a whole).
    tasks = read(folder / "data" / "taco_verified_filtered.jsonl")
    assert tasks and all(isinstance(row["verified"], bool) for row in tasks)
    assert {row["verified"] for row in tasks} == {True, False}
    lcb_rows = read(folder / "data" / "lcb_v6.jsonl")
    assert [row["is_functional"] for row in lcb_rows] == [False, True]
    assert (folder / "contexts.jsonl.prompt_tokens.png").stat().st_size > 1000
    perturbed = read(folder / "ptb.jsonl")
    assert all(json.loads(row["modified_test_cases"])["inputs"] for row in perturbed)
