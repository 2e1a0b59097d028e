"""The multi-turn run: programs, public tests, feedback, turn after turn (arXiv 2602.03806)."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from cobalt.cli import Parser, Progress, positive_int
from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError
from cobalt.evaluator.base import Evaluator
from cobalt.pipeline import Summary
from cobalt.prompts import load
from cobalt.rollouts.cli import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.feedback import open_feedback
from cobalt.rollouts.inputs import Rows, Source, check_output, shown_tests
from cobalt.rollouts.runner import Runner, programs_to_sample
from cobalt.rollouts.settings import TEST_SETS, Budget, MultiTurnSettings
from cobalt.rollouts.trajectory import FeedbackPolicy, Trajectory, columns
from cobalt.rows import Row, require

STAGE = "multi turn"
DIALOGUE = ("turns", "tests", "enable_thinking", "unfinished_thinking", "stop_when_passed")


def open_source(rows: Rows, settings: MultiTurnSettings, limit: int | None = None) -> Source:
    """The input of a multi-turn run, checked in full. Raises InputError for rows that do not fit the
    settings.
    """

    def check(row: Row, where: str) -> None:
        require(row, "instruction", str, where)
        shown_tests(row, settings.tests, where)
        if settings.first_turn:
            return
        if "responses" not in row:
            raise InputError(
                f"{where}: field 'responses' is missing: use run_single_turn_vllm.py first, or --first_turn"
            )
        responses = require(row, "responses", list, where)
        if not responses or not all(text is None or isinstance(text, str) for text in responses):
            raise InputError(f"{where}: field 'responses' must be a list of at least one text")
        if settings.n is not None and len(responses) != settings.n:
            raise InputError(
                f"{where}: {len(responses)} responses, but --num_completions is {settings.n}; "
                "leave the flag out to use what the file has"
            )

    return Source(rows, check, limit)


async def multi_turn(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings | None = None,
    *,
    policy: FeedbackPolicy | None = None,
    concurrency: int = 256,
    budget: Budget | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Extend each task's samples (S) to trajectories of `settings.turns` (T) programs.

    Writes each row with `raw_responses` [T][S], `conversations` [S][2 + 2T], `public_pass_rates` [T][S],
    `public_exec_results` [T][S], `finish_reasons` [T][S] and `usage` [T][S] (see also
    `cobalt.rollouts.trajectory.columns`); other keys pass through. A feedback message follows the last
    program too. `policy` replaces the honest feedback in control experiments. `concurrency` bounds
    completions in flight. Rows already in `output` are kept, and so are the turns in `OUTPUT.journal`, of
    rows that a killed run left unfinished; a row that fails keeps its finished turns for its `retries` and
    for the next run, and is recorded in `OUTPUT.failures.jsonl`. Raises InputError for rows or paths that
    cannot be used, SettingsChanged for an output of other settings, BudgetReached when `budget.limit` is.
    """
    settings, policy = settings or MultiTurnSettings(), policy or FeedbackPolicy()
    if policy.whole_batch and settings.stop_when_passed:
        raise InputError(f"feedback policy '{policy.name}' needs every trajectory to run all turns")
    source = rows if isinstance(rows, Source) else open_source(rows, settings)
    check_output(source.paths, output)

    def finished(row: Row, trajectories: list[Trajectory]) -> Row:
        made = row | columns(trajectories, settings)
        if settings.first_turn:
            made["responses"] = [each.turns[0].response.raw for each in trajectories]
            made.pop("exec_results", None)  # verdicts on other responses, if the row brought any
        return made

    runner = Runner(
        STAGE, source, Path(output), engine, evaluator, settings,
        tests=lambda row: shown_tests(row, settings.tests, f"task {row['id']!r}"), columns=finished,
        concurrency=concurrency, budget=budget or Budget(), policy=policy, progress=progress,
    )  # fmt: skip
    n = settings.samples if settings.first_turn else None
    return await runner.run({"feedback": policy.name, "n": n, **settings.record()}, retries)


def dialogue_flags(flags: Parser, turns: int) -> None:
    """Add what makes up a dialogue (DIALOGUE), of `turns` programs where none are named."""
    flags.add_argument(
        "--turns", type=positive_int, default=turns, help="programs per trajectory, the first included"
    )
    flags.add_argument("--tests", choices=TEST_SETS, default="auto", help="which tests the model is shown")
    flags.add_argument(
        "--enable_thinking",
        action="store_true",
        help="keep only the text after </think>, cut to 6,000 characters, in the dialogue",
    )
    flags.add_argument(
        "--unfinished_thinking",
        choices=("run", "no_code"),
        default="run",
        help="what a response that never closes its thinking counts as",
    )
    flags.add_argument(
        "--stop_when_passed", action="store_true", help="end a trajectory once all tests shown pass"
    )
    flags.add_argument(
        "--feedback", metavar="FILE.py:NAME", help="function that writes the message after a program"
    )


def dialogue_given(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of MultiTurnSettings among the flags, but for sampling."""
    found = {name: getattr(args, name) for name in DIALOGUE}
    return found | {"feedback": open_feedback(args.feedback, "--feedback", load(args.prompts))}


def main(argv: list[str] | None = None, *, default_engine: str = "vllm") -> int:
    """The command line of `run_multi_turn_vllm.py`; returns the exit code."""
    flags = rollout_flags(
        "Repair programs over several turns on the feedback of their public tests.", default_engine
    )
    dialogue_flags(flags, turns=9)
    flags.add_argument(
        "--first_turn", action="store_true", help="sample the first turn too, not read it from 'responses'"
    )
    args = flags.parse_args(argv)
    settings = MultiTurnSettings(**sampling_given(args), **dialogue_given(args), first_turn=args.first_turn)
    source = open_source(args.input_file, settings, args.limit)
    programs = programs_to_sample(source, settings)
    work = carry_out(args, source, settings, multi_turn, programs=programs, turns=settings.turns)
    return asyncio.run(work)
