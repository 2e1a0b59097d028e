"""`cobalt doctor --gpu`: what is read of the machine, and what each finding means for a training."""

from __future__ import annotations

import json
import resource
import socket
import tempfile
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from cobalt import doctor
from cobalt.errors import InfraError, InputError
from cobalt.training import gpu_checks, gpu_doctor, smoke
from cobalt.training.gpu_checks import FAILED, OK, UNCHECKED, WARNING, Line
from cobalt.training.memory import Sizes

EIGHT_B = Sizes(4096, 36, 32, 8, 128, 12288, 151936, False)  # Qwen3-8B
Usage = namedtuple("Usage", "total used free")


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_limits_of_control_groups_of_version_2(tmp_path):
    put(tmp_path, {
        "proc/self/cgroup": "0::/user/job\n",
        "sys/fs/cgroup/user/memory.max": "1000\n",
        "sys/fs/cgroup/user/job/memory.max": "2000\n",
        "sys/fs/cgroup/user/job/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/user/job/pids.max": "max\n",
    })  # fmt: skip
    found = [gpu_doctor.group_limit(tmp_path, f"{name}.max") for name in ("memory", "cpu", "pids")]
    assert found == [1000, 1.5, None]
    assert gpu_doctor.group_limit(tmp_path / "nothing", "cpu.max") is None


def test_a_small_container_is_told(tmp_path, monkeypatch):
    put(tmp_path, {
        "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": str(20 * 2**30),
        "sys/fs/cgroup/pids.max": "512", "sys/fs/cgroup/cpu.max": "50000 100000",
    })  # fmt: skip
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 2048))
    lines = {line.name: line for line in gpu_doctor.limits(EIGHT_B, tmp_path)}
    assert lines["main memory"].state == WARNING and "20.0 GiB (the container's" in lines["main memory"].found
    assert "122 GiB" in lines["main memory"].advice  # 16 bytes for each of 8.19e9 parameters
    assert lines["pids limit"].state == WARNING and lines["open files"].state == FAILED
    *_, cores = gpu_doctor.evaluator(["landlock"], tmp_path)
    assert cores.advice == "cobalt.evaluator_workers=1" and cores.state == WARNING
    assert next(gpu_doctor.evaluator([], tmp_path)).state == FAILED


@pytest.mark.parametrize(
    ("gib", "gpus", "state"), [(16, 8, OK), (2, 8, WARNING), (0.0625, 1, WARNING), (0.0625, 2, FAILED)]
)
def test_shared_memory(monkeypatch, gib, gpus, state):
    monkeypatch.setattr(gpu_doctor.shutil, "disk_usage", lambda path: Usage(gib * 2**30, 0, 0))
    line = gpu_doctor.shared_memory(gpus)
    assert line.state == state and (state == OK or "--shm-size=8g" in line.advice)


@pytest.mark.parametrize(("free", "states"), [(500, [OK, OK]), (60, [OK, FAILED]), (20, [WARNING, FAILED])])
def test_disk_for_a_model_of_8b(monkeypatch, tmp_path, free, states):
    monkeypatch.setattr(gpu_doctor.shutil, "disk_usage", lambda path: Usage(0, 0, free * 2**30))
    lines = list(gpu_doctor.disks(tmp_path / "not" / "there", EIGHT_B))
    assert [line.state for line in lines] == states
    assert "15.3 GiB for the model" in lines[0].found and "106.8 GiB for a checkpoint" in lines[1].found


def test_files_of_a_model(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_doctor.socket, "create_connection", refuse)
    shards = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    put(tmp_path, {"config.json": "{}", "tokenizer_config.json": "{}", "model-1.safetensors": "",
                   "model.safetensors.index.json": json.dumps(shards)})  # fmt: skip
    (line,) = gpu_doctor.hub(str(tmp_path))
    assert line.state == FAILED and "model-2.safetensors is not here" in line.found
    put(tmp_path, {"model-2.safetensors": ""})
    (line,) = gpu_doctor.hub(str(tmp_path))
    assert line.state == OK and "4 files" in line.found
    files, reached = gpu_doctor.hub("nobody/nothing")
    assert files.state == FAILED and "hf download nobody/nothing" in files.advice
    assert reached.state == WARNING and "cannot be reached (no way)" in reached.found


