"""What determines the rows of a rollout, and who may be sampling how much at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cobalt.engines.base import ChatEngine, Sampling
from cobalt.engines.seeds import derive
from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, Prompts
from cobalt.rollouts.judging import TEST_SETS

DEFAULT_SAMPLES = 16


@dataclass(frozen=True)
class RolloutSettings:
    """Sampling of a run; the defaults are the published ones (arXiv 2602.03806).

    `n` samples per task; None is 16, or, where first turns are read from a file, as many as the file has.
    `seed` of the run: each completion's seed is a hash of it, the task's id, sample and turn.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    n: int | None = None
    seed: int = 0
    prompts: Prompts = field(default=DEFAULT)
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        try:
            self.sampling(n=self.n or 1)
        except ValueError as error:
            raise InputError(str(error)) from None
        if self.n is not None and self.n < 1:
            raise InputError(f"--num_completions must be at least 1, got {self.n}")

    @property
    def samples(self) -> int:
        return DEFAULT_SAMPLES if self.n is None else self.n

    def sampling(
        self, n: int = 1, seed: int | None = None, *, index: int = 0, session: str | None = None
    ) -> Sampling:
        return Sampling(
            self.temperature, self.top_p, self.max_tokens, n, seed, index=index, session=session,
            reasoning_effort=self.reasoning_effort,
        )  # fmt: skip

    def first(self, key: str | int, n: int, index: int = 0) -> Sampling:
        """The first turn of a task, n samples from `index` on; the same in single- and multi-turn runs."""
        session = json.dumps([key, index] if n == 1 else [key])
        return self.sampling(n, derive(self.seed, key, "first turn"), index=index, session=session)

    def record(self) -> dict[str, Any]:
        """For the manifest: what a resumed run must have in common with the run before."""
        return {
            "temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens,
            "seed": self.seed, "prompts_sha256": self.prompts.sha256,
            **({"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class MultiTurnSettings(RolloutSettings):
    """A multi-turn run.

    `turns`: programs per trajectory, the first included (collection 3, evaluation 9). `tests`: which tests
    the model is shown, see `cobalt.rollouts.judging.shown_tests`. `first_turn`: sample the first turn too,
    instead of reading it from `responses`. `enable_thinking`: messages keep the text after the last
    `</think>` only, cut to 6,000 characters. `unfinished_thinking`: what a response that never closes its
    thinking counts as, `run` (its last block is run, as published) or `no_code`. `stop_when_passed`: no
    further turns once all shown tests pass.
    """

    turns: int = 9
    tests: str = "auto"
    first_turn: bool = False
    enable_thinking: bool = False
    unfinished_thinking: str = "run"
    stop_when_passed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns < 1:
            raise InputError(f"--turns must be at least 1, got {self.turns}")
        if self.tests not in TEST_SETS:
            raise InputError(f"--tests must be one of {', '.join(TEST_SETS)}, got {self.tests!r}")
        if self.unfinished_thinking not in ("run", "no_code"):
            raise InputError(
                f"--unfinished_thinking must be run or no_code, got {self.unfinished_thinking!r}"
            )

    def record(self) -> dict[str, Any]:
        return super().record() | {
            "turns": self.turns, "tests": self.tests, "first_turn": self.first_turn,
            "enable_thinking": self.enable_thinking, "unfinished_thinking": self.unfinished_thinking,
            "stop_when_passed": self.stop_when_passed,
        }  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """How much at once and in all; none of it changes a result.

    `concurrency`: completions in flight. `max_cost`: US dollars, for all runs of one output together.
    `prices`: dollars per million (prompt, completion) tokens, where the engine tells no cost.
    `first_cost`: dollars that the first completion may take, until one is known.
    """

    concurrency: int = 256
    max_cost: float | None = None
    prices: tuple[float, float] | None = None
    first_cost: float = 0.0


class Gate:
    """At most `size` completions in flight; first come, first served, also for requests of several."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"--concurrency must be at least 1, got {size}")
        self.size = size
        self._slots = asyncio.Semaphore(size)
        self._turnstile = (
            asyncio.Lock()
        )  # one request gathers its slots at a time, or two could starve each other

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

    def tasks(self, samples: int) -> int:
        """How many tasks to hold open: enough that stragglers of some leave no slot empty."""
        return max(2, 3 * self.size // samples)


def identity(engine: ChatEngine) -> str:
    """What a resumed run must find again: the hash of a local model's files, else the engine's name."""
    fingerprint = getattr(engine, "fingerprint", None)
    return str(fingerprint or engine.name)
