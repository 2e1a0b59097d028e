"""The command line of `run_llm_judge.py`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cobalt.analysis.calibration import calibrate, lines
from cobalt.analysis.judge import Judged, JudgeSettings, judge_file, open_cases
from cobalt.cli import Parser, make_progress, parser, positive_int
from cobalt.engines import check, connect
from cobalt.engines.flags import engine_flags, engine_options, key_flags
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.prompts import load
from cobalt.rollouts.cli import closing_line

MODEL = "gpt-4.1-2025-04-14"  # of the published script; its README names gpt-5-2025-08-07
EFFORTS = ("none", "minimal", "low", "medium", "high")


def main(argv: list[str] | None = None) -> int:
    """Judge cases, or with --calibrate the judge; returns the exit code."""
    args = _flags().parse_args(argv)
    settings = JudgeSettings(
        args.num_completions, args.temperature, args.top_p, args.max_tokens,
        None if args.reasoning_effort == "none" else args.reasoning_effort, args.ask_again, args.seed,
        load(args.prompts),
    )  # fmt: skip
    if not args.calibrate:
        if not args.input_file or not args.output_file:
            raise InputError("run_llm_judge.py needs --input_file and --output_file (or --calibrate)")
        open_cases(args.input_file)  # before an engine is opened
    return asyncio.run(_main(args, settings))


def _flags() -> Parser:
    flags = parser("Let a model sort turn errors into kinds of hacking, with several votes if asked for.")
    flags.add_argument("-i", "--input_file", help="rows of extract_turn_level_errors.py")
    flags.add_argument("-o", "--output_file", help="JSONL file to write, or to continue")
    flags.add_argument(
        "--calibrate",
        action="store_true",
        help="judge the project's clear cases instead and print the confusion matrix (-o: as JSON, too)",
    )
    engine_flags(flags, "litellm", MODEL, "the judge")
    flags.add_argument("-n", "--num_completions", type=positive_int, default=1, help="votes per case")
    flags.add_argument("-r", "--reasoning_effort", choices=EFFORTS, default="low", help="where there is such")
    flags.add_argument("--temperature", type=float, default=1.0, help="0 is greedy")
    flags.add_argument("--top_p", type=float, default=1.0, help="share of probability that is sampled from")
    flags.add_argument("--max_tokens", type=positive_int, default=32_000, help="new tokens per vote")
    flags.add_argument(
        "--ask_again", type=int, default=0, help="tries after a vote that cannot be read; then it is Unknown"
    )
    flags.add_argument(
        "--prompts", default="default", metavar="default|FILE",
        help="what the judge is told; scripts/import_prompts.py makes a file of the published wording",
    )  # fmt: skip
    flags.add_argument("--concurrency", type=positive_int, default=4, help="cases at once")
    flags.add_argument("--seed", type=int, default=0, help="of the votes")
    key_flags(flags)
    return flags


async def _main(args: Any, settings: JudgeSettings) -> int:
    engine = connect(args.engine, args.model_name, args.base_url, **engine_options(args))
    try:
        await check(engine)
        with make_progress() as progress:
            if args.calibrate:
                found = await calibrate(engine, settings, concurrency=args.concurrency, progress=progress)
            else:
                judged = await judge_file(
                    args.input_file, args.output_file, engine, settings,
                    concurrency=args.concurrency, progress=progress,
                )  # fmt: skip
    finally:
        await engine.aclose()
    if not args.calibrate:
        print("\n".join(report_lines(judged)))
        return judged.run.exit_code
    if args.output_file:
        atomic_write(args.output_file, json.dumps(found, indent=1, allow_nan=False) + "\n")
    print("\n".join(lines(found)))
    return 0


def report_lines(judged: Judged) -> list[str]:
    """The published line (counts of first votes), majorities with intervals, agreement, and the file."""
    found = judged.summary
    made = [f"Final Classification Counts: {found['first_votes']}"]
    for label, row in found["verdicts"].items():
        lo, hi = row["ci95"]
        bounds = "" if lo is None else f" [{100 * lo:.1f}, {100 * hi:.1f}]"
        made.append(f"{label}: {row['cases']} cases, {100 * row['share']:.1f} %{bounds}")
    if found["votes"] > 1:
        alpha = found["agreement"]["alpha"]
        made.append(
            f"Krippendorff's alpha of {found['votes']} votes: {'n/a' if alpha is None else f'{alpha:.3f}'}"
        )
    if found["unreadable_votes"] or found["asked_again"]:
        made.append(
            f"{found['asked_again']} votes asked again, {found['unreadable_votes']} unreadable at the end"
        )
    return [*made, closing_line(judged.run)]
