"""What this machine gives: `cobalt doctor`; with `--gpu`, whether a training on GPUs would run here.

Exit code 0: programs can be run safely (and nothing stands in the way of a training). 1: no safe isolation
level works here (or a check failed). 2: wrong arguments.
"""

import contextlib
import json
import os
import platform
import sys
from argparse import Namespace
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cobalt.cli import parser, run_main
from cobalt.errors import InfraError
from cobalt.sandbox.levels import try_limits
from cobalt.sandbox.policy import LEVELS

_PACKAGES = """numpy torch transformers verl ray vllm datasets pandas pyarrow tensordict TransferQueue litellm
tiktoken"""
_SETTINGS = {
    "user namespaces per user": "/proc/sys/user/max_user_namespaces",
    "unprivileged user namespaces": "/proc/sys/kernel/unprivileged_userns_clone",
    "AppArmor restricts user namespaces": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "Yama ptrace scope": "/proc/sys/kernel/yama/ptrace_scope",
    "security modules": "/sys/kernel/security/lsm",
}


def examine(levels: list[str]) -> dict[str, Any]:
    """Facts about the machine. `isolation` holds, for each level, `works`, `why` and the limits tried."""
    return {
        "system": {
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
            "python": f"{platform.python_version()} ({sys.executable})",
            "cpus": len(os.sched_getaffinity(0)),
            "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
            **{name: text for name, path in _SETTINGS.items() if (text := _read(path)) is not None},
        },
        "packages": {name: _version(name) for name in _PACKAGES.split()},
        "gpus": _gpus(),
        "ray": os.environ.get("RAY_ADDRESS") or "no RAY_ADDRESS set",
        "isolation": {level: _level(level) for level in levels},
    }


def _level(level: str) -> dict[str, Any]:
    try:
        limits = try_limits(level)
    except InfraError as error:
        return {"works": False, "why": str(error), "limits": {}}
    broken = [name for name, answer in limits.items() if answer != "held"]
    why = f"{len(broken)} of {len(limits)} limits do not hold" if broken else ""
    return {"works": not broken, "why": why, "limits": limits}


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _gpus() -> list[str]:
    return sorted(
        line.partition(":")[2].strip()
        for path in Path("/proc/driver/nvidia/gpus").glob("*/information")
        for line in (_read(str(path)) or "").splitlines()
        if line.startswith("Model:")
    )


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


def _gpu(args: Namespace, facts: dict[str, Any]) -> int:
    from cobalt.training import gpu_doctor

    works = [level for level, found in facts["isolation"].items() if found["works"]]
    lines = gpu_doctor.examine(args.model, Path(args.output), works)
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
    options.add_argument("--json", action="store_true", help="print one JSON object")
    safe = list(LEVELS[:-1])
    options.add_argument(
        "--level", choices=["all", *safe], default="all", help="which isolation level to try"
    )
    gpu = options.add_argument_group("trainings on GPUs")
    gpu.add_argument("--gpu", action="store_true", help="check all that a training on GPUs needs")
    gpu.add_argument("--smoke", action="store_true", help="and train a tiny random model for two steps")
    gpu.add_argument("--model", help="model that will be trained: folder or hub name (files, memory, disk)")
    gpu.add_argument("-o", "--output", default="outputs", help="folder that will hold trainings")
    gpu.add_argument(
        "--profile",
        choices=choices("profile"),
        default="gpu",
        help="hardware settings of --smoke",
    )
    gpu.add_argument("--evaluator", default="local", help="of --smoke: local, serve or a URL")
    gpu.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides of --smoke")
    args = options.parse_intermixed_args(argv)
    asked = args.smoke or args.model or args.overrides or args.profile != "gpu" or args.evaluator != "local"
    if asked and not args.gpu:
        options.error("--smoke, --model, --profile, --evaluator and overrides belong to --gpu")
    facts = examine(safe if args.level == "all" else [args.level])
    if args.gpu:
        return _gpu(args, facts)
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        _print(facts)
        best = next((level for level in safe if facts["isolation"].get(level, {}).get("works")), None)
        print(
            f"programs are run at isolation level: {best}" if best else "programs cannot be run safely here"
        )
    return 0 if any(found["works"] for found in facts["isolation"].values()) else 1


if __name__ == "__main__":
    run_main(main)