def refuse(*_, **__):
    raise OSError("no way")


def test_a_taken_port_is_told(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setattr(gpu_doctor, "PORTS", ((number, "Ray"),))
        (line,) = gpu_doctor.ports()
        assert line.state == WARNING and line.found == "taken (Ray)"
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
        assert next(gpu_doctor.ports()).state == OK
    assert next(gpu_doctor.ports()).found == "free (Ray)"


def test_the_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_doctor.shutil, "which", lambda name: None)
    assert gpu_doctor.driver(tmp_path).state == UNCHECKED
    kernel = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 2\n"
    put(tmp_path, {"proc/driver/nvidia/version": kernel})
    assert gpu_doctor.driver(tmp_path) == Line("driver", OK, "580.95.05")
    monkeypatch.setattr(gpu_doctor.shutil, "which", lambda name: "/bin/nvidia-smi")
    answer = SimpleNamespace(returncode=9, stdout="NVIDIA-SMI has failed\n", stderr="")
    monkeypatch.setattr(gpu_doctor.subprocess, "run", lambda *_, **__: answer)
    assert gpu_doctor.driver(tmp_path).state == FAILED


@pytest.mark.parametrize(
    ("built", "driver", "state"),
    [(None, 13000, FAILED), ("13.0", None, UNCHECKED), ("13.0", 12080, FAILED), ("13.0", 13020, OK)],
)
def test_torch_and_the_driver(monkeypatch, built, driver, state):
    import torch

    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(gpu_checks, "driver_cuda", lambda: driver)
    assert gpu_checks.torch_build().state == state


def test_versions_are_those_that_verl_asks_for(monkeypatch):
    have = {"torch": "2.11.0+cu130", "torchvision": "0.26.0", "torchaudio": "2.11.0", "vllm": "0.24.0+cpu",
            "transformers": "5.10.0", "ray": "2.60.0", "verl": "0.9.1"}  # fmt: skip

    def version(name):
        if name not in have:
            raise gpu_checks.PackageNotFoundError(name)
        return have[name]

    monkeypatch.setattr(gpu_checks, "version", version)
    lines = {line.name: line for line in gpu_checks.packages(1)}
    assert lines["torch"].state == OK and lines["transformers"].state == WARNING
    assert lines["vllm"].state == FAILED and "the CPU build" in lines["vllm"].found
    del have["vllm"], have["torchvision"]
    lines = {line.name: line for line in gpu_checks.packages(0)}
    assert lines["vllm"].state == FAILED and lines["torchvision"].state == WARNING
    assert lines["liger-kernel"].state == OK


def test_without_a_compiler_a_training_would_end(monkeypatch):
    monkeypatch.setattr(gpu_checks.shutil, "which", lambda name: None)
    assert gpu_checks.compiler("cpu").state == FAILED


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_model_classes_load_with_the_attention_chosen(monkeypatch, family):
    monkeypatch.setattr(gpu_checks, "missing", lambda name: "flash-attn is not installed")
    line = gpu_checks.model_class(family, "cpu")
    assert line.state == OK and "with packed_sdpa on cpu: a pack differs by" in line.found
    monkeypatch.setattr(gpu_checks, "missing", lambda name: None)
    assert gpu_checks.model_class(family, "cpu").state == UNCHECKED


def test_sequences_that_see_each_other_are_a_failure(monkeypatch):
    from cobalt.training import packed

    monkeypatch.setattr(gpu_checks, "missing", lambda name: "flash-attn is not installed")
    monkeypatch.setattr(packed, "lengths", lambda positions: [len(positions)])
    assert gpu_checks.model_class("qwen3", "cpu").state == FAILED


