"""The one asynchronous loop behind every stage that turns rows into rows.

Work runs with bounded concurrency; every finished row is on disk before it counts; a run that was killed
or interrupted continues with the rows that are missing; a row that keeps failing is recorded and the run
goes on.
"""

import asyncio
import contextlib
import random
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Progress
from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath
from cobalt.manifest import Book, check_resume
from cobalt.output import Failures, Id, JsonlWriter, put_in_order, row_ids
from cobalt.rows import Row, row_id

BACKOFF_S = 0.5  # before the first retry


@dataclass
class Summary:
    """What a run did. `resumed` rows were in the output before, `written` are new, `failed` were given up."""

    output: Path
    total: int = 0
    resumed: int = 0
    written: int = 0
    failed: int = 0
    retried: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of a command: 1 if any row failed."""
        return 1 if self.failed else 0

    def counts(self) -> dict[str, int]:
        """For the manifest."""
        return {name: value for name, value in vars(self).items() if name != "output"}


async def run_rows(
    rows: Iterable[Row],
    work: Callable[[Row], Awaitable[Row]],
    *,
    output: StrPath,
    concurrency: int,
    settings: Mapping[str, Any],
    retries: int = 2,
    label: str = "rows",
    progress: Progress | None = None,
    key: str = "id",
    inputs: Mapping[str, StrPath] | Iterable[StrPath] = (),
    extra: Callable[[], Mapping[str, Any]] | Mapping[str, Any] | None = None,
    stop: "Stop | None" = None,
    opened: Callable[[set[Id]], None] | None = None,
    settled: Callable[[Id, bool], None] | None = None,
) -> Summary:
    """Apply `work` to every row whose `key` is not yet in `output`, at most `concurrency` at once.

    A finished row is on disk at once. If `work` raises, it is tried `retries` more times after pauses that
    double; then the row goes to `OUTPUT.failures.jsonl` and the run goes on (a later run tries it again).
    InputError is not retried: the rows in flight are finished and it is raised. When all rows are there, the
    output is put in their order. `settings` must hold all that determines a row, a hash of the input
    included: it decides whether a run may be continued. The manifest is written at the start and at the end,
    with seconds summed over resumed runs and `extra` (or what it returns).

    Ctrl-C (or SIGTERM) finishes the rows in flight; a second one cancels them. KeyboardInterrupt is raised
    after the output is closed, and the next run continues. `work` may look at `stop` and raise Stopped.
    `opened` is told which rows are in the locked output; `settled` of every row that is now in it (True) or
    was given up (False).

    Raises SettingsChanged if `output` was made under other settings; InputError if another run is writing it,
    or an id is missing or occurs twice; InfraError if the disk fails.
    """
    if concurrency < 1:
        raise InputError(f"concurrency must be at least 1, got {concurrency}")
    output = Path(output)
    check_resume(output, settings)
    with JsonlWriter(output) as writer:
        done = set(row_ids(output, key))
        if opened is not None:
            opened(done)
        run = _Run(rows, work, writer, done, key, retries, label, progress, stop or Stop(), settled)
        await run.recorded(Book(output, settings, inputs, extra), concurrency)
    run.raise_what_stopped_it()
    if not run.summary.failed:
        await asyncio.to_thread(put_in_order, output, list(run.order), key)
    return run.summary


class Stopped(Exception):
    """Raised by work that ends its row early because a stop was requested: no failure, no row."""


@dataclass
class Stop:
    """A request to end the run early: what is in flight (`what`) is drained, then `error`, if any, raised."""

    what: str = "rows"
    requested: bool = False
    error: Exception | None = None

    def request(self, error: Exception | None = None) -> None:
        self.requested = True
        self.error = self.error or error


@dataclass
class _Run:
    """One call of run_rows: the rows still to do, and the workers that share them."""

    rows: Iterable[Row]
    work: Callable[[Row], Awaitable[Row]]
    writer: JsonlWriter
    done: set[Id]
    key: str
    retries: int
    label: str
    progress: Progress | None
    stop: Stop
    settled: Callable[[Id, bool], None] | None = None
    order: dict[Id, None] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = len(self.rows) if isinstance(self.rows, Sized) else None
        self.summary = Summary(self.writer.path)
        self.failures = Failures(self.writer.path, self.key)
        self.todo = self._missing()

    def _missing(self) -> Iterator[tuple[Id, Row]]:
        before = frozenset(self.done)
        for position, row in enumerate(self.rows, start=1):
            key = row_id(row, f"row {position}", self.key)
            if key in self.order:
                raise InputError(f"row {position}: '{self.key}' {key!r} occurs twice; ids must be unique")
            self.order[key] = None
            self.summary.total = position
            if key in before:
                self.summary.resumed += 1
            else:
                yield key, row

    async def recorded(self, book: Book, concurrency: int) -> None:
        """Do all rows; at the end the output is closed and the manifest and the failures are up to date."""
        book.write(self.summary.counts())
        try:
            with _interrupts(self):
                await self.loop(concurrency)
        finally:
            await asyncio.shield(self.writer.aclose())
            self.failures.close(self.done)
            book.write(self.summary.counts())

    async def loop(self, concurrency: int) -> None:
        self._show()
        self.tasks = [asyncio.create_task(self._worker()) for _ in range(concurrency)]
        try:
            outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        except asyncio.CancelledError:  # the caller is cancelled: take the workers along
            self.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            raise
        for outcome in outcomes:
            if isinstance(outcome, asyncio.CancelledError) and not self.stop.requested:
                raise outcome
        self._show()

    def raise_what_stopped_it(self) -> None:
        if self.stop.error is not None:
            raise self.stop.error
        if self.stop.requested:
            of_total = "" if self.total is None else f" of {self.total}"
            raise KeyboardInterrupt(
                f"{self.label}: {len(self.done)}{of_total} rows are in {self.writer.path}; "
                "run the same command again to continue"
            )

    def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _worker(self) -> None:
        try:
            while not self.stop.requested:
                item = next(self.todo, None)
                if item is None:
                    return
                await self._one(*item)
                self._show()
        except Exception as error:
            self.stop.request(error)  # the other workers see it, finish their rows and stop

    async def _one(self, key: Id, row: Row) -> None:
        for attempt in range(1, self.retries + 2):
            try:
                result = await self.work(row)
                if result.get(self.key) != key:
                    raise InfraError(f"the result has {self.key} {result.get(self.key)!r} instead of {key!r}")
                break
            except Stopped:
                return
            except InputError:
                raise
            except Exception as error:
                if attempt > self.retries or self.stop.requested:
                    self.summary.failed += 1
                    await self.failures.write(key, error, attempt)
                    if self.settled is not None:
                        self.settled(key, False)
                    return
                self.summary.retried += 1
                await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
        await self.writer.write(result)
        self.done.add(key)
        self.summary.written += 1
        if self.settled is not None:
            self.settled(key, True)

    def _show(self) -> None:
        if self.progress is not None:
            done = self.summary.resumed + self.summary.written
            self.progress.advance(
                self.label, done, self.total, failed=self.summary.failed, retried=self.summary.retried
            )


@contextlib.contextmanager
def _interrupts(run: _Run) -> Iterator[None]:
    """First SIGINT or SIGTERM: finish the rows in flight. Second: cancel them."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if run.stop.requested:
            run.cancel()
            return
        run.stop.request()
        print(
            f"{run.label}: finishing the {run.stop.what} in flight; interrupt again to stop at once",
            file=sys.stderr,
            flush=True,
        )

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.getsignal(number)
                loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
