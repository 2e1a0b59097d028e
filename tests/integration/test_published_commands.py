"""The data section of the published README: every command as it stands there, on local files.

Hub names are given as local files, and `{INPUT_FNAME}` and the like are filled in; nothing else is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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


# --- With the execution server that the README starts first


@pytest.fixture
def cluster() -> Iterator[dict[str, str]]:
    """`ray start --head` of our own, on free ports and in a private folder; what it started is ended."""
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    home = tempfile.mkdtemp(prefix="r")  # socket paths must be short
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": home}
    ray = str(Path(sys.executable).parent / "ray")
    head = subprocess.Popen(
        [ray, "start", "--head", "--block", "--port", ports[0], "--num-cpus", "2", "--include-dashboard=true",
         "--dashboard-port", ports[1], "--temp-dir", home],
        env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield environment | {"RAY_ADDRESS": f"127.0.0.1:{ports[0]}"}
    finally:
        head.send_signal(signal.SIGTERM)
        try:
            head.wait(60)
        finally:
            head.kill()
            shutil.rmtree(home, ignore_errors=True)


@pytest.mark.full
def test_taco_on_the_server(folder: Path, cluster: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        http = free.getsockname()[1]
    bins = Path(sys.executable).parent
    environment = os.environ | cluster | {"PATH": f"{bins}:{os.environ['PATH']}"}
    deadline = time.monotonic() + 300
    while True:
        started = subprocess.run(
            [bins / "serve", "start", "--http-host", "127.0.0.1", "--http-port", str(http)],
            env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if started.returncode == 0:
            break
        assert time.monotonic() < deadline, started.stderr[-2000:]
        time.sleep(2)
    name = ["--name", "evaluator", "--route-prefix", "/evaluator"]
    server = subprocess.Popen(
        [bins / "serve", "run", "remote_reward_server:app", *name], cwd=ROOT, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        out = tmp_path / "out.jsonl"
        while True:
            done = shell(
                f"python preproc/preproc_taco.py -i taco.jsonl -o {out} --evaluator serve", folder, **cluster
            )
            if done.returncode == 0:
                break
            assert time.monotonic() < deadline + 120, done.stderr[-2000:]
            time.sleep(2)
        assert "Ray Serve application" in done.stderr
        local = folder / "data" / "taco_verified_filtered.jsonl"
        if local.exists():
            assert out.read_bytes() == local.read_bytes()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        finally:
            server.kill()
