"""What GPU users run, where there are no GPUs: vLLM's server actors, FSDP over two ranks, one and two nodes.

Runs in the environment of `make test-gpu-path`: the versions of requirements-gpu.lock, with vLLM's CPU build.
One cluster, one training after another, in the order of this file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch
from nodes import DIALOGUES, SHARP, TWO_NODES, Nodes, Peak, nodes, steps
from safetensors.torch import load_file
from training_assets import TESTS, make_model, rows, write

from cobalt.training import checkpoint
from cobalt.training import result as results


def _vllm() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "none"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(
        not _vllm().endswith("+cpu"), reason=f"wants vLLM's CPU build, found: {_vllm()}; make test-gpu-path"
    ),
]
DIFF = "training/rollout_probs_diff_max"
FP32_BOUND = 1e-6  # seen: 2e-8
BF16_BOUND = 5e-3  # seen: 1e-3
DIED = "COBALT_TEST_DIED"  # as dying_worker.py says
WITHIN_S = 15  # a dead worker is noticed
ONE_ENGINE = "actor_rollout_ref.rollout.tensor_model_parallel_size=2"  # over both ranks


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    made = {"model": make_model(folder / "model", head_dim=32, positions=320)}
    for split, count in (("train", 40), ("test", 4)):
        made[f"{'val' if split == 'test' else split}_file"] = write(
            folder / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, count)]
        )
    return made


@pytest.fixture(scope="module")
def perturbed(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ptb")
    return {"ptb_file": write(folder / "ptb.parquet", rows("train", 20))}


@pytest.fixture(scope="module")
def pair():
    """One node with two GPUs."""
    with nodes() as made:
        made.add(head={"gpus": 2})
        yield made


def read_metrics(output: Path) -> list[dict[str, float]]:
    """Metrics of all launches, a step each, from step 0 where it was validated before."""
    files = [folder / results.METRICS for folder in results.launch_folders(output)]
    return results.read_metrics(path for path in files if path.exists())


def disagreements(output: Path, bound: float) -> list[int]:
    """Steps in which a token's probability differs by more than the bound, or is no number."""
    found = [step for step in read_metrics(output) if step["step"]]
    assert found and all(DIFF in step for step in found), found
    return [step["step"] for step in found if step[DIFF] is None or not 0 <= step[DIFF] < bound]


