"""What this machine gives, and what will run on it: `cobalt doctor`; with `--gpu`, whether a training on GPUs
would run here, in full.

Exit code 0: programs can be run safely (and nothing stands in the way of a training). 1: no safe isolation
level works here (or a check failed). 2: wrong arguments.
"""

import contextlib
import json
import os
import platform
import shutil
import sys
from argparse import Namespace
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cobalt.cli import parser, run_main
from cobalt.errors import InfraError
from cobalt.sandbox.limits import LEVELS
from cobalt.sandbox.probe import try_limits

_SAFE = LEVELS[:-1]
_PACKAGES = """numpy torch transformers verl ray vllm datasets pandas pyarrow tensordict TransferQueue litellm
tiktoken"""
_DEMO = ("numpy", "torch", "transformers", "verl", "ray", "pandas", "pyarrow")
_MEMORY_GIB, _DISK_GIB = 7.0, 1.0  # of the demo: a machine "of 8 GB" has a little less
_SETTINGS = {
    "user namespaces per user": "/proc/sys/user/max_user_namespaces",
    "unprivileged user namespaces": "/proc/sys/kernel/unprivileged_userns_clone",
    "AppArmor restricts user namespaces": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "Yama ptrace scope": "/proc/sys/kernel/yama/ptrace_scope",
    "security modules": "/sys/kernel/security/lsm",
}


def examine(levels: list[str]) -> dict[str, Any]:
    """Facts about the machine. `isolation` holds, for each level, `works`, `why` and the limits tried."""
    models = [
        line.partition(":")[2].strip()
        for path in Path("/proc/driver/nvidia/gpus").glob("*/information")
        for line in (_read(path) or "").splitlines()
        if line.startswith("Model:")
    ]
    memory, disk = _room()
    return {
        "system": {
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
            "python": f"{platform.python_version()} ({sys.executable})",
            "cpus": len(os.sched_getaffinity(0)),
            "memory": f"{memory:.1f} GiB",
            "disk": f"{disk:.1f} GiB free in {Path.cwd()}",
            "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
            **{name: text for name, path in _SETTINGS.items() if (text := _read(Path(path))) is not None},
        },
        "packages": {name: _version(name) for name in _PACKAGES.split()},
        "gpus": sorted(models),
        "ray": os.environ.get("RAY_ADDRESS") or "no RAY_ADDRESS set",
        "isolation": {level: _level(level) for level in levels},
    }


def _room() -> tuple[float, float]:
    """GiB of memory (the container's limit, if there is one) and of free disk in the current folder."""
    from cobalt.training.gpu_doctor import host_memory

    return host_memory() / 2**30, shutil.disk_usage(Path.cwd()).free / 2**30


def verdict(facts: dict[str, Any]) -> dict[str, list[str]]:
    """Why the demo, and trainings on GPUs, will not run on the machine of these facts: nothing, if they will.

    Of GPUs only what shows at once counts; `--gpu` tries the rest.
    """
    found, (memory, disk) = facts["packages"], _room()
    missing = [name for name in _DEMO if found.get(name) == "not installed"]
    both = [f"{', '.join(missing)} not installed (make setup)"] if missing else []
    if not any(level["works"] for level in facts["isolation"].values()):
        both.append("programs cannot be run safely here")
    demo = [f"it needs 8 GB of memory, and there are {memory:.1f} GiB"] if memory < _MEMORY_GIB else []
    demo += [f"it needs 1 GB of disk, and there are {disk:.1f} GiB"] if disk < _DISK_GIB else []
    gpu = [] if facts["gpus"] else ["there is no GPU"]
    if found["vllm"] == "not installed" or "cpu" in found["vllm"]:
        gpu.append(f"vllm is {'the CPU build' if 'cpu' in found['vllm'] else 'not installed'}")
    return {"the demo": both + demo, "GPU training": both + gpu}


def _level(level: str) -> dict[str, Any]:
    try:
        limits = try_limits(level)
    except InfraError as error:
        return {"works": False, "why": str(error), "limits": {}}
    broken = [name for name, answer in limits.items() if answer != "held"]
    why = f"{len(broken)} of {len(limits)} limits do not hold" if broken else ""
    return {"works": not broken, "why": why, "limits": limits}


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _print(facts: dict[str, Any]) -> None:
    for section in ("system", "packages"):
        print(f"{section}:")
        for name, value in facts[section].items():
            print(f"  {name:36s} {value}")
    print(f"gpus: {', '.join(facts['gpus']) or 'none'}")
    print(f"ray: {facts['ray']}")
    for level, found in facts["isolation"].items():
        print(f"isolation {level}: {'works' if found['works'] else 'NOT AVAILABLE'}")
        if found["why"]:
            print(f"  {found['why']}")
        for name, answer in found["limits"].items():
            print(f"  {name:44s} {answer}")
    best = next((level for level, found in facts["isolation"].items() if found["works"]), None)
    print(f"programs are run at isolation level: {best}" if best else "programs cannot be run safely here")
    said = [
        f"{what} will not, because {' and '.join(why)}" if why else f"{what} will run"
        for what, why in facts["verdict"].items()
    ]
    print(f"verdict: {'; '.join(said)}" + ("" if facts["verdict"]["GPU training"] else " (--gpu tries it)"))


def _gpu(args: Namespace, facts: dict[str, Any]) -> int:
    from cobalt.training import gpu_doctor

    works = [level for level, found in facts["isolation"].items() if found["works"]]
    lines = gpu_doctor.examine(args.model, Path(args.output), args.profile, works)
    if not args.json:
        gpu_doctor.show(lines, "checks")
    if args.smoke:
        with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
            lines.append(gpu_doctor.trial(args.profile, args.evaluator, args.overrides))
        if not args.json:
            gpu_doctor.show(lines[-1:], "smoke")
    if args.json:
        print(json.dumps(facts | {"gpu": [asdict(line) for line in lines]}, indent=2))
    return 1 if any(line.state == "FAILED" for line in lines) else 0


def main(argv: list[str] | None = None) -> int:
    from cobalt.training.config import choices

    options = parser("What this machine gives: isolation, each limit tried, versions.")
    add = options.add_argument
    add("--json", action="store_true", help="print one JSON object")
    add("--level", choices=["all", *_SAFE], default="all", help="which isolation level to try")
    add = options.add_argument_group("trainings on GPUs").add_argument
    add("--gpu", action="store_true", help="check all that a training on GPUs needs")
    add("--smoke", action="store_true", help="and train a tiny random model for two steps")
    add("--model", help="model that will be trained: folder or hub name (files, memory, disk)")
    add("-o", "--output", default="outputs", help="folder that will hold trainings")
    profiles = choices("profile")
    add("--profile", choices=profiles, default="gpu", help="hardware settings of recipes and of --smoke")
    add("--evaluator", default="local", help="of --smoke: local, serve or a URL")
    add("overrides", nargs="*", metavar="key=value", help="Hydra overrides of --smoke")
    args = options.parse_intermixed_args(argv)
    asked = args.smoke or args.model or args.overrides or args.profile != "gpu" or args.evaluator != "local"
    if asked and not args.gpu:
        options.error("--smoke, --model, --profile, --evaluator and overrides belong to --gpu")
    facts = examine(list(_SAFE) if args.level == "all" else [args.level])
    facts["verdict"] = verdict(facts)
    if args.gpu:
        return _gpu(args, facts)
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        _print(facts)
    return 0 if any(found["works"] for found in facts["isolation"].values()) else 1


if __name__ == "__main__":
    run_main(main)
