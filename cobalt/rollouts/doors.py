"""What the inference doors share: their flags, and the way from flags to a finished run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cobalt.cli import Parser, parser, positive_int
from cobalt.engines import ENGINES, OWN, check, connect, engine_name
from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError
from cobalt.evaluator.client import evaluator_flags
from cobalt.pipeline import Summary
from cobalt.prompts import load
from cobalt.rejects import failures_path
from cobalt.rollouts.estimate import Estimate, price_of
from cobalt.rollouts.keys import credentials_given, key_flags
from cobalt.rollouts.settings import DEFAULT_SAMPLES, Limits, RolloutSettings
from cobalt.rollouts.source import Source, refuse_overwriting
from cobalt.rollouts.view import RolloutView
from cobalt.rows import INPUT_HELP

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator


def file_flags(flags: Parser) -> None:
    flags.add_argument("-i", "--input_file", required=True, help=INPUT_HELP)
    flags.add_argument("-o", "--output_file", required=True, help="JSONL file to write, or to continue")


def rollout_flags(description: str, default_engine: str) -> Parser:
    """A parser with the published flags of the inference scripts and those every runner of ours has."""
    litellm = default_engine == "litellm"
    flags = parser(description)
    file_flags(flags)
    flags.add_argument("--temperature", type=float, default=1.0 if litellm else 0.6, help="0 is greedy")
    flags.add_argument(
        "--top_p", type=float, default=1.0 if litellm else 0.95, help="share of probability sampled from"
    )
    flags.add_argument(
        "--max_tokens",
        type=positive_int,
        default=32000 if litellm else 8192,
        help="new tokens per completion",
    )
    flags.add_argument(
        "-n",
        "--num_completions",
        type=positive_int,
        help=f"samples per task (default: {DEFAULT_SAMPLES}, or as many as the input has responses)",
    )
    engines = f"what runs the model: {', '.join(ENGINES)}, or {OWN}"
    flags.add_argument("--engine", type=engine_name, default=default_engine, help=engines)
    flags.add_argument(
        "--model_name", default="gpt-5-mini-2025-08-07" if litellm else None,
        help="model served (vllm: may be left out), a provider's model, a folder for transformers",
    )  # fmt: skip
    flags.add_argument(
        "--base_url", help="address of an OpenAI-compatible service, up to /v1, or of a vLLM server"
    )
    flags.add_argument(
        "-r", "--reasoning_effort", default="medium" if litellm else None, help="for models that have one"
    )
    evaluator_flags(flags)
    flags.add_argument("--concurrency", type=positive_int, default=256, help="completions in flight at once")
    flags.add_argument("--timeout_s", type=float, help="longest wait for one answer (default: 900)")
    flags.add_argument("--seed", type=int, default=0, help="of the run: equal runs give equal samples")
    flags.add_argument("--limit", type=positive_int, help="use the first tasks only")
    flags.add_argument(
        "--prompts",
        default="default",
        metavar="default|tiny|FILE",
        help="prompt set, or a JSON file with one (scripts/import_prompts.py makes the published one)",
    )
    flags.add_argument(
        "--dry_run", action="store_true", help="check everything, estimate tokens and cost, sample nothing"
    )
    flags.add_argument("--max_cost", type=float, help="end the run before it has cost more US dollars")
    flags.add_argument(
        "--prices", type=float, nargs=2, metavar=("IN", "OUT"),
        help="US dollars per million prompt and completion tokens, where litellm knows none",
    )  # fmt: skip
    flags.add_argument(
        "--rpm", type=positive_int, help="requests per minute that the provider allows (litellm)"
    )
    flags.add_argument(
        "--tpm", type=positive_int, help="tokens per minute that the provider allows (litellm)"
    )
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


def carry_out(
    args: argparse.Namespace,
    source: Source,
    settings: RolloutSettings,
    stage: Callable[..., Awaitable[Summary]],
    *,
    programs: int,
    turns: int = 1,
) -> int:
    """Open engine and evaluator, then run `stage` or, with --dry_run, say what it would cost. The exit
    code.
    """
    return asyncio.run(_carry_out(args, source, settings, stage, programs, turns))


async def _carry_out(
    args: argparse.Namespace,
    source: Source,
    settings: RolloutSettings,
    stage: Callable[..., Awaitable[Summary]],
    programs: int,
    turns: int,
) -> int:
    refuse_overwriting(source, args.output_file)
    async with opened(args) as (engine, evaluator):
        estimate = Estimate.of(source, settings, programs, turns, price_of(args, engine))
        if args.max_cost is not None and estimate.prices is None:
            raise InputError(
                f"--max_cost: no price is known for {engine.name}; give --prices IN OUT (US dollars per "
                "million prompt and completion tokens)"
            )
        if args.dry_run:
            print(estimate)
            return 0
        limits = Limits(
            args.concurrency, args.max_cost, tuple(args.prices) if args.prices else None, estimate.first_cost
        )
        with progress_shown() as progress:
            summary = await stage(
                source, args.output_file, engine, evaluator, settings, limits=limits, progress=progress
            )
    print(closing_line(summary))
    return summary.exit_code


@contextlib.asynccontextmanager
async def opened(args: argparse.Namespace) -> AsyncIterator[tuple[ChatEngine, Evaluator]]:
    """Engine and evaluator of the flags, both known to answer, closed at the end."""
    from cobalt.evaluator import connect as connect_evaluator

    engine = connect(args.engine, args.model_name, args.base_url, **engine_options(args))
    try:
        await check(engine)
        with connect_evaluator(args.evaluator, workers=args.workers) as evaluator:
            yield engine, evaluator
    finally:
        await engine.aclose()


def engine_options(args: argparse.Namespace) -> dict[str, Any]:
    """What of the flags goes to the engine's class."""
    if (args.rpm or args.tpm) and args.engine != "litellm":
        raise InputError(f"--rpm and --tpm are limits of --engine litellm, not of {args.engine}")
    if args.engine == "transformers" or args.engine not in ENGINES:
        return {}
    options: dict[str, Any] = {"concurrency": args.concurrency}
    if args.timeout_s is not None:
        options["timeout_s"] = args.timeout_s
    credentials = credentials_given(args)
    if args.engine == "litellm":
        return options | {"credentials": credentials, "rpm": args.rpm, "tpm": args.tpm}
    return options | ({"key": credentials["api_key"]} if "api_key" in credentials else {})


@contextlib.contextmanager
def progress_shown() -> Any:
    view = RolloutView()
    try:
        yield view
    finally:
        view.close()


def closing_line(summary: Summary) -> str:
    parts = [f"{summary.output}: {summary.resumed + summary.written} of {summary.total} rows"]
    if summary.resumed:
        parts.append(f"{summary.resumed} of them from before")
    if summary.failed:
        parts.append(
            f"{summary.failed} failed, see {failures_path(summary.output)}; run again to try them again"
        )
    return ", ".join(parts)
