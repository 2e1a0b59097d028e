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
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.training import gpu_checks as libraries
from cobalt.training.gpu_checks import FAILED, OK, UNCHECKED, WARNING, Line, tried
from cobalt.training.memory import GIB
from cobalt.training.sizes import Sizes, sizes

PORTS = ((6379, "Ray"), (8000, "evaluator"), (8265, "Ray's dashboard"))
_SHM_GIB = 8.0  # NCCL, Ray's objects and vLLM's messages; containers have 64 MB unless told otherwise
_FILES = 65_536  # open files that Ray asks for
_THREADS = 8_192  # of Ray, vLLM and evaluators, with room
_MEMORY_GIB = 64.0
_FREE_GIB = 50.0  # where no model says what a checkpoint takes
_MARK = {OK: "ok     ", WARNING: "warning", FAILED: "FAILED ", UNCHECKED: "-      "}


def examine(model: str | None, output: Path, profile: str, works: list[str]) -> list[Line]:
    """All checks but the training. ``works``: isolation levels that work here."""
    from cobalt.training.config import choices

    lines = [tried("driver", driver)]
    for check in (libraries.torch_build, libraries.attention):
        lines.append(tried(check.__name__.replace("_", " "), check))
    found = libraries.devices()
    gpus = sum(line.name != "GPU" for line in found)
    device = "cuda" if gpus else "cpu"
    lines += [*found, *libraries.packages(gpus)]
    lines.append(tried("NCCL", lambda: libraries.nccl(gpus)))
    lines.append(tried("torch.compile", lambda: libraries.compiler(device)))
    for family in ("qwen3", "llama"):
        name = f"model {family}"
        lines.append(tried(name, lambda f=family: libraries.model_class(f, device)))  # type: ignore[misc]
    for name in choices("recipe"):
        lines.append(tried(f"recipe {name}", lambda n=name: libraries.recipe(n, profile)))  # type: ignore[misc]
    of = sizes(model) if model else None
    lines += [tried("shared memory", lambda: shared_memory(gpus)), *disks(output, of), *hub(model), tokens()]
    lines += [*ports(), *limits(of), *evaluator(works)]
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
    for name, folder, need in (
        ("disk: models", Path(HF_HUB_CACHE), 2 * parameters / GIB),
        ("disk: output", output, 14 * parameters / GIB),
    ):
        there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
        free = shutil.disk_usage(there).free / GIB
        what = f"{need:.1f} GiB for {'the model' if name.endswith('models') else 'a checkpoint'}"
        shown = f"{folder}: {free:.1f} GiB free" + (f", {what}" if need else "")
        low = FAILED if need and free < need else WARNING if free < (2 * need or _FREE_GIB) else OK
        advice = "HF_HOME and --output may lie elsewhere; trainer.max_actor_ckpt_to_keep=2"
        if not os.access(there, os.W_OK):
            low, advice = FAILED, f"{there} cannot be written"
        yield Line(name, low, shown, advice)


def hub(model: str | None) -> Iterator[Line]:
    """Whether the model is here: trainings are offline unless HF_HUB_OFFLINE=0."""
    from huggingface_hub import constants, try_to_load_from_cache

    if model is not None:
        folder = Path(model)
        names = _files(model)
        have = [
            (folder / name).is_file()
            if folder.is_dir()
            else isinstance(try_to_load_from_cache(model, name), str)
            for name in names
        ]
        lacking = [name for name, here in zip(names, have, strict=True) if not here]
        if not lacking:
            yield Line("model files", OK, f"{model}: {len(names)} files, weights among them")
            return
        shown = f"{model}: {', '.join(lacking[:3])} {'are' if len(lacking) > 1 else 'is'} not here"
        advice = "name a Hugging Face folder" if folder.is_dir() else f"fetch it first: hf download {model}"
        yield Line("model files", FAILED, shown, advice)
        if folder.is_dir():
            return
    host, port = re.sub(r"^https?://", "", constants.ENDPOINT).partition("/")[0], 443
    host, _, given = host.partition(":")
    try:
        socket.create_connection((host, int(given or port)), timeout=5).close()
        yield Line("hub", OK, f"{constants.ENDPOINT} can be reached")
    except OSError as error:
        advice = "copy models into HF_HOME, or set HF_ENDPOINT or a proxy"
        yield Line("hub", WARNING, f"{constants.ENDPOINT} cannot be reached ({error})", advice)


def _files(model: str) -> list[str]:
    """What a model needs: configuration, tokenizer, and all shards of its weights."""
    from huggingface_hub import try_to_load_from_cache

    index: Any = Path(model) / "model.safetensors.index.json"
    if not Path(model).is_dir():
        index = try_to_load_from_cache(model, index.name)
    if isinstance(index, str | Path) and Path(index).is_file():
        weights = sorted(set(json.loads(Path(index).read_text())["weight_map"].values()))
    else:
        weights = ["model.safetensors"]
    return ["config.json", "tokenizer_config.json", *weights]


def tokens() -> Line:
    """The file of the reward's token counter."""
    from cobalt.rewards.tokens import o200k_counter, o200k_path

    try:
        o200k_counter()
    except InputError as error:
        found, _, advice = str(error).partition(": ")
        return Line("o200k_base", FAILED, found, f"{advice} (cobalt.token_counter=policy)")
    return Line("o200k_base", OK, str(o200k_path()))


