"""What both runners do with one completion: bound it, sample it, journal it, judge it, count it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import ChatEngine, Completion, Sampling
from cobalt.errors import CobaltError, InfraError
from cobalt.manifest import check_resume, read_manifest
from cobalt.pipeline import Stop, Stopped, Summary, run_rows
from cobalt.rollouts.journal import Id, Journal, journal_path
from cobalt.rollouts.judging import verdict
from cobalt.rollouts.progress import Meter
from cobalt.rollouts.settings import Gate, Limits
from cobalt.rollouts.source import Source
from cobalt.rows import Row
from cobalt.schema import ExecutionResult, Message
from cobalt.testcases import TestCases

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator


_POLL_S = 0.05


class BudgetReached(CobaltError):
    """The run has cost what it may (`--max_cost`)."""


@dataclass(frozen=True)
class Known:
    """What the journal has of one turn: the completion, and its verdict if the tests were done."""

    raw: str | None
    finish_reason: str | None
    usage: Any
    result: ExecutionResult | None
    feedback: str | None


class Work:
    """Samples, judges and remembers, for the rows of one run. Subclasses make a row in `__call__`.

    A request that finds the run stopping raises Stopped: its row stays unfinished, its turns are journalled.
    """

    def __init__(
        self, engine: ChatEngine, evaluator: Evaluator, limits: Limits, output: Path, meter: Meter
    ) -> None:
        self.engine, self.evaluator, self.limits, self.meter = engine, evaluator, limits, meter
        self.gate = Gate(limits.concurrency)
        self.stop = Stop("turns")
        self.journal = Journal(journal_path(output), self.stop.request)
        self._judged = 0.0
        self._unjudgeable: set[tuple[Id, int, int]] = set()
        self.separate = bool(getattr(engine, "separate", False))
        meter.watch(self.gate, self.journal.spent, engine)

    async def __call__(self, row: Row) -> Row:
        raise NotImplementedError

    def forget(self, key: Id) -> None:
        """Release what is held in memory for a row."""
        raise NotImplementedError

    def settled(self, key: Id, written: bool) -> None:
        """A row is in the output, or given up: then the next run samples anew what could not be judged."""
        self.forget(key)
        for place in [place for place in self._unjudgeable if place[0] == key]:
            self._unjudgeable.discard(place)
            if not written:
                self.journal.add(*place, dropped=True)
        if written:
            self.journal.forget(key)

    async def complete(
        self, key: Id, samples: Iterable[int], turn: int, messages: list[Message], sampling: Sampling
    ) -> list[Completion]:
        """Sample one turn of these samples (`sampling.n` of them, in order) and journal it."""
        places = list(samples)
        self._go_on()
        async with self.gate.slots(sampling.n):
            self._go_on()
            await self._afford()
            with self.meter.generating(sampling.n):
                made = await self.engine.chat(messages, sampling)
        if len(made) != sampling.n:
            raise InfraError(f"{self.engine.name} answered {len(made)} of {sampling.n} completions")
        for sample, each in zip(places, made, strict=True):
            self.journal.add(
                key, sample, turn, raw=each.text, finish_reason=each.finish_reason, usage=usage(each),
                **({} if self._cost(each) is None else {"cost": self._cost(each)}),
            )  # fmt: skip
        self.meter.sampled(turn, made)
        return made

    async def judge(
        self, key: Id, sample: int, turn: int, code: str | None, tests: TestCases
    ) -> ExecutionResult:
        """The verdict on a program, counted; what follows is the caller's to journal."""
        began = time.monotonic()
        try:
            with self.meter.testing(len(tests)):
                result = await verdict(self.evaluator, code, tests)
        except InfraError as error:
            if self._judged > began:  # other programs had verdicts meanwhile: it is this one
                self._unjudgeable.add((key, sample, turn))
            raise InfraError(f"sample {sample}, turn {turn}: {error}") from error
        self._judged = time.monotonic()
        return result

    def known(self, key: Id) -> dict[tuple[int, int], Known]:
        """What the journal has of a row, by (sample, turn)."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for entry in self.journal.entries(key):
            if "dropped" in entry:
                found.pop((entry["sample"], entry["turn"]), None)
                continue
            each = found.setdefault((entry["sample"], entry["turn"]), {})
            for name, value in entry.items():
                each.setdefault(name, value)
        names = ("raw", "finish_reason", "usage", "result", "feedback")
        return {place: Known(**{name: each.get(name) for name in names}) for place, each in found.items()}

    def _cost(self, completion: Completion) -> float | None:
        prices = self.limits.prices
        if prices is None:
            return completion.cost
        return (completion.prompt_tokens * prices[0] + completion.completion_tokens * prices[1]) / 1e6

    def _go_on(self) -> None:
        if self.stop.requested:
            raise Stopped

    async def _afford(self) -> None:
        """Wait until one more completion is sure to stay under the limit; end the run if none will."""
        limit, spent = self.limits.max_cost, self.journal.spent
        while limit is not None:
            self._go_on()
            done = spent["programs"]
            each = spent["cost"] / done if done else self.limits.first_cost
            if spent["cost"] + each * (self.meter.in_flight + 1) <= limit or not (
                done or self.meter.in_flight
            ):
                return
            if not self.meter.in_flight:
                self.stop.request(
                    BudgetReached(
                        f"--max_cost {limit:g}: ${spent['cost']:.4g} are spent, and one more completion "
                        f"(about ${each:.2g}) may go over; all is kept, a higher --max_cost continues"
                    )
                )
            await asyncio.sleep(_POLL_S)

    async def run(
        self, source: Source, output: Path, settings: Mapping[str, Any], *, samples: int,
        retries: int, label: str, whole_batch: bool = False,
    ) -> Summary:  # fmt: skip
        """Make every row of `source` that is not in `output`."""
        journal = self.journal
        if whole_batch:
            journal.path.unlink(missing_ok=True)
        elif journal.path.exists() and journal.path.stat().st_size:
            check_resume(output, settings, begun=journal.path)
        before = read_manifest(output) if output.exists() and output.stat().st_size else None
        opened = False

        def open_journal(done: set[Id]) -> None:
            nonlocal opened
            journal.open(done, _spent_before(before))
            opened = True

        complete = False
        ticker = asyncio.create_task(self.meter.tick())
        try:
            summary = await run_rows(
                source, self, output=output, retries=retries, settings=settings, label=label,
                concurrency=len(source) if whole_batch else self.gate.tasks(samples),
                progress=self.meter, inputs=source.inputs(), extra=lambda: {"tokens": self._tokens()},
                stop=self.stop, opened=open_journal, settled=self.settled,
            )  # fmt: skip
            complete = not summary.failed
        finally:
            ticker.cancel()
            if opened:
                await asyncio.shield(journal.close(complete=complete))
        return summary

    def _tokens(self) -> dict[str, float]:
        """What all completions of the output have taken, of the runs it continues too."""
        spent = self.journal.spent
        counts: dict[str, float] = {
            "prompt": int(spent["prompt_tokens"]), "completion": int(spent["completion_tokens"]),
            "programs": int(spent["programs"]),
        }  # fmt: skip
        return counts | ({"cost_usd": round(spent["cost"], 6)} if spent["cost"] else {})


def _spent_before(manifest: Mapping[str, Any] | None) -> dict[str, float] | None:
    tokens = (manifest or {}).get("tokens")
    if not isinstance(tokens, dict):
        return None
    return {
        "programs": tokens.get("programs", 0), "prompt_tokens": tokens.get("prompt", 0),
        "completion_tokens": tokens.get("completion", 0), "cost": tokens.get("cost_usd", 0.0),
    }  # fmt: skip


def usage(completion: Completion) -> dict[str, int]:
    """The row's `usage` entry of a completion; `reasoning_tokens` where the service tells."""
    used = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
    if completion.reasoning_tokens is not None:
        used["reasoning_tokens"] = completion.reasoning_tokens
    return used


async def first_error(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all to their end, then raise what went wrong: a cancel, else an error, else a mere Stopped."""
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    found = [each for each in outcomes if isinstance(each, BaseException)]
    if found:
        raise min(found, key=lambda error: isinstance(error, Exception) + isinstance(error, Stopped))
