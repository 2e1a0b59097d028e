"""The multi-turn runner: programs, public tests, feedback, turn after turn (arXiv 2602.03806, inference
scripts).

Every trajectory goes its own way: its next turn starts as soon as its own tests are done, while others
generate.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import CONTEXT_OVERFLOW, ChatEngine, Completion
from cobalt.engines.seeds import derive
from cobalt.errors import InputError
from cobalt.flags import positive_int
from cobalt.pipeline import Progress, Summary, run_rows
from cobalt.records import ExecutionResult, Row, TestCases, require
from cobalt.rollouts.dialogue import Dialogue, Response, Turn, columns, read_response
from cobalt.rollouts.doors import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.feedback import FeedbackPolicy, Place
from cobalt.rollouts.judging import TEST_SETS, shown_tests, verdict
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import (
    Gate,
    MultiTurnSettings,
    first_completions,
    identity,
    usage,
)
from cobalt.rollouts.source import Rows, Source, refuse_overwriting

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

STAGE = "multi turn"


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
    limit: int | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Extend each task's samples (S) to trajectories of `settings.turns` (T) programs.

    Writes each row with `raw_responses` [T][S], `conversations` [S][2 + 2T], `public_pass_rates` [T][S],
    `public_exec_results` [T][S], `finish_reasons` [T][S] and `usage` [T][S] (see also
    `cobalt.rollouts.dialogue.columns`); other keys pass through. A feedback message follows the last
    program too. `policy` replaces the honest feedback in control experiments. `concurrency` bounds
    completions in flight. Rows already in `output` are kept; a row that fails keeps its finished turns for
    its `retries`, then it is recorded in `OUTPUT.failures.jsonl`. Raises InputError for rows or paths that
    cannot be used, SettingsChanged for an output of other settings.
    """
    settings, policy = settings or MultiTurnSettings(), policy or FeedbackPolicy()
    if policy.whole_batch and settings.stop_when_passed:
        raise InputError(f"feedback policy '{policy.name}' needs every trajectory to run all turns")
    source = rows if isinstance(rows, Source) else open_source(rows, settings, limit)
    refuse_overwriting(source, output)
    gate, meter = Gate(concurrency), Meter(progress, STAGE)
    work = _Work(
        engine, evaluator, settings, policy, gate, meter, {key: i for i, key in enumerate(source.ids)}
    )
    samples = settings.samples if settings.first_turn else max(len(row["responses"]) for row in source)
    return await run_rows(
        source, work, output=output, retries=0 if policy.whole_batch else retries,
        concurrency=len(source) if policy.whole_batch else gate.tasks(samples),
        settings={"stage": STAGE, "model": identity(engine), "input_sha256": source.sha256,
                  "feedback": policy.name,
                  "n": settings.samples if settings.first_turn else None, **settings.record()},
        label=STAGE, progress=meter, inputs=source.inputs(), extra=lambda: {"tokens": meter.tokens()},
    )  # fmt: skip


