"""Both runs, single- and multi-turn: sample, journal, judge and answer every trajectory of every row.

Every trajectory goes its own way: its next turn starts as soon as its own tests are done, while others
generate. Turns that are finished survive a failure of their row and the end of the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Progress
from cobalt.engines.base import CONTEXT_OVERFLOW, ChatEngine, Completion, Sampling, identity
from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.environment import judged_by
from cobalt.manifest import check_resume
from cobalt.output import Id
from cobalt.pipeline import Stop, Stopped, Summary, run_rows
from cobalt.rollouts.feedback import message
from cobalt.rollouts.inputs import Source
from cobalt.rollouts.journal import SPENT, Journal
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import Budget, MultiTurnSettings
from cobalt.rollouts.trajectory import (
    FeedbackPolicy,
    Place,
    Trajectory,
    read_response,
    restored,
    usage,
    verdict,
)
from cobalt.rows import Row
from cobalt.schema import ExecutionResult, Message
from cobalt.testcases import TestCases

_POLL_S = 0.05


class BudgetReached(CobaltError):
    """The run has cost what it may (`--max_cost`)."""


class Gate:
    """At most `size` completions in flight; first come, first served, also for requests of several."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"--concurrency must be at least 1, got {size}")
        self.size = size
        self._slots = asyncio.Semaphore(size)
        self._turnstile = asyncio.Lock()  # one request gathers slots at a time: two could starve each other

    @asynccontextmanager
    async def slots(self, n: int) -> AsyncIterator[None]:
        held = 0
        try:
            async with self._turnstile:
                while held < min(n, self.size):
                    await self._slots.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._slots.release()


@dataclass
class Dearest:
    """What one more completion may cost, by the dearest of this run so far and the length of its dialogue."""

    budget: Budget
    cost: float = 0.0
    tokens_per_character: float = 0.0  # of prompts
    completion: int = 0  # tokens

    def see(self, messages: list[Message], made: Completion, cost: float) -> None:
        """A completion of a dialogue of these messages has cost so many dollars."""
        characters = max(1, sum(len(message["content"]) for message in messages))
        self.cost = max(self.cost, cost)
        self.tokens_per_character = max(self.tokens_per_character, made.prompt_tokens / characters)
        self.completion = max(self.completion, made.completion_tokens)

    def of(self, messages: list[Message], least: float) -> float:
        """Dollars of one more, after these messages; at least ``least``."""
        into, out = self.budget.rates or (0.0, 0.0)
        prompt = self.tokens_per_character * sum(len(message["content"]) for message in messages)
        return max(least, self.cost, (prompt * into + self.completion * out) / 1e6)


