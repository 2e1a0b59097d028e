"""What the inference doors share: their flags, and the way from flags to a finished run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cobalt.engines import ENGINES, check, connect
from cobalt.engines.base import ChatEngine
from cobalt.flags import Parser, parser, positive_int
from cobalt.pipeline import Summary, failures_path, make_progress
from cobalt.progress import TerminalProgress
from cobalt.prompts import load
from cobalt.rollouts.settings import DEFAULT_SAMPLES, RolloutSettings
from cobalt.rollouts.source import Source, refuse_overwriting

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

_CHARACTERS_PER_TOKEN = 4  # for the estimate of --dry_run only


def file_flags(flags: Parser) -> None:
    flags.add_argument("-i", "--input_file", required=True, help="JSONL file to read")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL file to write, or to continue")


def evaluator_flags(flags: Parser) -> None:
    flags.add_argument(
        "--evaluator", default="auto", metavar="auto|local|serve|URL",
        help="where programs run; auto is the Serve application of a reachable cluster, else this machine",
    )  # fmt: skip
    flags.add_argument(
        "--workers", type=positive_int, help="worker processes of a local evaluator (default: one per core)"
    )


def rollout_flags(description: str, default_engine: str) -> Parser:
    """A parser with the published flags of the inference scripts and those every runner of ours has."""
    flags = parser(description)
    file_flags(flags)
    flags.add_argument("--temperature", type=float, default=0.6, help="0 is greedy")
    flags.add_argument("--top_p", type=float, default=0.95, help="share of probability that is sampled from")
    flags.add_argument("--max_tokens", type=positive_int, default=8192, help="new tokens per completion")
    flags.add_argument(
        "-n",
        "--num_completions",
        type=positive_int,
        help=f"samples per task (default: {DEFAULT_SAMPLES}, or as many as the input has responses)",
    )
    flags.add_argument("--engine", choices=ENGINES, default=default_engine, help="what runs the model")
    flags.add_argument("--model_name", help="model served, or a model folder for --engine transformers")
    flags.add_argument(
        "--base_url", help="address of an OpenAI-compatible service, up to /v1, for --engine openai"
    )
    evaluator_flags(flags)
    flags.add_argument("--concurrency", type=positive_int, default=256, help="completions in flight at once")
    flags.add_argument("--seed", type=int, default=0, help="of the run: equal runs give equal samples")
    flags.add_argument("--limit", type=positive_int, help="use the first tasks only")
    flags.add_argument(
        "--prompts",
        default="default",
        metavar="default|tiny|FILE",
        help="prompt set, or a JSON file with one",
    )
    flags.add_argument(
        "--dry_run", action="store_true", help="check everything, estimate tokens, sample nothing"
    )
    return flags


def sampling_given(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of RolloutSettings among the flags."""
    return {
        "temperature": args.temperature, "top_p": args.top_p, "max_tokens": args.max_tokens,
        "n": args.num_completions, "seed": args.seed, "prompts": load(args.prompts),
    }  # fmt: skip


def carry_out(
    args: argparse.Namespace,
    source: Source,
    settings: RolloutSettings,
    stage: Callable[..., Awaitable[Summary]],
    *,
    programs: int,
) -> int:
    """Open engine and evaluator, then run `stage` or, with --dry_run, say what it would cost. The exit
    code.
    """
    return asyncio.run(_carry_out(args, source, settings, stage, programs))


async def _carry_out(
    args: argparse.Namespace,
    source: Source,
    settings: RolloutSettings,
    stage: Callable[..., Awaitable[Summary]],
    programs: int,
) -> int:
    refuse_overwriting(source, args.output_file)
    async with opened(args) as (engine, evaluator):
        if args.dry_run:
            print(_estimate(source, settings, programs))
            return 0
        with progress_shown() as progress:
            summary = await stage(
                source, args.output_file, engine, evaluator, settings,
                concurrency=args.concurrency, progress=progress,
            )  # fmt: skip
    print(closing_line(summary))
    return summary.exit_code


@contextlib.asynccontextmanager
async def opened(args: argparse.Namespace) -> AsyncIterator[tuple[ChatEngine, Evaluator]]:
    """Engine and evaluator of the flags, both known to answer, closed at the end."""
    from cobalt.evaluator import connect as connect_evaluator

    engine = connect(args.engine, args.model_name, args.base_url)
    try:
        await check(engine)
        with connect_evaluator(args.evaluator, workers=args.workers) as evaluator:
            yield engine, evaluator
    finally:
        await engine.aclose()


@contextlib.contextmanager
def progress_shown() -> Any:
    progress = make_progress()
    try:
        yield progress
    finally:
        if isinstance(progress, TerminalProgress):
            progress.close()


def closing_line(summary: Summary) -> str:
    parts = [f"{summary.output}: {summary.resumed + summary.written} of {summary.total} rows"]
    if summary.resumed:
        parts.append(f"{summary.resumed} of them from before")
    if summary.failed:
        parts.append(
            f"{summary.failed} failed, see {failures_path(summary.output)}; run again to try them again"
        )
    return ", ".join(parts)


def _estimate(source: Source, settings: RolloutSettings, programs: int) -> str:
    prompt = (
        sum(len(settings.prompts.system) + len(row["instruction"]) for row in source) // _CHARACTERS_PER_TOKEN
    )
    return (
        f"dry run: {len(source)} tasks, {programs} completions to sample, about "
        f"{prompt // len(source)} prompt tokens each in the first turn, at most "
        f"{programs * settings.max_tokens} completion tokens in all; nothing was sampled or written"
    )
