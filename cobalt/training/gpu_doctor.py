"""`cobalt doctor --gpu`: whether a training on GPUs would run on this machine, before it is paid for."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.training import gpu_checks as libraries
from cobalt.training.config import choices
from cobalt.training.gpu_checks import FAILED, OK, UNCHECKED, WARNING, Line, tried
from cobalt.training.memory import GIB, Sizes, sizes

PORTS = ((6379, "Ray"), (8000, "evaluator"), (8265, "Ray's dashboard"))
_SHM_GIB = 8.0  # NCCL, Ray's objects and vLLM's messages; containers have 64 MB unless told otherwise
_FILES = 65_536  # open files that Ray asks for
_THREADS = 8_192  # of Ray, vLLM and evaluators, with room
_MEMORY_GIB = 64.0
_FAMILIES = ("qwen3", "llama")
_FREE_GIB = 50.0  # where no model says what a checkpoint takes
_MARK = {OK: "ok     ", WARNING: "warning", FAILED: "FAILED ", UNCHECKED: "-      "}


def examine(model: str | None, output: Path, profile: str, works: list[str]) -> list[Line]:
    """All checks but the training. ``works``: isolation levels that work here."""
    found = libraries.devices()
    gpus = sum(line.name != "GPU" for line in found)
    device = "cuda" if gpus else "cpu"
    of = sizes(model) if model else None
    families = [tried(f"model {name}", partial(libraries.model_class, name, device)) for name in _FAMILIES]
    recipes = [
        tried(f"recipe {name}", partial(libraries.recipe, name, profile)) for name in choices("recipe")
    ]
    lines = [
        tried("driver", driver),
        tried("torch build", libraries.torch_build),
        tried("attention", libraries.attention),
        *found,
        *libraries.packages(gpus),
        tried("NCCL", partial(libraries.nccl, gpus)),
        tried("torch.compile", partial(libraries.compiler, device)),
        *families,
        *recipes,
        tried("shared memory", partial(shared_memory, gpus)),
        *disks(output, of),
        *hub(model),
        tokens(),
        *ports(),
        *limits(of),
        *evaluator(works),
    ]
    return [replace(line, advice="") if line.state == OK else line for line in lines]


def driver(root: Path = Path("/")) -> Line:
    """NVIDIA's kernel driver: nvidia-smi where a container has it, else /proc."""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return Line("driver", OK, done.stdout.split()[0])
        said = " ".join((done.stdout + done.stderr).split())[:200]
        return Line("driver", FAILED, f"nvidia-smi: {said}", "restart the machine, or take another")
    try:
        text = (root / "proc/driver/nvidia/version").read_text()
    except OSError:
        return Line("driver", UNCHECKED, "no GPU: neither nvidia-smi nor /proc/driver/nvidia")
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return Line("driver", OK, found[0] if found else text.split("\n")[0])


def shared_memory(gpus: int, folder: Path = Path("/dev/shm")) -> Line:
    total = shutil.disk_usage(folder).total / GIB
    if total >= _SHM_GIB:
        return Line("shared memory", OK, f"{folder}: {total:.1f} GiB")
    state = FAILED if total < 1 and gpus > 1 else WARNING
    advice = f"docker run --shm-size={_SHM_GIB:.0f}g (or --ipc=host): Ray, vLLM and NCCL exchange data there"
    return Line("shared memory", state, f"{folder}: {total:.2f} GiB", advice)


def disks(output: Path, of: Sizes | None) -> Iterator[Line]:
    """Free space for the cache of models, and for checkpoints (weights and moments in fp32, an export)."""
    from huggingface_hub.constants import HF_HUB_CACHE

    parameters = of.parameters if of else 0
    for name, folder, what, need in (
        ("disk: models", Path(HF_HUB_CACHE), "the model", 2 * parameters / GIB),
        ("disk: output", output, "a checkpoint", 14 * parameters / GIB),
    ):
        there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
        free = shutil.disk_usage(there).free / GIB
        shown = f"{folder}: {free:.1f} GiB free" + (f", {need:.1f} GiB for {what}" if need else "")
        low = FAILED if need and free < need else WARNING if free < (2 * need or _FREE_GIB) else OK
        advice = "HF_HOME and --output may lie elsewhere; trainer.max_actor_ckpt_to_keep=2"
        if not os.access(there, os.W_OK):
            low, advice = FAILED, f"{there} cannot be written"
        yield Line(name, low, shown, advice)


def hub(model: str | None) -> Iterator[Line]:
    """Whether the model is here: trainings are offline unless HF_HUB_OFFLINE=0."""
    from huggingface_hub import constants

    if model is not None:
        names = _files(model)
        lacking = [name for name in names if _file(model, name) is None]
        if not lacking:
            yield Line("model files", OK, f"{model}: {len(names)} files, weights among them")
            return
        shown = f"{model}: {', '.join(lacking[:3])} {'are' if len(lacking) > 1 else 'is'} not here"
        local = Path(model).is_dir()
        advice = "name a Hugging Face folder" if local else f"fetch it first: hf download {model}"
        yield Line("model files", FAILED, shown, advice)
        if local:
            return
    host, _, port = re.sub(r"^https?://", "", constants.ENDPOINT).partition("/")[0].partition(":")
    try:
        socket.create_connection((host, int(port or 443)), timeout=5).close()
        yield Line("hub", OK, f"{constants.ENDPOINT} can be reached")
    except OSError as error:
        advice = "copy models into HF_HOME, or set HF_ENDPOINT or a proxy"
        yield Line("hub", WARNING, f"{constants.ENDPOINT} cannot be reached ({error})", advice)


