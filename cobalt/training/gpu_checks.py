"""What the libraries of a training on GPUs give on this machine (`cobalt doctor --gpu`)."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from cobalt.training.attention import FLASH, PACKED, choose_attention, missing

OK, WARNING, FAILED, UNCHECKED = "ok", "warning", "FAILED", "not checked"
INSTALL = "pip install -r requirements-gpu.txt -c requirements-gpu.lock"
_PACK = (7, 1, 12)  # tokens of the sequences of a trial
_CLOSE = {"cuda": 3e-2, "cpu": 1e-5}  # bfloat16 and fp32
_WAIT_S = 120.0


@dataclass(frozen=True)
class Line:
    """One check. ``state`` FAILED: it would end a training; ``advice``: what to do."""

    name: str
    state: str
    found: str
    advice: str = ""


def tried(name: str, check: Callable[[], Line]) -> Line:
    """The line of a check that runs code of others; whatever that raises fails it."""
    try:
        return check()
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        return Line(name, FAILED, f"{type(error).__name__}: {text}", f"{INSTALL}, or see docs/cluster.md")


def packages(gpus: int) -> Iterator[Line]:
    """Versions, against those that verl's own extra for vLLM asks for."""
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in requires("verl") or () if 'extra == "vllm"' in text]
    for each in (each for each in wanted if each.specifier and not each.extras):
        try:
            found = version(each.name)
        except PackageNotFoundError:
            state = FAILED if each.name in ("torch", "transformers", "vllm") else WARNING
            yield Line(each.name, state, f"not installed; verl asks for {each.specifier}", INSTALL)
            continue
        if each.name == "vllm" and "cpu" in found:
            state, advice = (FAILED if gpus else WARNING), f"it cannot use GPUs: {INSTALL}"
            yield Line(each.name, state, f"{found}, the CPU build", advice)
        elif found.partition("+")[0] not in each.specifier:
            yield Line(each.name, WARNING, f"{found}; verl asks for {each.specifier}", INSTALL)
        else:
            yield Line(each.name, OK, found)
    for name, what in (("verl", ""), ("ray", ""), ("liger-kernel", "actor_rollout_ref.model.use_liger")):
        try:
            yield Line(name, OK, version(name))
        except PackageNotFoundError:
            yield Line(name, OK if what else FAILED, f"not installed{what and f' (only {what} needs it)'}")


def torch_build() -> Line:
    """Whether torch's CUDA is one that the driver knows."""
    import torch

    built, driver = torch.version.cuda, driver_cuda()
    if built is None:
        return Line("torch build", FAILED, f"{torch.__version__} knows no CUDA", INSTALL)
    if driver is None:
        return Line("torch build", UNCHECKED, f"{torch.__version__} for CUDA {built}; no driver is here")
    shown = f"{torch.__version__} for CUDA {built}, driver for {driver // 1000}.{driver % 1000 // 10}"
    if int(built.partition(".")[0]) > driver // 1000:
        return Line("torch build", FAILED, shown, "install a newer driver (CUDA 13 needs 580 or later)")
    return Line("torch build", OK, shown)


def driver_cuda() -> int | None:
    """The newest CUDA that the driver knows, 13000 for 13.0; None without a driver."""
    found = ctypes.c_int()
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return found.value if library.cuDriverGetVersion(ctypes.byref(found)) == 0 else None


def devices() -> list[Line]:
    """One line per GPU; a single failed one if there is none."""
    import torch

    if not torch.cuda.device_count():
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "no NVIDIA driver is here" if driver_cuda() is None else "a driver is here, but torch sees none"
        said = f"no GPU ({why}{'' if hidden is None else f'; CUDA_VISIBLE_DEVICES={hidden!r}'})"
        return [Line("GPU", FAILED, said, "--profile cpu trains without one")]
    return [_device(number) for number in range(torch.cuda.device_count())]


def attention() -> Line:
    """The attention that a training would use (`cobalt.training.attention`)."""
    lacking = missing(FLASH)
    if lacking is None:
        return Line("attention", OK, f"{FLASH} (flash-attn {version('flash-attn')})")
    return Line("attention", OK, f"{PACKED} ({lacking}, and not needed)")


def recipe(name: str, profile: str) -> Line:
    """A recipe composed with a profile: attention and kernels it will use."""
    from cobalt.training.config import CONFIG_DIR, compose

    config = compose(name, profile, "published", {"cobalt.config_dir": str(CONFIG_DIR)})
    if config.trainer.device != "cpu":
        choose_attention(config)
    given, actor, trainer = config.actor_rollout_ref.model, config.actor_rollout_ref.actor, config.trainer
    said = f"{given.override_config.attn_implementation}; "
    size = f"; {trainer.nnodes} x {trainer.n_gpus_per_node} GPUs"
    if config.cobalt.method == "offline":
        adapters = f"adapters of rank {given.lora_rank}" if given.lora_rank else "all weights"
        return Line(f"recipe {name}", OK, said + adapters + size)
    switches = {
        "packed": given.use_remove_padding, "checkpointing": given.enable_gradient_checkpointing,
        "fused kernels": given.use_fused_kernels, "liger": given.use_liger,
        "torch.compile": actor.fsdp_config.use_torch_compile,
    }  # fmt: skip
    on = ", ".join(name for name, value in switches.items() if value) or "nothing else"
    off = ", ".join(name for name, value in switches.items() if not value)
    rollout = config.actor_rollout_ref.rollout.name
    return Line(f"recipe {name}", OK, f"{said}{on}; off: {off}{size}, rollout {rollout}")


