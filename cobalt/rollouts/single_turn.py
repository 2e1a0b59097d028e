"""The single-turn run: n programs per task, run on all its tests (arXiv 2602.03806, inference scripts)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine
from cobalt.evaluator.base import Evaluator
from cobalt.pipeline import Summary
from cobalt.rollouts.cli import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.inputs import Rows, Source, check_output, tests_of
from cobalt.rollouts.runner import Runner
from cobalt.rollouts.settings import Budget, MultiTurnSettings, RolloutSettings
from cobalt.rollouts.trajectory import Trajectory
from cobalt.rows import Row, require

STAGE = "single turn"


def check_row(row: Row, where: str) -> None:
    """Raise InputError unless the row has what a single turn needs: `instruction` and `test_cases`."""
    require(row, "instruction", str, where)
    tests_of(row, "test_cases", where)


async def single_turn(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: RolloutSettings | None = None,
    *,
    concurrency: int = 256,
    budget: Budget | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Sample `settings.samples` (S) completions per task and run each on all `test_cases`.

    Writes each row with `responses` [S], `exec_results` [S], `finish_reasons` [S] and `usage` [S] added;
    other keys pass through. `concurrency` bounds completions in flight. Rows already in `output` are kept,
    and so are completions and verdicts in `OUTPUT.journal`, of rows that a killed run left unfinished; a row
    that fails (engine or evaluator) is tried `retries` more times and then recorded in
    `OUTPUT.failures.jsonl`. Raises InputError for rows or paths that cannot be used, SettingsChanged for an
    output of other settings, BudgetReached when `budget.limit` is.
    """
    settings = settings or RolloutSettings()
    source = rows if isinstance(rows, Source) else Source(rows, check_row)
    check_output(source.paths, output)
    one_turn = MultiTurnSettings(**vars(settings), turns=1, first_turn=True)
    runner = Runner(
        STAGE, source, Path(output), engine, evaluator, one_turn,
        tests=lambda row: tests_of(row, "test_cases", f"task {row['id']!r}"), columns=_columns,
        concurrency=concurrency, budget=budget or Budget(), progress=progress,
    )  # fmt: skip
    return await runner.run({"n": settings.samples, **settings.record()}, retries)


def _columns(row: Row, trajectories: list[Trajectory]) -> Row:
    turns = [each.turns[0] for each in trajectories]
    return row | {
        "responses": [turn.response.raw for turn in turns],
        "exec_results": [turn.result for turn in turns],
        "finish_reasons": [turn.response.finish_reason for turn in turns],
        "usage": [turn.response.usage for turn in turns],
    }


def main(
    argv: list[str] | None = None,
    *,
    default_engine: str = "vllm",
    score: Callable[[Path], Iterable[str]] | None = None,
) -> int:
    """The command line of `run_single_turn_vllm.py`; returns the exit code. `score`: lines on what is in the
    output, to be said at the end.
    """
    flags = rollout_flags("Sample n programs per task and run them on all tests.", default_engine)
    args = flags.parse_args(argv)
    settings = RolloutSettings(**sampling_given(args))
    source = Source(args.input_file, check_row, args.limit)
    programs = len(source) * settings.samples
    code = asyncio.run(carry_out(args, source, settings, single_turn, programs=programs))
    if score is not None and not args.dry_run:
        print(*score(Path(args.output_file)), sep="\n")
    return code
