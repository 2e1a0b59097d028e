"""The single-turn runner: n programs per task, run on all its tests (arXiv 2602.03806, inference scripts)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine
from cobalt.pipeline import Summary
from cobalt.rollouts.doors import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.judging import tests_of
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import Limits, RolloutSettings, identity
from cobalt.rollouts.source import Rows, Source, refuse_overwriting
from cobalt.rollouts.work import Known, Work, first_error, usage
from cobalt.rows import Row, require
from cobalt.testcases import TestCases
from cobalt.text import extract_code

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

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
    limits: Limits | None = None,
    limit: int | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Sample `settings.samples` (S) completions per task and run each on all `test_cases`.

    Writes each row with `responses` [S], `exec_results` [S], `finish_reasons` [S] and `usage` [S] added;
    other keys pass through. `concurrency` bounds completions in flight (`limits` says more). Rows already in
    `output` are kept, and so are completions and verdicts in `OUTPUT.journal`, of rows that a killed run left
    unfinished; a row that fails (engine or evaluator) is tried `retries` more times and then recorded in
    `OUTPUT.failures.jsonl`. Raises InputError for rows or paths that cannot be used, SettingsChanged for an
    output of other settings, BudgetReached when `limits.max_cost` is.
    """
    settings = settings or RolloutSettings()
    source = rows if isinstance(rows, Source) else Source(rows, check_row, limit)
    refuse_overwriting(source, output)
    meter = Meter(progress, STAGE, len(source) * settings.samples)
    work = _Work(engine, evaluator, limits or Limits(concurrency), Path(output), meter, settings)
    return await work.run(
        source, Path(output), retries=retries, samples=settings.samples, label=STAGE,
        settings={"stage": STAGE, "model": identity(engine), "input_sha256": source.sha256,
                  "n": settings.samples, **settings.record()},
    )  # fmt: skip


class _Work(Work):
    """Makes one row. Completions survive a failure of the evaluator: a retry does not pay for them again."""

    def __init__(
        self, engine: ChatEngine, evaluator: Evaluator, limits: Limits, output: Path, meter: Meter,
        settings: RolloutSettings,
    ) -> None:  # fmt: skip
        super().__init__(engine, evaluator, limits, output, meter)
        self.settings = settings
        self.made: dict[str | int, dict[int, Known]] = {}

    def forget(self, key: str | int) -> None:
        self.made.pop(key, None)

    async def __call__(self, row: Row) -> Row:
        key, n = row["id"], self.settings.samples
        if key not in self.made:
            self.made[key] = {sample: each for (sample, _), each in self.known(key).items()}
        made = self.made[key]
        if not self.separate and not any(each.raw is not None for each in made.values()):
            await self._sample(row, range(n))
        tests = tests_of(row, "test_cases", f"task {key!r}")
        await first_error(self._one(row, sample, tests) for sample in range(n))
        done = [made[sample] for sample in range(n)]
        return row | {
            "responses": [each.raw for each in done],
            "exec_results": [each.result for each in done],
            "finish_reasons": [each.finish_reason for each in done],
            "usage": [each.usage for each in done],
        }

    async def _one(self, row: Row, sample: int, tests: TestCases) -> None:
        key, made = row["id"], self.made[row["id"]]
        if sample not in made or made[sample].raw is None:
            await self._sample(row, range(sample, sample + 1))
        if made[sample].result is None:
            result = await self.judge(key, sample, 0, extract_code(made[sample].raw), tests)
            self.journal.add(key, sample, 0, result=result)
            made[sample] = replace(made[sample], result=result)

    async def _sample(self, row: Row, samples: range) -> None:
        key = row["id"]
        sampling = self.settings.first(key, len(samples), samples.start)
        messages = self.settings.prompts.messages(row["instruction"])
        for sample, each in zip(
            samples, await self.complete(key, samples, 0, messages, sampling), strict=True
        ):
            self.made[key][sample] = Known(each.text, each.finish_reason, usage(each), None, None)


def main(argv: list[str] | None = None, *, default_engine: str = "vllm") -> int:
    """The command line of `run_single_turn_vllm.py`; returns the exit code."""
    flags = rollout_flags("Sample n programs per task and run them on all tests.", default_engine)
    args = flags.parse_args(argv)
    settings = RolloutSettings(**sampling_given(args))
    source = Source(args.input_file, check_row, args.limit)
    return carry_out(args, source, settings, single_turn, programs=len(source) * settings.samples)
