"""Asking a service again: which failures may pass, how long to wait, and how much to ask for at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from cobalt.errors import InfraError

T = TypeVar("T")

LONGEST_WAIT_S = 60.0
OWN_LIMIT = "own_limit"  # a limit that we keep by ourselves: waiting for it is no failed try
CONGESTION = frozenset({"rate_limit", "timeout", "http_503", "http_529"})


class Retry(Exception):
    """A failure that may pass: its class (for counts and messages), how long the service asks to wait."""

    def __init__(self, kind: str, detail: str, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.kind, self.after_s = kind, after_s


class Pace:
    """How many calls a service gets at once: fewer when it says that it is too much, more while it copes.

    Begins at `most` and stays in [`least`, `most`]. A call that fails by a class of CONGESTION lowers the
    number by 30 %, at most once in `calm_s` seconds; every `now` good calls raise it by one eighth. A service
    that asks for a pause gets no new call until it is over.
    """

    def __init__(self, most: int = 1024, least: int = 4, calm_s: float = 1.0) -> None:
        self.most, self.least = most, min(least, most)
        self.now = float(most)
        self._calm_s = calm_s
        self._in_flight = self._good = 0
        self._lowered = self._paused_until = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Around one call."""
        while self._in_flight >= int(self.now):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                else:
                    self._wake()  # it was meant to go next
                raise
        self._in_flight += 1
        try:
            while (left := self._paused_until - time.monotonic()) > 0:
                await asyncio.sleep(left * random.uniform(1.0, 1.1))
            yield
        finally:
            self._in_flight -= 1
            self._wake()

    def _wake(self) -> None:
        free = int(self.now) - self._in_flight
        while self._waiting and free > 0:
            waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

    def good(self) -> None:
        """A call succeeded."""
        self._good += 1
        if self._good >= self.now and self.now < self.most:
            self._good = 0
            self.now = min(float(self.most), self.now + max(1.0, self.now / 8))
            self._wake()

    def bad(self, failure: Retry) -> None:
        """A call failed."""
        now = time.monotonic()
        if failure.after_s is not None and failure.kind == "rate_limit":
            self._paused_until = max(self._paused_until, now + failure.after_s)
        if failure.kind in CONGESTION and now - self._lowered >= self._calm_s:
            self._lowered, self._good = now, 0
            self.now = max(float(self.least), self.now * 0.7)


class Retrier:
    """Calls again what failed by a Retry: `retries` times, after jittered, doubling waits from `backoff_s`.

    A wait that the service asks for (Retry-After) is kept. `counters` counts calls and retries by class.
    Raises InfraError when all tries failed.
    """

    def __init__(
        self, name: str, *, retries: int, backoff_s: float, counters: Counter[str], pace: Pace | None = None
    ) -> None:
        self.name, self.retries, self.backoff_s = name, retries, backoff_s
        self.counters, self.pace = counters, pace or Pace()
        self._jitter = random.Random()

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T:
        attempt = 0
        while True:
            try:
                async with self.pace.slot():
                    self.counters["calls"] += 1
                    made = await call()
                self.pace.good()
                return made
            except Retry as failure:
                self.pace.bad(failure)
                self.counters[f"retries.{failure.kind}"] += 1
                if attempt == self.retries and failure.kind != OWN_LIMIT:
                    raise InfraError(
                        f"{self.name}: gave up after {attempt + 1} tries; the last: {failure.kind}: {failure}"
                    ) from failure
                if failure.kind == OWN_LIMIT:
                    await asyncio.sleep(failure.after_s or 1.0)
                    continue
                await asyncio.sleep(self.wait_s(attempt, failure.after_s))
                attempt += 1

    def wait_s(self, attempt: int, after_s: float | None) -> float:
        """Full jitter over a doubling wait; a wait the service asks for is kept, with some spread on top."""
        doubling = min(LONGEST_WAIT_S, self.backoff_s * 2**attempt)
        if after_s is None:
            return self._jitter.uniform(0.1, 1.0) * doubling
        return after_s + self._jitter.uniform(0.0, 0.25) * doubling


def retry_after_s(headers: Any) -> float | None:
    """Seconds of a Retry-After header (a number or a date), at most LONGEST_WAIT_S; None without one."""
    value = headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from datetime import UTC, datetime

        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT_S)
