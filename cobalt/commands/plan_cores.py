"""How many evaluator cores a training needs, with the arithmetic (`cobalt plan` without a configuration)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math

from cobalt.cli import positive_int
from cobalt.errors import InputError
from cobalt.training.reward_overlap import SUITE_LIMIT_S, Load, cores_needed, expose

MEMORY_PER_CORE_GIB = 1.0  # address space that one program may use at most
_HELP = {
    "contexts": "contexts (prompts) per step",
    "samples": "completions per context",
    "tests": "tests per program",
    "test_ms": "median CPU milliseconds per test (cobalt bench evaluator measures yours)",
    "test_sigma": "deviation of the logarithm of a test's time",
    "slow_share": "share of tests that reach the limit of 4 s",
    "median_tokens": "median tokens of a response",
    "length_sigma": "deviation of the logarithm of a response's length",
    "max_tokens": "length limit",
    "cut_with_code": "share of responses cut at the limit that have a program all the same",
    "tokens_per_s": "decoding speed of one sequence",
}


FLAGS = ("exposed", "distinct", "cores", "seed")
NAMES = (*(field.name for field in dataclasses.fields(Load)), *FLAGS)


def add_flags(flags: argparse.ArgumentParser) -> None:
    """The flags of a plan without a configuration."""
    group = flags.add_argument_group("without a configuration: evaluator cores")
    for field in dataclasses.fields(Load):
        kind, name = positive_int if isinstance(field.default, int) else float, field.name
        group.add_argument(f"--{name}", type=kind, default=field.default, help=_HELP[name])
    group.add_argument("--exposed", type=_share, default=0.05, help="allowed share of generation time")
    distinct = "share of programs that must run (verdicts of identical programs are shared)"
    group.add_argument("--distinct", type=_share, default=1.0, help=distinct)
    group.add_argument("--cores", type=positive_int, help="judge this number instead of searching")
    group.add_argument("--seed", type=int, default=0, help="of lengths and times")


def run(args: argparse.Namespace) -> int:
    """Print how many cores; returns the exit code. Raises InputError for flags that make no sense."""
    load = Load(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Load)})
    _check(load)
    load = dataclasses.replace(load, samples=max(1, round(load.samples * args.distinct)))
    try:
        if args.cores:
            found = expose(load, args.cores, args.seed)
        else:
            found = cores_needed(load, args.exposed, args.seed)
    except ValueError as error:
        raise InputError(str(error)) from None
    if args.json:
        print(json.dumps(dataclasses.asdict(load) | dataclasses.asdict(found) | {"share": found.share}))
        return 0
    mean = load.mean_test_s
    work = load.programs * load.tests * mean
    print(
        f"programs: {load.contexts} contexts x {load.samples} = {load.programs:,} per step, "
        f"{load.tests} tests each = {load.programs * load.tests:,} tests\n"
        f"CPU: {1000 * mean:.0f} ms per test on average = {work:,.0f} core-seconds; "
        f"{found.cpu_s:,.0f} run (responses cut at the limit have no program, a suite ends at "
        f"{SUITE_LIMIT_S:g} s)\n"
        f"generation: {found.generation_s:,.0f} s; at full use {found.cpu_s / found.generation_s:.1f} "
        "cores keep up with it\n"
        f"exposed: {found.exposed_s:.1f} s = {100 * found.share:.1f} % of generation with {found.cores} "
        f"cores, {100 * found.busy:.0f} % of them busy\n"
        f"plan: {found.cores} evaluator cores, {math.ceil(found.cores * MEMORY_PER_CORE_GIB)} GiB of memory "
        "at most for their programs"
    )
    return 0


def above_zero(text: str) -> float:
    """An argparse type: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _share(text: str) -> float:
    value = above_zero(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text} is not in (0, 1]")
    return value


def _check(load: Load) -> None:
    for name in ("test_ms", "median_tokens", "tokens_per_s"):
        if getattr(load, name) <= 0:
            raise InputError(f"--{name} must be positive")
    if (
        not 0 <= load.slow_share <= 1
        or not 0 <= load.cut_with_code <= 1
        or load.test_sigma < 0
        or load.length_sigma < 0
    ):
        raise InputError(
            "--slow_share and --cut_with_code must be in [0, 1], --test_sigma and --length_sigma at least 0"
        )
