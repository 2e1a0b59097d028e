"""The single-turn runner: n programs per task, run on all its tests (arXiv 2602.03806, inference scripts)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cobalt.engines.base import ChatEngine, Completion
from cobalt.pipeline import Progress, Summary, run_rows
from cobalt.records import Row, require
from cobalt.rollouts.doors import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.judging import tests_of, verdict
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import Gate, RolloutSettings, first_completions, identity, usage
from cobalt.rollouts.source import Rows, Source, refuse_overwriting
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
    limit: int | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Sample `settings.samples` (S) completions per task and run each on all `test_cases`.

    Writes each row with `responses` [S], `exec_results` [S], `finish_reasons` [S] and `usage` [S] added;
    other keys pass through. `concurrency` bounds completions in flight. Rows already in `output` are kept;
    a row that fails (engine or evaluator) is tried `retries` more times and then recorded in
    `OUTPUT.failures.jsonl`. Raises InputError for rows or paths that cannot be used, SettingsChanged for an
    output of other settings.
    """
    settings = settings or RolloutSettings()
    source = rows if isinstance(rows, Source) else Source(rows, check_row, limit)
    refuse_overwriting(source, output)
    gate, meter = Gate(concurrency), Meter(progress, STAGE)
    work = _Work(engine, evaluator, settings, gate, meter)
    return await run_rows(
        source, work, output=output, concurrency=gate.tasks(settings.samples), retries=retries,
        settings={"stage": STAGE, "model": identity(engine), "input_sha256": source.sha256,
                  "n": settings.samples, **settings.record()},
        label=STAGE, progress=meter, inputs=source.inputs(), extra=lambda: {"tokens": meter.tokens()},
    )  # fmt: skip


@dataclass
class _Work:
    """Makes one row. Completions survive a failure of the evaluator: a retry does not pay for them again."""

    engine: ChatEngine
    evaluator: Evaluator
    settings: RolloutSettings
    gate: Gate
    meter: Meter
    made: dict[str | int, list[Completion]] = field(default_factory=dict)

    async def __call__(self, row: Row) -> Row:
        key, n = row["id"], self.settings.samples
        if key not in self.made:
            self.made[key] = await first_completions(self.engine, self.gate, self.settings, row, n)
            self.meter.sampled(self.made[key])
        completions = self.made[key]
        tests = tests_of(row, "test_cases", f"task {key!r}")
        results = await asyncio.gather(
            *(verdict(self.evaluator, extract_code(completion.text), tests) for completion in completions)
        )
        del self.made[key]
        return row | {
            "responses": [completion.text for completion in completions],
            "exec_results": results,
            "finish_reasons": [completion.finish_reason for completion in completions],
            "usage": [usage(completion) for completion in completions],
        }


def main(argv: list[str] | None = None, *, default_engine: str = "vllm") -> int:
    """The command line of `run_single_turn_vllm.py`; returns the exit code."""
    flags = rollout_flags("Sample n programs per task and run them on all tests.", default_engine)
    args = flags.parse_args(argv)
    settings = RolloutSettings(**sampling_given(args))
    source = Source(args.input_file, check_row, args.limit)
    return carry_out(args, source, settings, single_turn, programs=len(source) * settings.samples)