def _device(number: int) -> Line:
    import torch

    each, (free, total) = torch.cuda.get_device_properties(number), torch.cuda.mem_get_info(number)
    shown = f"{each.name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free, {each.major}.{each.minor}"
    if each.major < 8:
        advice = "compute capability 8.0 or higher is needed (bfloat16, flash attention)"
        return Line(f"GPU {number}", FAILED, shown, advice)
    state = WARNING if free < 0.9 * total else OK
    return Line(f"GPU {number}", state, shown, "another process holds memory (nvidia-smi)")


def model_class(family: str, device: str) -> Line:
    """A tiny random model of ``family`` (``qwen3``, ``llama``): a pack gives what its sequences give."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    name, chosen = f"model {family}", FLASH if missing(FLASH) is None else PACKED
    if chosen == FLASH and device == "cpu":
        return Line(name, UNCHECKED, f"no GPU ({FLASH} runs on nothing else)")
    importlib.import_module("cobalt.training.packed")
    config = AutoConfig.for_model(
        family, vocab_size=64, hidden_size=128, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=64,
    )  # fmt: skip
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_config(config, attn_implementation=chosen, dtype=kind).to(device)
    ids = torch.arange(sum(_PACK), device=device)[None] * 5 % 64
    positions = torch.cat([torch.arange(length, device=device) for length in _PACK])[None]
    whole = model(input_ids=ids, position_ids=positions, use_cache=False).logits
    whole.float().square().mean().backward()
    with torch.no_grad():
        alone = [model(input_ids=part, use_cache=False).logits for part in ids.split(_PACK, dim=1)]
    off = float((whole.detach() - torch.cat(alone, dim=1)).abs().max())
    finite = all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    shown = (
        f"{type(model).__name__} with {chosen} on {device}: a pack differs by {off:.1e} from its sequences"
    )
    good = off <= _CLOSE[device] and finite
    return Line(name, OK if good else FAILED, shown + ("" if finite else ", gradients are not finite"))


def compiler(device: str) -> Line:
    """verl and vLLM compile kernels when a training starts: with a C compiler and Python's headers."""
    import torch

    found = shutil.which(os.environ.get("CC", "")) or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if found is None or not headers.is_file():
        lacks = "no C compiler" if found is None else f"no {headers}"
        return Line("torch.compile", FAILED, lacks, "apt-get install gcc python3-dev (the Python in use)")
    if device == "cpu":
        return Line("torch.compile", UNCHECKED, f"no GPU; compiler {found}")
    row = torch.ones(8, 64, device=device)
    made = torch.compile(lambda x: (x.softmax(-1) * x).sum())(row)
    return Line("torch.compile", OK if float(made) == 8.0 else FAILED, f"works; compiler {found}")


def nccl(gpus: int) -> Line:
    """NCCL's version, and a sum over all GPUs where there are several."""
    import torch

    if not torch.distributed.is_nccl_available():
        return Line("NCCL", FAILED, f"torch {torch.__version__} was built without it", INSTALL)
    shown = ".".join(map(str, torch.cuda.nccl.version()))
    if gpus < 2:
        return Line("NCCL", UNCHECKED, f"{shown}; {'one GPU' if gpus else 'no GPU'}, nothing to exchange")
    return all_reduce(gpus, "nccl", shown)


def all_reduce(count: int, backend: str, shown: str) -> Line:
    """A process per device, which must agree on a sum in two minutes."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cobalt.training.gpu_checks", f"{folder}/store", str(count), backend]
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        ranks = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(count)]
        said: list[str] = []
        try:
            for each in ranks:
                _, errors = each.communicate(timeout=max(1.0, started + _WAIT_S - time.monotonic()))
                said += errors.splitlines()[-1:] if each.returncode else []
        except subprocess.TimeoutExpired:
            said.append(f"no answer in {_WAIT_S:.0f} s")
        finally:
            for each in ranks:
                each.kill()
                each.wait()
    if said:
        advice = "NCCL_DEBUG=INFO says more; NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 rule out two causes"
        return Line("NCCL", FAILED, f"{shown}: {said[0][:200]}", advice)
    return Line("NCCL", OK, f"{shown}, a sum over {count} devices in {time.monotonic() - started:.0f} s")


def _rank(store: str, count: str, backend: str, rank: str) -> None:
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", int(rank)) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend, store=dist.FileStore(store, int(count)), rank=int(rank), world_size=int(count)
    )
    value: Any = torch.full((1 << 20,), float(int(rank) + 1), device=device)
    dist.all_reduce(value)
    assert float(value[-1]) == int(count) * (int(count) + 1) / 2, f"the sum is {float(value[-1])}"
    dist.destroy_process_group()


if __name__ == "__main__":
    _rank(*sys.argv[1:])