def shards(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The two ranks' parts of every weight, joined."""
    parts = [
        torch.load(checkpoint / "actor" / f"model_world_size_2_rank_{rank}.pt", weights_only=False)
        for rank in (0, 1)
    ]
    return {name: torch.cat([part[name].to_local() for part in parts]) for name in parts[0]}


def nothing_left(cluster: Nodes, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while any(cluster.left().values()):
        assert time.monotonic() < deadline, cluster.left()
        time.sleep(0.5)


@pytest.fixture
def cluster():
    """Two nodes with a GPU each, and one for programs."""
    with nodes() as made:
        made.add(head={"gpus": 1}, other={"gpus": 1}, judges={"evaluator": 1})
        made.serve_evaluator()
        yield made


def test_two_nodes_live_through_kills(cluster, files, perturbed, tmp_path):
    """`cobalt_ptb`, one rank on each of two nodes, judged by the Serve application on a third."""
    output, total = tmp_path / "life", 6
    given = ("cobalt_ptb", total, files | perturbed)
    settings = (
        *SHARP, *TWO_NODES, "trainer.save_freq=2", "trainer.test_freq=4", "trainer.val_before_train=true",
        "cobalt.evaluator=serve",
    )  # fmt: skip

    first = cluster.train(output, *given, *settings)
    first.until_step(2)  # of which there is a checkpoint by then
    for process in (first.process, *first.processes(f"{sys.executable} -m cobalt.training.worker")):
        os.kill(process.pid, signal.SIGKILL)  # launcher and driver; the actors are Ray's
    nothing_left(cluster)

    second = cluster.train(output, *given, *settings)
    done = checkpoint.checkpoint_step(output / "checkpoints")
    second.until_step(done + 1)
    cluster.kill("judges")
    time.sleep(3)
    cluster.add(judges_again={"evaluator": 1})
    status, said = second.wait(240)
    assert status == 0, said
    nothing_left(cluster)

    assert disagreements(output, FP32_BOUND) == []
    result = json.loads((output / "result.json").read_text())
    assert result["steps"] == total and result["masked"] == 0
    assert result["evaluator"]["tests"] > 0 and result["evaluator"]["isolation"]
    metrics = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in metrics] == list(range(1, total + 1))
    assert "val-core/code_taco_verified/acc/mean@1" in metrics[3]
    trained = load_file(output / "model" / "model.safetensors")
    whole = shards(output / "checkpoints" / f"global_step_{total}")
    assert all(trained[name].equal(whole[name]) for name in trained)
    start = load_file(files["model"] / "model.safetensors")
    assert max(float((trained[name] - start[name]).abs().max()) for name in start) > 1e-3


def test_four_steps_of_the_bandit(pair, files, tmp_path):
    """`cobalt` on two ranks of one node, one engine over both, judged in process: time and memory."""
    with Peak(pair) as peak:
        training = pair.train(
            tmp_path / "bandit", "cobalt", 4, files, *SHARP, ONE_ENGINE, "cobalt.evaluator=local"
        )
        status, said = training.wait(400)
    seconds = time.monotonic() - training.started
    assert status == 0, said
    assert disagreements(training.output, FP32_BOUND) == []
    print(f"\nfour steps: {seconds:.0f} s, peak {peak.gib:.1f} GiB")
    assert peak.gib < 10
    nothing_left(pair)


def test_a_killed_engine_ends_the_dialogues(pair, files, tmp_path):
    """`mt_grpo`, three turns, one engine over both ranks, one of whose workers is killed in an update."""
    died = tmp_path / "died"
    training = pair.train(
        tmp_path / "mt", "mt_grpo", 40, files, *SHARP, *DIALOGUES, "cobalt.evaluator=local",
        ONE_ENGINE, "trainer.save_freq=2", f"+cobalt.env.{DIED}={died}",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls=dying_worker.DyingWorker",
    )  # fmt: skip
    status, said = training.wait(400)
    noticed = time.time() - died.stat().st_mtime
    print(f"\na killed vLLM worker: noticed after {noticed:.1f} s")
    assert status == 1 and noticed < WITHIN_S, said
    assert "while the trainer waited for it, vLLM ended: VLLM::Worker" in said, said
    assert steps(training.output) == [1, 2] and disagreements(training.output, FP32_BOUND) == []
    assert checkpoint.checkpoint_step(training.output / "checkpoints") == 2
    nothing_left(pair)


def test_half_precision_until_a_rank_is_killed(pair, files, tmp_path):
    """`verpo` in the dtypes of the GPU profile, validated before and while it trains."""
    training = pair.train(
        tmp_path / "verpo", "verpo", 40, files, *DIALOGUES, "cobalt.evaluator=local",
        "trainer.val_before_train=true", "trainer.test_freq=2",
    )  # fmt: skip
    training.until_step(3)
    training.processes("ray::WorkerDict")[0].send_signal(signal.SIGKILL)
    status, said = training.wait(60)
    assert status == 1 and "the training failed" in said, said
    metrics = read_metrics(training.output)
    print("\nbf16:", [step[DIFF] for step in metrics if step["step"]])
    assert disagreements(training.output, BF16_BOUND) == [] and disagreements(training.output, FP32_BOUND)
    assert all(step["reward/turns"] == 3 for step in metrics if step["step"])
    for step in metrics[0], metrics[2]:
        assert "val-core/code_taco_verified/acc/mean@1" in step
    nothing_left(pair)


def test_an_engine_that_does_not_hear_is_found(pair, files, tmp_path):
    """`single_turn_grpo`: weights are not loaded from the third update on, and destroyed before the fifth."""
    training = pair.train(
        tmp_path / "deaf", "single_turn_grpo", 8, files, *SHARP, ONE_ENGINE, "cobalt.evaluator=local",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls=deaf_worker.DeafWorker",
    )  # fmt: skip
    status, said = training.wait(400)
    assert disagreements(training.output, FP32_BOUND) == [3, 4, 5]
    assert steps(training.output) == [1, 2, 3, 4, 5]
    assert status == 1 and "rollout_probs_diff" in said and "Traceback" not in said, said
    assert not (training.output / "model").exists()
    nothing_left(pair)