def ports() -> Iterator[Line]:
    cluster = os.environ.get("RAY_ADDRESS")
    for number, what in PORTS:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("0.0.0.0", number))
                yield Line(f"port {number}", OK, f"free ({what})")
            except OSError:
                state, advice = WARNING, "scripts/cluster takes RAY_PORT; end what listens there"
                if cluster:
                    state, advice = OK, f"RAY_ADDRESS={cluster}"
                yield Line(f"port {number}", state, f"taken ({what})", advice)


def limits(of: Sizes | None, root: Path = Path("/")) -> Iterator[Line]:
    """What the container and the shell leave: memory, processes, open files."""
    memory = group_limit(root, "memory", "memory.max", "memory.limit_in_bytes")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    has = min(memory or total, total) / GIB
    # weights in fp32 while they load; recipes with long dialogues keep both moments and the reference there
    need = (16 * of.parameters / GIB) if of else _MEMORY_GIB
    advice = f"{need:,.0f} GiB {'hold all that recipes offload' if of else 'are few for 8B (--model NAME)'}"
    shown = f"{has:.1f} GiB" + (" (the container's limit)" if memory and memory < total else "")
    yield Line("main memory", OK if has >= need else WARNING, shown, advice)
    tasks = group_limit(root, "pids", "pids.max", "pids.max")
    # the hard limits: Ray and vLLM raise their own
    hard = [resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)]
    processes, files = (None if each == resource.RLIM_INFINITY else each for each in hard)
    for name, found, need_of, state, command in (
        ("pids limit", tasks, _THREADS, WARNING, "docker run --pids-limit=-1"),
        ("processes", processes, _THREADS, WARNING, "ulimit -u unlimited"),
        ("open files", files, _FILES, FAILED if files and files < 4096 else WARNING, "ulimit -n 65536"),
    ):
        enough = found is None or found >= need_of
        shown = "unlimited" if found is None else f"{found:,.0f}"
        yield Line(name, OK if enough else state, shown, f"{command} ({need_of:,} or more)")


def group_limit(root: Path, controller: str, new: str, old: str) -> float | None:
    """The least value of a control group's file, of this process's group and those above; None: no limit.

    ``cpu.max`` is read as cores. Both hierarchies are looked at: ``new`` of version 2, ``old`` of version 1.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    found = []
    for _, names, path in (line.split(":", 2) for line in lines):
        if names and controller not in names.split(","):
            continue
        base, file = root / "sys/fs/cgroup", old if names else new
        top = base / names if names and (base / names).is_dir() else base / controller if names else base
        for folder in (Path(path), *Path(path).parents):
            place = top / folder.relative_to("/") / file
            value = _number(place)
            if value is not None and value < 2**60:  # version 1 says "none" by a huge number
                found.append(value)
    return min(found, default=None)


def _number(file: Path) -> float | None:
    """The number in such a file; a quota of CPU time as cores."""
    try:
        words = file.read_text().split()
        period = file.with_name("cpu.cfs_period_us")
        if file.name == "cpu.cfs_quota_us":
            words.append(period.read_text())
        value = float(words[0])
        return None if value < 0 else value / float(words[1]) if len(words) > 1 else value
    except (OSError, ValueError, IndexError):  # "max"
        return None


def evaluator(works: list[str], root: Path = Path("/")) -> Iterator[Line]:
    """Isolation of programs, and whether verdicts of a published step keep up with its rollouts."""
    from cobalt.training.reward_overlap import Load, cores_needed

    if works:
        yield Line("isolation", OK, works[0])
    else:
        advice = "cobalt doctor says why; docs/execution.md, or an evaluator elsewhere (--evaluator URL)"
        yield Line("isolation", FAILED, "no safe level works here", advice)
    quota = group_limit(root, "cpu", "cpu.max", "cpu.cfs_quota_us")
    seen = len(os.sched_getaffinity(0))
    cores = min(float(seen), quota or seen)
    if cores < seen:
        advice = f"cobalt.evaluator_workers={max(1, int(cores))}"
        yield Line("cores", WARNING, f"{seen} are seen, {cores:.1f} may be used", advice)
    need = cores_needed(Load(), 0.05, 0).cores
    shown = f"{cores:.0f}; a published step needs {need} (cobalt plan)"
    advice = "steps will wait for verdicts; evaluators on other machines: docs/cluster.md"
    yield Line("evaluator cores", OK if cores >= need else WARNING, shown, advice)


def trial(profile: str, evaluator: str, overrides: list[str]) -> Line:
    """Two steps of a training."""
    from cobalt.training.smoke import smoke

    try:
        found = smoke(profile, overrides, evaluator=evaluator)
    except (InputError, InfraError) as error:
        return Line("smoke", FAILED, str(error), "docs/cluster.md")
    worst = max(found["probs_diff_max"])
    return Line(
        "smoke",
        OK,
        f"two steps on {found['devices']} device(s) in {found['seconds']} s (the first after "
        f"{found['first_step_s']} s); rollout and trainer differ by {worst:.1e} at most",
    )


def show(lines: list[Line], what: str) -> None:
    """For people."""
    for line in lines:
        said = f"not checked: {line.found}" if line.state == UNCHECKED else line.found
        print(f"{_MARK[line.state]} {line.name:<24} {said}")
        if line.advice:
            print(f"{'':<33}-> {line.advice}")
    failed = [line.name for line in lines if line.state == FAILED]
    print(f"{what}: " + (f"FAILED ({', '.join(failed)})" if failed else "nothing stands in the way"))
