"""`cobalt plan`: what a run takes, with the arithmetic; without a configuration, how many evaluator cores."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.cli import Parser, parser, positive_int
from cobalt.commands import plan_cores
from cobalt.errors import InputError

_PIPELINE = (
    "gpu", "gpus", "model", "bench", "scale", "set", "smoke", "assume", "table", "summary",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Print the plan; returns the exit code."""
    flags = parser(
        "What the run of a configuration takes: tokens, evaluator CPU hours, GPU hours, disk, money and "
        "time, line by line. Without a configuration: how many evaluator cores hide the rewards of a "
        "training behind generation (simulates one step: programs arrive as their completions end, a core "
        "runs one program's tests at a time)."
    )
    flags.add_argument("config", nargs="?", type=Path, help="YAML file, for instance configs/qwen3-8b.yaml")
    flags.add_argument("--json", action="store_true", help="print JSON")
    flags.add_argument("--list_assumptions", action="store_true", help="names, defaults, units and reasons")
    _pipeline_flags(flags)
    plan_cores.add_flags(flags)
    args = flags.parse_args(argv)
    if args.list_assumptions:
        from cobalt.planning import assumptions

        print(assumptions.listing(_assumptions(args)))
        return 0
    cores = [name for name in plan_cores.NAMES if getattr(args, name) != flags.get_default(name)]
    pipeline = [name for name in _PIPELINE if getattr(args, name) != flags.get_default(name)]
    if args.config is None:
        if pipeline:
            raise InputError(f"--{pipeline[0]} is about the run of a configuration: name its file, too")
        return plan_cores.run(args)
    if cores:
        raise InputError(
            f"--{cores[0]} is for evaluator cores without a configuration; with one use --assume "
            "(cobalt plan --list_assumptions)"
        )
    return _run(args)


def _pipeline_flags(flags: Parser) -> None:
    from cobalt.planning.assumptions import GPUS

    group = flags.add_argument_group("with a configuration")
    add = group.add_argument
    add("--gpu", choices=(*GPUS, "cpu"), help="kind of GPU (otherwise as the configuration suggests)")
    add("--gpus", type=positive_int, help="how many (otherwise `train.gpus`)")
    add("--model", help="plan for another model: a name on the hub or a folder")
    add(
        "--bench", type=Path, nargs="+", action="extend", metavar="FILE",
        help="files of `cobalt bench evaluator|inference --json FILE`, whose figures replace assumptions",
    )  # fmt: skip
    add("--assume", action="append", metavar="NAME=VALUE", help="another assumption; may be repeated")
    add(
        "--scale", type=plan_cores.above_zero, nargs="+", metavar="N",
        help="compare multiples of the training data (1 10 100), and say where each part saturates",
    )  # fmt: skip
    add("--table", action="store_true", help="GPU hours by model size and GPU kind")
    add(
        "--set", action="append", metavar="SECTION.KEY=VALUE",
        help="change the configuration, as in cobalt run; may be repeated",
    )  # fmt: skip
    add("--smoke", action="store_true", help="the configuration made small, as `cobalt run --smoke` runs it")
    add("--summary", action="store_true", help="leave out the arithmetic and the assumptions")


def _assumptions(args: argparse.Namespace) -> Any:
    from cobalt.planning.assumptions import Assumptions, parse
    from cobalt.planning.bench import apply

    found = Assumptions()
    for path in args.bench or ():
        found = apply(found, path)
    return found.replaced(parse(args.assume or []), "--assume")


def _run(args: argparse.Namespace) -> int:
    from cobalt.planning import scaling
    from cobalt.planning.estimate import arithmetic, estimate
    from cobalt.planning.from_config import workload
    from cobalt.planning.models import shape
    from cobalt.run.config import load

    a = _assumptions(args)
    config = load(args.config, args.set or (), smoke=args.smoke)
    work = workload(config, args.config, gpu=args.gpu, gpus=args.gpus, assumptions=a)
    if args.model:
        work = replace(work, model=shape(args.model, Path(args.model)))
    if args.gpus and not work.on_gpu:
        raise InputError("--gpus: the CPU profile has no GPUs; name a kind with --gpu")
    found = estimate(work, a)
    factors = args.scale or ()
    scaled = scaling.scales(work, a, factors)
    if args.json:
        answer = found.as_dict()
        if scaled:
            answer["scales"] = [
                {"factor": factor, **each.as_dict()} for factor, each in zip(factors, scaled, strict=True)
            ]
        print(json.dumps(answer))
        return 0
    for line in found.summary() if args.summary else found.lines():
        print(line)
    if scaled:
        print("\nother amounts of training data (evaluation stays)")
        print("\n".join(scaling.table(scaled, factors)))
        print("\nwhere each part saturates")
        print("\n".join(arithmetic(scaling.saturation(scaled, factors, a).lines)))
    if args.table and not work.on_gpu:
        raise InputError("--table is about GPUs, and this is the CPU profile: name a kind with --gpu")
    if args.table:
        print(f"\nGPU hours by model and GPU kind ({work.name}, otherwise as above)")
        print("\n".join(scaling.devices(work, a)))
    return 0
