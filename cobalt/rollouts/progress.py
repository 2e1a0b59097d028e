"""What a run shows beside its rows: programs, turns, tokens and tests per second, retries, cost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine, Completion

EVERY_S = 1.0


class Meter:
    """Passes the pipeline's progress on and adds what happens within rows.

    `programs`: completions that the whole run has to sample; `spent`: what it has cost so far
    (cobalt.rollouts.journal). Shown fields: `programs` of all, `turns` (completions by turn), `tokens/s` and
    `tests/s` of this run, `errors` retried and `cost`.
    """

    def __init__(
        self, progress: Progress | None, label: str, programs: int, spent: Counter[str], engine: ChatEngine
    ) -> None:
        self._progress, self._label, self._programs = progress, label, programs
        self._spent, self._engine = spent, engine
        self._rows: tuple[int, int | None, dict[str, Any]] = (0, None, {})
        self._shown = 0.0
        self._began, self._tokens, self._tests = time.monotonic(), 0, 0
        self._turns = Counter[int]()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """What the pipeline tells: rows done."""
        self._rows = done, total, fields
        self.show()

    async def tick(self) -> None:
        """Show what changes between rows, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.show()

    def sampled(self, turn: int, completions: Sequence[Completion]) -> None:
        """Count completions that have just arrived."""
        self._tokens += sum(each.completion_tokens for each in completions)
        self._turns[turn] += len(completions)

    def tested(self, tests: int) -> None:
        """Count tests whose verdicts have just arrived."""
        self._tests += tests

    def show(self) -> None:
        """Tell the display, unless it was told just now."""
        now = time.monotonic()
        done, total, fields = self._rows
        if self._progress is None or (now - self._shown < EVERY_S / 2 and done != total and done):
            return
        self._shown = now
        seconds, more = max(1e-9, now - self._began), dict[str, str]()
        if made := self._spent["programs"]:
            more["programs"] = f"{made}/{self._programs}"
            more["turns"] = " ".join(f"{turn + 1}:{self._turns[turn]}" for turn in sorted(self._turns))
            more["tokens/s"] = f"{self._tokens / seconds:.0f}"
            more["tests/s"] = f"{self._tests / seconds:.1f}"
        if errors := getattr(self._engine, "retries", 0):
            more["errors"] = str(errors)
        if self._spent["cost"]:
            more["cost"] = f"${self._spent['cost']:.4g}"
        self._progress.advance(self._label, done, total, **fields, **more)
