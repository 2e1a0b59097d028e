"""What a run is doing: programs, tokens and tests per second, turns, cost, and on what a silent run waits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cobalt.cli import Progress
from cobalt.engines.base import Completion

EVERY_S = 1.0
STALLED_S = 60.0


class Meter:
    """Passes the pipeline's progress on and adds what happens within rows.

    `programs`: completions that the whole run has to sample (None: unknown). Shown fields: `programs` of all,
    `turns` (trajectories by the turn they are in), `tokens/s` and `tests/s` over the last half minute,
    `errors` retried, `cost`, `left` and, once nothing has arrived for STALLED_S, `waiting for`.
    """

    def __init__(self, progress: Progress | None, label: str, programs: int | None = None) -> None:
        self._progress, self._label, self._programs = progress, label, programs
        self._rows: tuple[int, int | None, dict[str, Any]] = (0, None, {})
        self._shown = 0.0
        self._started = self._arrived = time.monotonic()
        self._tokens = self._tests = self._made = 0
        self._recent: list[tuple[float, int, int]] = [(self._started, 0, 0)]
        self._ids = itertools.count()
        self._generating: dict[int, tuple[float, int]] = {}
        self._testing: dict[int, tuple[float, int]] = {}
        self._turns: Counter[int] = Counter()
        self._spent: Mapping[str, float] = {}
        self._engine: Any = None
        self._gate: Any = None

    def watch(self, gate: Any, spent: Mapping[str, float], engine: Any) -> None:
        """Whose limits, spending and counters to show."""
        self._gate, self._spent, self._engine = gate, spent, engine

    @property
    def in_flight(self) -> int:
        """Completions being sampled now."""
        return sum(n for _, n in self._generating.values())

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """What the pipeline tells: rows done."""
        self._rows = done, total, fields
        self._arrived = time.monotonic()
        self._show()

    async def tick(self) -> None:
        """Show what changes between rows, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self._show()

    def sampled(self, turn: int, completions: Iterable[Completion]) -> None:
        """Count completions that have just arrived."""
        for completion in completions:
            self._made += 1
            self._tokens += completion.completion_tokens
            self._turns[turn] += 1
        self._arrived = time.monotonic()

    @contextlib.contextmanager
    def generating(self, n: int) -> Iterator[None]:
        """Around a request for n completions."""
        with self._during(self._generating, n):
            yield

    @contextlib.contextmanager
    def testing(self, tests: int) -> Iterator[None]:
        """Around the tests of a program."""
        with self._during(self._testing, tests):
            yield
        self._tests += tests
        self._arrived = time.monotonic()

    @contextlib.contextmanager
    def _during(self, which: dict[int, tuple[float, int]], count: int) -> Iterator[None]:
        number = next(self._ids)
        which[number] = time.monotonic(), count
        try:
            yield
        finally:
            del which[number]

    def _show(self) -> None:
        now = time.monotonic()
        done, total, fields = self._rows
        if self._progress is None or (now - self._shown < EVERY_S / 2 and done != total and done):
            return
        self._shown = now
        self._progress.advance(self._label, done, total, **fields, **self._more(now))

    def _more(self, now: float) -> dict[str, str]:
        self._recent.append((now, self._tokens, self._tests))
        while len(self._recent) > 2 and now - self._recent[0][0] > 30:
            del self._recent[0]
        since, tokens, tests = self._recent[0]
        seconds = max(1e-9, now - since)
        made = int(self._spent.get("programs", 0)) or self._made
        shown: dict[str, str] = {}
        if made:
            shown["programs"] = f"{made}" + (f"/{self._programs}" if self._programs else "")
            shown["turns"] = " ".join(f"{turn + 1}:{self._turns[turn]}" for turn in sorted(self._turns))
            shown["tokens/s"] = f"{(self._tokens - tokens) / seconds:.0f}"
            shown["tests/s"] = f"{(self._tests - tests) / seconds:.1f}"
        errors = sum(
            count for name, count in dict(getattr(self._engine, "counters", None) or {}).items()
            if str(name).startswith("retries.")
        )  # fmt: skip
        if errors:
            shown["errors"] = f"{errors:.0f}"
        if self._spent.get("cost"):
            shown["cost"] = f"${self._spent['cost']:.4g}"
        if self._programs and self._made and made < self._programs:
            left = (now - self._started) / self._made * (self._programs - made)
            shown["left"] = f"{left:.0f} s"
        if now - self._arrived > STALLED_S:
            shown["waiting for"] = self.waiting(now)
        return shown

    def waiting(self, now: float | None = None) -> str:
        """On what the run waits, with the age of the oldest."""
        now = time.monotonic() if now is None else now
        parts = []
        for what, which in (("completions", self._generating), ("tests", self._testing)):
            if which:
                oldest = now - min(began for began, _ in which.values())
                parts.append(f"{sum(n for _, n in which.values())} {what} (oldest {oldest:.0f} s)")
        return " and ".join(parts) or "nothing: rows are being read or written"