@dataclass
class _Work:
    """Makes one row. Turns that are finished survive a failure of their row, so a retry pays for the rest
    only.
    """

    engine: ChatEngine
    evaluator: Evaluator
    settings: MultiTurnSettings
    policy: FeedbackPolicy
    gate: Gate
    meter: Meter
    positions: dict[str | int, int]
    firsts: dict[str | int, list[Response]] = field(default_factory=dict)
    dialogues: dict[str | int, list[Dialogue]] = field(default_factory=dict)

    async def __call__(self, row: Row) -> Row:
        key = row["id"]
        if key not in self.dialogues:
            self.firsts[key] = await self._first_turn(row)
            opening = self.settings.prompts.messages(row["instruction"])
            self.dialogues[key] = [Dialogue(opening) for _ in self.firsts[key]]
        tests = shown_tests(row, self.settings.tests, f"task {key!r}")
        outcomes = await asyncio.gather(
            *(self._run(key, sample, tests) for sample in range(len(self.dialogues[key]))),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                if isinstance(outcome, Exception):
                    self.policy.abort(outcome)
                raise outcome
        firsts, dialogues = self.firsts.pop(key), self.dialogues.pop(key)
        result = row | columns(dialogues, self.settings)
        if self.settings.first_turn:
            result["responses"] = [first.raw for first in firsts]
            result.pop("exec_results", None)  # verdicts on other responses, if the row brought any
        return result

    async def _first_turn(self, row: Row) -> list[Response]:
        if self.settings.first_turn:
            n = self.settings.samples
            made = await first_completions(self.engine, self.gate, self.settings, row, n)
            self.meter.sampled(made)
            return [self._read(completion) for completion in made]
        texts: list[str | None] = row["responses"]
        reasons, usages = (_per_sample(row.get(name), len(texts)) for name in ("finish_reasons", "usage"))
        return [
            read_response(text, self.settings, reason, used)
            for text, reason, used in zip(texts, reasons, usages, strict=True)
        ]

    async def _run(self, key: str | int, sample: int, tests: TestCases) -> None:
        """Add turns to one dialogue until it is complete."""
        dialogue = self.dialogues[key][sample]
        while len(dialogue.turns) < self.settings.turns:
            number = len(dialogue.turns)
            if self.settings.stop_when_passed and number and dialogue.turns[-1].passed:
                return
            response = self.firsts[key][sample] if number == 0 else await self._next(key, sample, dialogue)
            result = await verdict(self.evaluator, response.code, tests)
            honest = self.settings.prompts.feedback_message(self._feedback(response, result))
            shown = await self.policy.message(Place(self.positions[key], sample, number), honest)
            dialogue.turns.append(Turn(response, result, shown))

    async def _next(self, key: str | int, sample: int, dialogue: Dialogue) -> Response:
        if dialogue.overflowed:
            return read_response("", self.settings, CONTEXT_OVERFLOW)
        seed = derive(self.settings.seed, key, sample, len(dialogue.turns))
        async with self.gate.slots(1):
            made = await self.engine.chat(dialogue.messages, self.settings.sampling(1, seed))
        self.meter.sampled(made)
        return self._read(made[0])

    def _read(self, completion: Completion) -> Response:
        return read_response(completion.text, self.settings, completion.finish_reason, usage(completion))

    def _feedback(self, response: Response, result: ExecutionResult) -> str | None:
        from cobalt.evaluator.feedback import first_failure

        return self.settings.prompts.no_code if response.code is None else first_failure(result)


def _per_sample(values: Any, count: int) -> list[Any]:
    """A stored column of the first turn, if the row has one with an entry per sample."""
    return list(values) if isinstance(values, list) and len(values) == count else [None] * count


def main(argv: list[str] | None = None, *, default_engine: str = "vllm") -> int:
    """The command line of `run_multi_turn_vllm.py`; returns the exit code."""
    flags = rollout_flags(
        "Repair programs over several turns on the feedback of their public tests.", default_engine
    )
    flags.add_argument(
        "--turns", type=positive_int, default=9, help="programs per trajectory, the first included"
    )
    flags.add_argument("--tests", choices=TEST_SETS, default="auto", help="which tests the model is shown")
    flags.add_argument(
        "--first_turn", action="store_true", help="sample the first turn too, not read it from 'responses'"
    )
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
    args = flags.parse_args(argv)
    own = ("turns", "tests", "first_turn", "enable_thinking", "unfinished_thinking", "stop_when_passed")
    settings = MultiTurnSettings(**sampling_given(args), **{name: getattr(args, name) for name in own})
    source = open_source(args.input_file, settings, args.limit)
    samples = [settings.samples if settings.first_turn else len(row["responses"]) for row in source]
    turns = settings.turns if settings.first_turn else settings.turns - 1
    return carry_out(args, source, settings, multi_turn, programs=sum(samples) * turns)