def test_devices_agree_on_a_sum():
    line = gpu_checks.all_reduce(2, "gloo", "2.28")
    assert line.state == OK and "over 2 devices" in line.found
    wrong = gpu_checks.all_reduce(1, "none", "2.28")
    assert wrong.state == FAILED and "none" in wrong.found


@pytest.mark.parametrize(("differences", "step"), [([1e-3, None], 2), ([float("nan")], 1), ([0.06], 1)])
def test_a_smoke_training_fails_where_weights_do_not_arrive(monkeypatch, tmp_path, differences, step):
    from cobalt.training import launch

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    metrics = [{"step": i, smoke._DIFF: value} for i, value in enumerate(differences, start=1)]
    result = SimpleNamespace(metrics=metrics, wall_s=1.0, first_step_s=0.5)
    monkeypatch.setattr(launch, "train", lambda **_: result)
    with pytest.raises(InfraError, match=f"step {step}: training/rollout_probs_diff_max"):
        smoke.smoke("cpu")
    (kept,) = tmp_path.glob("cobalt-smoke-*")
    assert (kept / "model" / "config.json").is_file()
    metrics[:] = [{smoke._DIFF: 1e-3}]
    said = smoke.smoke("cpu")
    assert "in 1.0 s (the first after 0.5 s); rollout and trainer differ by 1.0e-03" in said
    assert list(tmp_path.glob("cobalt-smoke-*")) == [kept]


@pytest.fixture
def checked(monkeypatch):
    """A doctor whose checks answer what the test says."""
    lines = [Line("one", OK, "fine"), Line("two", UNCHECKED, "no GPU"), Line("three", WARNING, "few", "more")]
    monkeypatch.setattr(doctor, "try_limits", lambda level: {"one": "held"})
    monkeypatch.setattr(gpu_doctor, "examine", lambda *_: list(lines))
    return lines


def test_the_door_shows_and_counts(checked, capsys):
    assert doctor.main(["--gpu"]) == 0
    shown = capsys.readouterr().out
    assert "not checked: no GPU" in shown and "-> more" in shown and "nothing stands in the way" in shown
    checked.append(Line("four", FAILED, "broken", "mend it"))
    assert doctor.main(["--gpu", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["gpu"]
    assert found[-1] == {"name": "four", "state": "FAILED", "found": "broken", "advice": "mend it"}


def test_a_smoke_training_is_one_more_line(checked, monkeypatch, capsys):
    monkeypatch.setattr(smoke, "smoke", lambda *_, **__: print("step 1") or "differ by 2.0e-08")
    assert doctor.main(["--gpu", "--smoke", "--profile", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu"][-1]["found"] == "differ by 2.0e-08"

    def broken(*_, **__):
        raise InputError("trainer.n_gpus_per_node=4, but this machine has 0")

    monkeypatch.setattr(smoke, "smoke", broken)
    assert doctor.main(["--gpu", "--smoke"]) == 1
    assert "FAILED  smoke" in capsys.readouterr().out


def test_flags_of_gpu_trainings_need_gpu(capsys):
    for flags, said in ((["--smoke"], "--gpu"), (["--gpu", "--profile", "none"], "--profile")):
        with pytest.raises(SystemExit, match="2"):
            doctor.main(flags)
        assert said in capsys.readouterr().err


def test_a_recipe_line_names_attention_and_kernels():
    line = gpu_checks.recipe("mt_grpo", "gpu")
    assert "packed, checkpointing, fused kernels, torch.compile; off: liger" in line.found
    assert "1 x 4 GPUs, rollout vllm" in line.found
    wrong = gpu_checks.tried("recipe cobalt", lambda: gpu_checks.recipe("cobalt", "none"))
    assert wrong.state == FAILED and wrong.found.startswith("InputError: profile 'none' is unknown")
