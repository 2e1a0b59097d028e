"""`cobalt plan`: what the run of a configuration takes, with the arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from cobalt.cli import Parser, parser, positive_int
from cobalt.config.load import load
from cobalt.errors import InputError
from cobalt.plan.assumptions import GPUS, Assumptions, shape
from cobalt.plan.estimate import beside, devices, estimate
from cobalt.plan.from_config import workload
from cobalt.plan.measured import apply


def main(argv: list[str] | None = None) -> int:
    """Print the plan; returns the exit code."""
    args = _flags().parse_args(argv)
    a = Assumptions()
    for path in args.bench or ():
        a = apply(a, path)
    a = a.replaced(args.assume or ())
    if args.list_assumptions:
        for row in a.rows.values():
            print(f"{row.name} = {row.default:g} {row.unit}  ({row.reason})")
        return 0
    if args.config is None:
        raise InputError("name a configuration, for instance configs/qwen3-8b.yaml")
    config = load(args.config, args.set or (), smoke=args.smoke)
    work = workload(config, args.config, gpu=args.gpu, gpus=args.gpus, assumptions=a)
    if args.model:
        work = replace(work, model=shape(args.model, Path(args.model)))
    for flag in ("gpus", "table"):
        if getattr(args, flag) and not work.on_gpu:
            raise InputError(f"--{flag} is about GPUs, and this is the CPU profile: name a kind with --gpu")
    found, factors = estimate(work, a), args.scale or ()
    multiples = [estimate(work.scaled(factor), a) for factor in factors]
    if args.json:
        scales = [
            {"factor": factor, **each.as_dict()} for factor, each in zip(factors, multiples, strict=True)
        ]
        print(json.dumps(found.as_dict() | {"scales": scales}))
        return 0
    print("\n".join(found.summary() if args.summary else found.lines()))
    if multiples:
        print("\nother amounts of training data (evaluation stays)", *beside(multiples, factors), sep="\n")
    if args.table:
        print(
            f"\nGPU hours by model and GPU kind ({work.name}, otherwise as above)",
            *devices(work, a),
            sep="\n",
        )
    return 0


def _flags() -> Parser:
    flags = parser(
        "What the run of a configuration takes: tokens, evaluator CPU hours, GPU hours, disk, money and "
        "time, line by line."
    )
    add = flags.add_argument
    add("config", nargs="?", type=Path, help="YAML file, for instance configs/qwen3-8b.yaml")
    add("--json", action="store_true", help="print JSON")
    add("--list_assumptions", action="store_true", help="names, defaults, units and reasons")
    add("--gpu", choices=(*GPUS, "cpu"), help="kind of GPU (otherwise as the configuration suggests)")
    add("--gpus", type=positive_int, help="how many (otherwise `train.gpus`)")
    add("--model", help="plan for another model: a name on the hub or a folder")
    add(
        "--bench", type=Path, nargs="+", action="extend", metavar="FILE",
        help="files of `benchmarks/evaluator.py|inference.py --json FILE`; their figures replace assumptions",
    )  # fmt: skip
    add("--assume", action="append", metavar="NAME=VALUE", help="another assumption; may be repeated")
    add(
        "--scale", type=positive_int, nargs="+", metavar="N",
        help="compare multiples of the training data (1 10 100), and what would do them in the first's time",
    )  # fmt: skip
    add("--table", action="store_true", help="GPU hours by model size and GPU kind")
    add(
        "--set", action="append", metavar="SECTION.KEY=VALUE",
        help="change the configuration, as in cobalt run; may be repeated",
    )  # fmt: skip
    add("--smoke", action="store_true", help="the configuration made small, as `cobalt run --smoke` runs it")
    add("--summary", action="store_true", help="leave out the arithmetic and the assumptions")
    return flags
