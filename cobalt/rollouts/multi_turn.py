"""The multi-turn runner: programs, public tests, feedback, turn after turn (arXiv 2602.03806, inference
scripts).

Every trajectory goes its own way: its next turn starts as soon as its own tests are done, while others
generate.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.cli import Progress, positive_int
from cobalt.engines.base import CONTEXT_OVERFLOW, ChatEngine, Completion
from cobalt.engines.seeds import derive
from cobalt.errors import InputError
from cobalt.pipeline import Summary
from cobalt.rollouts.dialogue import Dialogue, Response, Turn, columns, read_response
from cobalt.rollouts.doors import carry_out, rollout_flags, sampling_given
from cobalt.rollouts.feedback import FeedbackPolicy, Place
from cobalt.rollouts.judging import TEST_SETS, shown_tests
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import Limits, MultiTurnSettings, identity
from cobalt.rollouts.source import Rows, Source, refuse_overwriting
from cobalt.rollouts.work import Work, first_error, usage
from cobalt.rows import Row, require
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

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

    return Source(rows, check, limit, size=lambda row: len(row.get("responses") or ()))


async def multi_turn(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings | None = None,
    *,
    policy: FeedbackPolicy | None = None,
    concurrency: int = 256,
    limits: Limits | None = None,
    limit: int | None = None,
    retries: int = 2,
    progress: Progress | None = None,
) -> Summary:
    """Extend each task's samples (S) to trajectories of `settings.turns` (T) programs.

    Writes each row with `raw_responses` [T][S], `conversations` [S][2 + 2T], `public_pass_rates` [T][S],
    `public_exec_results` [T][S], `finish_reasons` [T][S] and `usage` [T][S] (see also
    `cobalt.rollouts.dialogue.columns`); other keys pass through. A feedback message follows the last
    program too. `policy` replaces the honest feedback in control experiments. `concurrency` bounds
    completions in flight (`limits` says more). Rows already in `output` are kept, and so are the turns in
    `OUTPUT.journal`, of rows that a killed run left unfinished; a row that fails keeps its finished turns for
    its `retries` and for the next run, and is recorded in `OUTPUT.failures.jsonl`. Raises InputError for rows
    or paths that cannot be used, SettingsChanged for an output of other settings, BudgetReached when
    `limits.max_cost` is.
    """
    settings, policy = settings or MultiTurnSettings(), policy or FeedbackPolicy()
    if policy.whole_batch and settings.stop_when_passed:
        raise InputError(f"feedback policy '{policy.name}' needs every trajectory to run all turns")
    source = rows if isinstance(rows, Source) else open_source(rows, settings, limit)
    refuse_overwriting(source, output)
    meter = Meter(progress, STAGE, programs_to_sample(source, settings))
    work = _Work(
        engine, evaluator, limits or Limits(concurrency), Path(output), meter, settings, policy, source.ids
    )
    return await work.run(
        source, Path(output), retries=0 if policy.whole_batch else retries, label=STAGE,
        samples=settings.samples if settings.first_turn else max(source.sizes, default=1),
        whole_batch=policy.whole_batch,
        settings={"stage": STAGE, "model": identity(engine), "input_sha256": source.sha256,
                  "feedback": policy.name,
                  "n": settings.samples if settings.first_turn else None, **settings.record()},
    )  # fmt: skip


def programs_to_sample(source: Source, settings: MultiTurnSettings) -> int:
    """Completions of a whole run, the stored first turns not among them."""
    if settings.first_turn:
        return len(source) * settings.samples * settings.turns
    return sum(source.sizes) * (settings.turns - 1)


class _Work(Work):
    """Makes one row. Turns that are finished survive a failure of their row, so a retry pays for the rest
    only.
    """

    def __init__(
        self, engine: ChatEngine, evaluator: Evaluator, limits: Limits, output: Path, meter: Meter,
        settings: MultiTurnSettings, policy: FeedbackPolicy, ids: list[str | int],
    ) -> None:  # fmt: skip
        super().__init__(engine, evaluator, limits, output, meter)
        self.settings, self.policy = settings, policy
        self.positions = {key: position for position, key in enumerate(ids)}
        self.firsts: dict[str | int, dict[int, Response]] = {}
        self.dialogues: dict[str | int, list[Dialogue]] = {}
        self.sampled: dict[tuple[str | int, int, int], Response] = {}  # journalled, tests not done

    def forget(self, key: str | int) -> None:
        for place in [(key, d, len(each.turns)) for d, each in enumerate(self.dialogues.pop(key, []))]:
            self.sampled.pop(place, None)
        self.firsts.pop(key, None)

    async def __call__(self, row: Row) -> Row:
        key = row["id"]
        if key not in self.dialogues:
            self._open(row)
        first = self.settings.first_turn and not self.separate and not self.firsts[key]
        if first:
            await self._first(row, range(self.settings.samples))
        tests = shown_tests(row, self.settings.tests, f"task {key!r}")
        try:
            await first_error(self._run(row, sample, tests) for sample in range(len(self.dialogues[key])))
        except Exception as error:
            self.policy.abort(error)
            raise
        firsts, dialogues = self.firsts[key], self.dialogues[key]
        result = row | columns(dialogues, self.settings)
        if self.settings.first_turn:
            result["responses"] = [firsts[sample].raw for sample in range(len(dialogues))]
            result.pop("exec_results", None)  # verdicts on other responses, if the row brought any
        return result

    def _open(self, row: Row) -> None:
        """A row's dialogues, with the turns that the journal has."""
        key, known = row["id"], self.known(row["id"])
        stored = {} if self.settings.first_turn else self._stored(row)
        count = self.settings.samples if self.settings.first_turn else len(stored)
        self.firsts[key] = dict(stored)
        opening = self.settings.prompts.messages(row["instruction"])
        dialogues = [Dialogue(opening) for _ in range(count)]
        for sample, dialogue in enumerate(dialogues):
            while len(dialogue.turns) < self.settings.turns:
                number = len(dialogue.turns)
                each = known.get((sample, number))
                if each is None:
                    break
                if each.raw is not None:
                    response = read_response(each.raw, self.settings, each.finish_reason, each.usage)
                    if number == 0:
                        self.firsts[key][sample] = response
                elif number == 0 and sample in stored:
                    response = stored[sample]
                elif dialogue.overflowed:
                    response = read_response("", self.settings, CONTEXT_OVERFLOW)
                else:
                    break
                if each.result is None or each.feedback is None:
                    self.sampled[key, sample, number] = response
                    break
                dialogue.turns.append(Turn(response, each.result, each.feedback))
        self.dialogues[key] = dialogues

    def _stored(self, row: Row) -> dict[int, Response]:
        """The first turns that the row brings."""
        texts: list[str | None] = row["responses"]
        reasons, usages = (_per_sample(row.get(name), len(texts)) for name in ("finish_reasons", "usage"))
        return {
            sample: read_response(text, self.settings, reason, used)
            for sample, (text, reason, used) in enumerate(zip(texts, reasons, usages, strict=True))
        }

    async def _first(self, row: Row, samples: range) -> None:
        key = row["id"]
        sampling = self.settings.first(key, len(samples), samples.start)
        messages = self.settings.prompts.messages(row["instruction"])
        for sample, each in zip(
            samples, await self.complete(key, samples, 0, messages, sampling), strict=True
        ):
            self.firsts[key][sample] = self._read(each)

    async def _run(self, row: Row, sample: int, tests: TestCases) -> None:
        """Add turns to one dialogue until it is complete."""
        key = row["id"]
        dialogue = self.dialogues[key][sample]
        while len(dialogue.turns) < self.settings.turns:
            number = len(dialogue.turns)
            if self.settings.stop_when_passed and number and dialogue.turns[-1].passed:
                return
            response = await self._response(row, sample, number)
            result = await self.judge(key, sample, number, response.code, tests)
            honest = self.settings.prompts.feedback_message(self._feedback(response, result))
            shown = await self.policy.message(Place(self.positions[key], sample, number), honest)
            self.journal.add(key, sample, number, result=result, feedback=shown)
            dialogue.turns.append(Turn(response, result, shown))
            self.sampled.pop((key, sample, number), None)

    async def _response(self, row: Row, sample: int, number: int) -> Response:
        """A trajectory's next response: at hand, or sampled now."""
        key = row["id"]
        if number == 0:
            if sample not in self.firsts[key]:
                await self._first(row, range(sample, sample + 1))
            return self.firsts[key][sample]
        place, dialogue = (key, sample, number), self.dialogues[key][sample]
        if place not in self.sampled:
            if dialogue.overflowed:
                return read_response("", self.settings, CONTEXT_OVERFLOW)
            sampling = self.settings.sampling(
                1, derive(self.settings.seed, key, sample, number), session=json.dumps([key, sample])
            )
            made = await self.complete(key, [sample], number, dialogue.messages, sampling)
            self.sampled[place] = self._read(made[0])
        return self.sampled[place]

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
    return carry_out(
        args,
        source,
        settings,
        multi_turn,
        programs=programs_to_sample(source, settings),
        turns=settings.turns,
    )
