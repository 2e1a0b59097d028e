"""What the command lines of both runs share: their flags, and the way from flags to a finished run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from cobalt.cli import Parser, make_progress, parser, positive_int
from cobalt.engines import check, connect, engine_flags, engine_options, key_flags
from cobalt.errors import InputError
from cobalt.evaluator.client import environment_flag, evaluator_flags
from cobalt.evaluator.environment import open_environment
from cobalt.output import failures_path
from cobalt.pipeline import Summary
from cobalt.prompts import load
from cobalt.rollouts.inputs import Source, check_output
from cobalt.rollouts.settings import DEFAULT_SAMPLES, Budget, RolloutSettings
from cobalt.rows import INPUT_HELP

_CHARACTERS_PER_TOKEN = 4
_USUAL_COMPLETION = 1500  # tokens; the median of 8B reasoning models on such tasks is of this order
_USUAL_FEEDBACK = 200

PROVIDERS = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 32000, "reasoning_effort": "medium"}

Tokens = tuple[int, int]  # of all prompts, of all completions
Prices = tuple[float, float]  # US dollars per million of them


def file_flags(flags: Parser) -> None:
    flags.add_argument("-i", "--input_file", required=True, help=INPUT_HELP)
    flags.add_argument("-o", "--output_file", required=True, help="JSONL file to write, or to continue")


def sampling_flags(
    flags: Parser, temperature: float, top_p: float, max_tokens: int, effort: str | None, concurrency: int
) -> None:
    """Add what says how a model is sampled, with these defaults."""
    flags.add_argument("--temperature", type=float, default=temperature, help="0 is greedy")
    flags.add_argument("--top_p", type=float, default=top_p, help="share of probability sampled from")
    flags.add_argument("--max_tokens", type=positive_int, default=max_tokens, help="new tokens at most")
    flags.add_argument("-r", "--reasoning_effort", default=effort, help="for models that have one")
    flags.add_argument("--seed", type=int, default=0, help="of the run: equal runs give equal samples")
    flags.add_argument("--concurrency", type=positive_int, default=concurrency, help="how many at once")
    flags.add_argument(
        "--prompts", default="default", metavar="default|tiny|FILE",
        help="prompt set, or a JSON file with one (scripts/import_prompts.py makes the published one)",
    )  # fmt: skip


def rollout_flags(description: str, default_engine: str) -> Parser:
    """A parser with the published flags of the inference scripts and those both runs of ours have."""
    flags = parser(description)
    file_flags(flags)
    samples = f"samples per task (default: {DEFAULT_SAMPLES}, or as many as the input has responses)"
    return run_flags(flags, default_engine, samples)


def run_flags(flags: Parser, default_engine: str | None, samples: str) -> Parser:
    """Add how a model is run: sampling (`samples` is the help of -n), engine, evaluator, limits."""
    litellm = default_engine == "litellm"
    sampling_flags(flags, 0.6, 0.95, 8192, None, concurrency=256)
    if litellm:
        flags.set_defaults(**PROVIDERS)
    flags.add_argument("-n", "--num_completions", type=positive_int, help=samples)
    engine_flags(
        flags,
        default_engine,
        "gpt-5-mini-2025-08-07" if litellm else None,
        "model served (vllm: may be left out), a provider's model, a folder for transformers",
    )
    evaluator_flags(flags)
    environment_flag(flags)
    flags.add_argument("--limit", type=positive_int, help="use the first tasks only")
    flags.add_argument(
        "--dry_run", action="store_true", help="check everything, estimate tokens and cost, sample nothing"
    )
    flags.add_argument("--max_cost", type=float, help="end the run before it has cost more US dollars")
    flags.add_argument(
        "--prices", type=float, nargs=2, metavar=("IN", "OUT"),
        help="US dollars per million prompt and completion tokens, where litellm knows none",
    )  # fmt: skip
    if litellm:
        key_flags(flags)
    return flags


def sampling_given(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of RolloutSettings among the flags."""
    return {
        "temperature": args.temperature, "top_p": args.top_p, "max_tokens": args.max_tokens,
        "n": args.num_completions, "seed": args.seed, "prompts": load(args.prompts),
        "reasoning_effort": args.reasoning_effort or None,
    }  # fmt: skip


async def carry_out(
    args: argparse.Namespace,
    source: Source,
    settings: RolloutSettings,
    stage: Callable[..., Awaitable[Summary]],
    *,
    programs: int,
    turns: int = 1,
) -> int:
    """Open engine and evaluator, then run `stage` or, with --dry_run, say what it would cost; returns the
    exit code.
    """
    from cobalt.evaluator import connect as connect_evaluator

    check_output(source.paths, args.output_file)
    environment = open_environment(args.environment, "--environment")
    opened = connect(args.engine, args.model_name, args.base_url, **engine_options(args))
    async with contextlib.aclosing(opened) as engine:
        given: Prices | None = tuple(args.prices) if args.prices else None
        prices: Prices | None = given or getattr(engine, "price", lambda: None)()
        if args.max_cost is not None and prices is None:
            raise InputError(
                f"--max_cost: no price is known for {engine.name}; give --prices IN OUT (US dollars per "
                "million prompt and completion tokens)"
            )
        size = sum(len(settings.prompts.system) + len(row["instruction"]) for row in source)
        prompt = size // _CHARACTERS_PER_TOKEN // len(source)
        if args.dry_run:  # first, as it needs neither a key nor a service
            print(_estimate(len(source), programs, turns, prompt, settings.max_tokens, prices), flush=True)
        await check(engine)
        with connect_evaluator(args.evaluator, workers=args.workers, environment=environment) as evaluator:
            evaluator.trial(next(iter(source)))
            if args.dry_run:
                return 0
            first = _dollars((prompt, settings.max_tokens), prices) if prices else 0.0
            with make_progress() as progress:
                summary = await stage(
                    source, args.output_file, engine, evaluator, settings, concurrency=args.concurrency,
                    budget=Budget(args.max_cost, given, prices, first), progress=progress,
                )  # fmt: skip
    print(closing_line(summary))
    return summary.exit_code


def _estimate(
    tasks: int, programs: int, turns: int, prompt: int, max_tokens: int, prices: Prices | None
) -> str:
    """What a run takes, `prompt` tokens in a first turn: with completions of usual length, and at most."""
    usual, most = (
        # A dialogue grows: on average over its turns, half of the further ones are in the prompt.
        (programs * (prompt + (size + _USUAL_FEEDBACK) * (turns - 1) // 2), programs * size)
        for size in (min(max_tokens, _USUAL_COMPLETION), max_tokens)
    )
    money = ""
    if prices:
        money = f", about ${_dollars(usual, prices):.2f} (at most ${_dollars(most, prices):.2f})"
    return (
        f"dry run: {tasks} tasks, {programs} completions to sample, about {prompt} prompt tokens each in the "
        f"first turn, at most {most[1]} completion tokens in all; with completions of usual length "
        f"{usual[0]} prompt and {usual[1]} completion tokens{money}; nothing was sampled or written"
    )


def _dollars(tokens: Tokens, prices: Prices) -> float:
    return (tokens[0] * prices[0] + tokens[1] * prices[1]) / 1e6


def closing_line(summary: Summary) -> str:
    """What is in the output, and what is not."""
    parts = [f"{summary.output}: {summary.resumed + summary.written} of {summary.total} rows"]
    if summary.resumed:
        parts.append(f"{summary.resumed} of them from before")
    if summary.failed:
        parts.append(
            f"{summary.failed} failed, see {failures_path(summary.output)}; run again to try them again"
        )
    return ", ".join(parts)
