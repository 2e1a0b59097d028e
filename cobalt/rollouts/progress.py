"""What a run is doing: programs, tokens and tests per second, turns, cost, and on what a silent run waits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine, Completion

EVERY_S = 1.0
STALLED_S = 60.0
_RATE_S = 30.0


class Meter:
    """Passes the pipeline's progress on and adds what happens within rows.

    `programs`: completions that the whole run has to sample; `spent`: what it has cost so far
    (cobalt.rollouts.journal). Shown fields: `programs` of all, `turns` (completions by turn), `tokens/s` and
    `tests/s` over the last half minute, `errors` retried, `cost` and, once nothing has arrived for
    STALLED_S, `waiting for`.
    """

    def __init__(
        self, progress: Progress | None, label: str, programs: int, spent: Counter[str], engine: ChatEngine
    ) -> None:
        self._progress, self._label, self._programs = progress, label, programs
        self._spent, self._engine = spent, engine
        self._rows: tuple[int, int | None, dict[str, Any]] = (0, None, {})
        self._shown = 0.0
        self._arrived = time.monotonic()
        self._tokens = self._tests = 0
        self._recent = [(self._arrived, 0, 0)]
        self._turns = Counter[int]()
        self._under_way: dict[str, dict[object, tuple[float, int]]] = {"completions": {}, "tests": {}}

    @property
    def in_flight(self) -> int:
        """Completions being sampled now."""
        return sum(n for _, n in self._under_way["completions"].values())

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """What the pipeline tells: rows done."""
        self._rows = done, total, fields
        self._arrived = time.monotonic()
        self.show()

    async def tick(self) -> None:
        """Show what changes between rows, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.show()

    @contextmanager
    def during(self, what: str, count: int) -> Iterator[None]:
        """Around a request for `count` completions (`what` is "completions") or tests ("tests")."""
        number = object()
        self._under_way[what][number] = time.monotonic(), count
        try:
            yield
        finally:
            del self._under_way[what][number]

    def sampled(self, turn: int, completions: Iterable[Completion]) -> None:
        """Count completions that have just arrived."""
        for completion in completions:
            self._tokens += completion.completion_tokens
            self._turns[turn] += 1
        self._arrived = time.monotonic()

    def tested(self, tests: int) -> None:
        """Count tests whose verdicts have just arrived."""
        self._tests += tests
        self._arrived = time.monotonic()

    def show(self) -> None:
        """Tell the display, unless it was told just now."""
        now = time.monotonic()
        done, total, fields = self._rows
        if self._progress is None or (now - self._shown < EVERY_S / 2 and done != total and done):
            return
        self._shown = now
        self._progress.advance(self._label, done, total, **fields, **self._more(now))

    def _more(self, now: float) -> dict[str, str]:
        self._recent.append((now, self._tokens, self._tests))
        while len(self._recent) > 2 and now - self._recent[0][0] > _RATE_S:
            del self._recent[0]
        since, tokens, tests = self._recent[0]
        seconds = max(1e-9, now - since)
        made = self._spent["programs"]
        errors = getattr(self._engine, "retries", 0)
        shown: dict[str, str] = {}
        if made:
            shown["programs"] = f"{made}/{self._programs}"
            shown["turns"] = " ".join(f"{turn + 1}:{self._turns[turn]}" for turn in sorted(self._turns))
            shown["tokens/s"] = f"{(self._tokens - tokens) / seconds:.0f}"
            shown["tests/s"] = f"{(self._tests - tests) / seconds:.1f}"
        if errors:
            shown["errors"] = f"{errors}"
        if self._spent["cost"]:
            shown["cost"] = f"${self._spent['cost']:.4g}"
        if now - self._arrived > STALLED_S:
            shown["waiting for"] = self._waiting(now)
        return shown

    def _waiting(self, now: float) -> str:
        parts = []
        for what, each in self._under_way.items():
            if each:
                oldest = now - min(began for began, _ in each.values())
                parts.append(f"{sum(n for _, n in each.values())} {what} (oldest {oldest:.0f} s)")
        return " and ".join(parts) or "nothing: rows are being read or written"