def _file(model: str, name: str) -> Path | None:
    """A file of a model, which is a folder or lies in the hub's cache; None if it is not here."""
    from huggingface_hub import try_to_load_from_cache

    found: Any = Path(model, name) if Path(model).is_dir() else try_to_load_from_cache(model, name)
    return Path(found) if isinstance(found, str | Path) and Path(found).is_file() else None


def _files(model: str) -> list[str]:
    """What a model needs: configuration, tokenizer, and all shards of its weights."""
    index = _file(model, "model.safetensors.index.json")
    shards = set(json.loads(index.read_text())["weight_map"].values()) if index else {"model.safetensors"}
    return ["config.json", "tokenizer_config.json", *sorted(shards)]


def tokens() -> Line:
    """The file of the reward's token counter."""
    from cobalt.text import o200k_counter, o200k_path

    try:
        o200k_counter()
    except InputError as error:
        found, _, advice = str(error).partition(": ")
        return Line("o200k_base", FAILED, found, f"{advice} (cobalt.token_counter=policy)")
    return Line("o200k_base", OK, str(o200k_path()))


def ports() -> Iterator[Line]:
    cluster = os.environ.get("RAY_ADDRESS")
    for number, what in PORTS:
        name, advice = f"port {number}", "scripts/cluster takes RAY_PORT; end what listens there"
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("0.0.0.0", number))
                yield Line(name, OK, f"free ({what})")
            except OSError:
                yield Line(name, OK if cluster else WARNING, f"taken ({what})", advice)


def limits(of: Sizes | None, root: Path = Path("/")) -> Iterator[Line]:
    """What the container and the shell leave: memory, processes, open files."""
    memory, total = group_limit(root, "memory.max"), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    has = min(memory or total, total) / GIB
    # weights in fp32 while they load; recipes with long dialogues keep both moments and the reference there
    need = (16 * of.parameters / GIB) if of else _MEMORY_GIB
    advice = f"{need:,.0f} GiB {'hold all that recipes offload' if of else 'are few for 8B (--model NAME)'}"
    shown = f"{has:.1f} GiB" + (" (the container's limit)" if memory and memory < total else "")
    yield Line("main memory", OK if has >= need else WARNING, shown, advice)
    # the hard limits: Ray and vLLM raise their own
    hard = [resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)]
    processes, files = (None if each == resource.RLIM_INFINITY else each for each in hard)
    few = FAILED if files and files < 4096 else WARNING
    for name, found, need_of, state, command in (
        ("pids limit", group_limit(root, "pids.max"), _THREADS, WARNING, "docker run --pids-limit=-1"),
        ("processes", processes, _THREADS, WARNING, "ulimit -u unlimited"),
        ("open files", files, _FILES, few, "ulimit -n 65536"),
    ):
        enough = found is None or found >= need_of
        shown = "unlimited" if found is None else f"{found:,.0f}"
        yield Line(name, OK if enough else state, shown, f"{command} ({need_of:,} or more)")


def host_memory() -> float:
    """Bytes of memory that processes here may use: the machine's, or its control group's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, group_limit(Path("/"), "memory.max") or total)


def group_limit(root: Path, name: str) -> float | None:
    """The least value of a file of control groups (version 2), of this process's group and those above; None:
    no limit. ``cpu.max`` is read as cores.
    """
    found = []
    try:
        group = next(
            line[3:] for line in (root / "proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"
        )
    except (OSError, StopIteration):
        return None
    for folder in (Path(group), *Path(group).parents):
        try:
            words = (root / "sys/fs/cgroup" / folder.relative_to("/") / name).read_text().split()
            found.append(float(words[0]) / float((*words, "1")[1]))
        except (OSError, ValueError, IndexError):  # no such file; "max"
            continue
    return min(found, default=None)


def evaluator(works: list[str], root: Path = Path("/")) -> Iterator[Line]:
    """Isolation of programs, and the cores that may run them. ``works``: levels that work here."""
    advice = "cobalt doctor says why; docs/execution.md, or an evaluator elsewhere (--evaluator URL)"
    shown = works[0] if works else "no safe level works here"
    yield Line("isolation", OK if works else FAILED, shown, advice)
    seen = len(os.sched_getaffinity(0))
    cores = min(float(seen), group_limit(root, "cpu.max") or seen)
    shown = f"{cores:.0f}" if cores == seen else f"{seen} are seen, {cores:.1f} may be used"
    advice = f"cobalt.evaluator_workers={max(1, int(cores))}"
    yield Line("cores", OK if cores == seen else WARNING, f"{shown} (cobalt plan: how many it takes)", advice)


def trial(profile: str, evaluator: str, overrides: list[str]) -> Line:
    """Two steps of a training."""
    from cobalt.training.smoke import smoke

    try:
        return Line("smoke", OK, smoke(profile, overrides, evaluator=evaluator))
    except (InputError, InfraError) as error:
        return Line("smoke", FAILED, str(error), "docs/cluster.md")


def show(lines: list[Line], what: str) -> None:
    """For people."""
    for line in lines:
        said = f"not checked: {line.found}" if line.state == UNCHECKED else line.found
        print(f"{_MARK[line.state]} {line.name:<24} {said}")
        if line.advice:
            print(f"{'':<33}-> {line.advice}")
    failed = [line.name for line in lines if line.state == FAILED]
    print(f"{what}: " + (f"FAILED ({', '.join(failed)})" if failed else "nothing stands in the way"))