@dataclass
class Runner:
    """Makes the rows of one run, called `stage`. `tests` gives a row's tests, `columns` the finished row.

    A request that finds the run stopping raises Stopped: its row stays unfinished, its turns are journalled.
    """

    stage: str
    source: Source
    output: Path
    engine: ChatEngine
    evaluator: Evaluator
    settings: MultiTurnSettings
    tests: Callable[[Row], TestCases]
    columns: Callable[[Row, list[Trajectory]], Row]
    concurrency: int = 256
    budget: Budget = field(default_factory=Budget)
    policy: FeedbackPolicy = field(default_factory=FeedbackPolicy)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        self._gate = Gate(self.concurrency)
        self._stop = Stop("turns")
        self._journal = Journal(self.output, self._stop.request)
        programs = programs_to_sample(self.source, self.settings)
        self._meter = Meter(self.progress, self.stage, programs, self._journal.spent, self.engine)
        self._positions = {key: position for position, key in enumerate(self.source.ids)}
        self._trajectories: dict[Id, list[Trajectory]] = {}
        self._judged, self._dearest = 0.0, Dearest(self.budget)
        self._reserved: list[float] = []  # dollars of each request in flight
        self._unjudgeable: set[tuple[Id, int, int]] = set()
        self._separate = bool(getattr(self.engine, "separate", False))

    async def run(self, recorded: Mapping[str, Any], retries: int) -> Summary:
        """Make every row of the source that is not in the output; `recorded` are further settings."""
        journal, whole_batch = self._journal, self.policy.whole_batch
        settings = {
            "stage": self.stage, "model": identity(self.engine), "input_sha256": self.source.sha256,
            **recorded, **judged_by(self.evaluator),
        }  # fmt: skip
        if whole_batch:
            journal.path.unlink(missing_ok=True)
        elif journal.path.exists() and journal.path.stat().st_size:
            check_resume(self.output, settings, begun=journal.path)
        samples = self.settings.samples if self.settings.first_turn else max(self.source.samples)
        # So many rows at once that the stragglers of some leave no slot empty.
        rows = len(self.source) if whole_batch else max(2, 3 * self._gate.size // samples)
        complete, ticker = False, asyncio.create_task(self._meter.tick())
        try:
            summary = await run_rows(
                self.source, self._row, output=self.output, retries=0 if whole_batch else retries,
                settings=settings, label=self.stage, concurrency=rows, progress=self._meter,
                inputs=self.source.inputs(), extra=self._facts, stop=self._stop,
                opened=journal.open, settled=self._settled,
            )  # fmt: skip
            complete = not summary.failed
        finally:
            ticker.cancel()
            await asyncio.shield(journal.close(complete=complete))
        return summary

    async def _row(self, row: Row) -> Row:
        key = row["id"]
        if key not in self._trajectories:
            self._trajectories[key] = restored(row, self._journal.turns(key), self.settings)
        trajectories, tests = self._trajectories[key], self.tests(row)
        try:
            if not self._separate and not any(each.turns or each.pending for each in trajectories):
                await self._sample(key, self.settings.first(key, len(trajectories)), trajectories)
            await _first_error(self._extend(key, sample, tests) for sample in range(len(trajectories)))
        except Exception as error:
            self.policy.abort(error)
            raise
        return self.columns(row, trajectories)

    async def _extend(self, key: Id, sample: int, tests: TestCases) -> None:
        """Add turns to one trajectory until it is complete."""
        trajectory = self._trajectories[key][sample]
        while not trajectory.complete(self.settings):
            turn = len(trajectory.turns)
            if trajectory.pending is None and trajectory.overflowed:
                trajectory.pending = read_response("", self.settings, CONTEXT_OVERFLOW)
            elif trajectory.pending is None:
                sampling = (
                    self.settings.later(key, sample, turn) if turn else self.settings.first(key, 1, sample)
                )
                await self._sample(key, sampling, [trajectory], sample)
            assert trajectory.pending is not None
            code = trajectory.pending.code
            result = await self._judge(key, sample, turn, code, tests)
            own = self.settings.feedback
            honest = message(own, result=result, code=code, prompts=self.settings.prompts, turn=turn)
            shown = await self.policy.message(Place(self._positions[key], sample, turn), honest)
            self._journal.add(key, sample, turn, result=result, feedback=shown)
            trajectory.add(result, shown)

    async def _sample(
        self, key: Id, sampling: Sampling, trajectories: list[Trajectory], first: int = 0
    ) -> None:
        """Sample and journal the next turn of these trajectories, the samples from `first` on."""
        turn = len(trajectories[0].turns)
        self._go_on()
        async with self._gate.slots(sampling.n):
            self._go_on()
            reserved = await self._afford(trajectories[0].messages, sampling.n)
            self._reserved.append(reserved)
            try:
                made = await self.engine.chat(trajectories[0].messages, sampling)
            finally:
                self._reserved.remove(reserved)
        if len(made) != sampling.n:
            raise InfraError(f"{self.engine.name} answered {len(made)} of {sampling.n} completions")
        for sample, (trajectory, each) in enumerate(zip(trajectories, made, strict=True), start=first):
            used, cost = usage(each), self._cost(each)
            self._dearest.see(trajectory.messages, each, cost or 0.0)
            more = {} if cost is None else {"cost": cost}
            self._journal.add(
                key, sample, turn, raw=each.text, finish_reason=each.finish_reason, usage=used, **more
            )
            trajectory.pending = read_response(each.text, self.settings, each.finish_reason, used)
        self._meter.sampled(turn, made)

    async def _judge(
        self, key: Id, sample: int, turn: int, code: str | None, tests: TestCases
    ) -> ExecutionResult:
        began = time.monotonic()
        try:
            result = await verdict(self.evaluator, code, tests)
        except InfraError as error:
            if self._judged > began:  # other programs had verdicts meanwhile: it is this one
                self._unjudgeable.add((key, sample, turn))
            raise InfraError(f"sample {sample}, turn {turn + 1}: {error}") from error
        self._judged = time.monotonic()
        self._meter.tested(len(tests))
        return result

    def _settled(self, key: Id, written: bool) -> None:
        """A row is in the output, or given up: then the next run samples anew what could not be judged."""
        self._trajectories.pop(key, None)
        for place in [place for place in self._unjudgeable if place[0] == key]:
            self._unjudgeable.discard(place)
            if not written:
                self._journal.add(*place, dropped=True)
        if written:
            self._journal.forget(key)

    def _cost(self, completion: Completion) -> float | None:
        prices = self.budget.prices
        if prices is None:
            return completion.cost
        return (completion.prompt_tokens * prices[0] + completion.completion_tokens * prices[1]) / 1e6

    def _go_on(self) -> None:
        if self._stop.requested:
            raise Stopped

    async def _afford(self, messages: list[Message], n: int) -> float:
        """Wait until ``n`` more completions are sure to stay under the limit, with those in flight; returns
        the dollars to set aside for them. Ends the run if there will never be enough.
        """
        limit, spent = self.budget.limit, self._journal.spent
        while limit is not None:
            self._go_on()
            done, earlier = spent["programs"], self.budget.earlier
            each = self._dearest.of(messages, spent["cost"] / done if done else self.budget.first)
            total = earlier + spent["cost"]
            if total + sum(self._reserved) + each * n <= limit or not (done or self._reserved or earlier):
                return each * n
            if not self._reserved:
                self._stop.request(
                    BudgetReached(
                        f"--max_cost {limit:g}: ${total:.4g} are spent, and one more completion "
                        f"(about ${each:.2g}) may go over; all is kept, a higher --max_cost continues"
                    )
                )
            await asyncio.sleep(_POLL_S)
        return 0.0

    def _facts(self) -> dict[str, Any]:
        """For the manifest: what all completions of the output have taken, of runs before this one too; and
        functions of the user's own.
        """
        spent, own = self._journal.spent, self.settings.feedback
        counts = {name: spent[counter] for counter, name in SPENT.items() if counter != "cost"}
        cost = {SPENT["cost"]: round(spent["cost"], 6)} if spent["cost"] else {}
        parts = {"feedback": own, "environment": getattr(self.evaluator, "environment", None)}
        about = {name: part.about for name, part in parts.items() if part is not None}
        return {"tokens": counts | cost, **({"own": about} if about else {})}


def programs_to_sample(source: Source, settings: MultiTurnSettings) -> int:
    """Completions of a whole run, stored first turns not among them."""
    if settings.first_turn:
        return len(source) * settings.samples * settings.turns
    return sum(source.samples) * (settings.turns - 1)


async def _first_error(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all to their end, then raise what went wrong: a cancel, else an error, else a mere Stopped."""
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    found = [each for each in outcomes if isinstance(each, BaseException)]
    if found:
        raise min(found, key=lambda error: isinstance(error, Exception) + isinstance(error, Stopped))
