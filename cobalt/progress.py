"""Progress of long stages: a live display on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """What the pipeline tells while it runs. `done` of `total` rows (None: unknown); `fields` are extras."""

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None: ...


class LineProgress:
    """One plain line when a stage starts, at most every `every_s` seconds, also while no row is done, and
    when it ends.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._every_s = every_s
        self._started: dict[str, tuple[float, int]] = {}
        self._written: dict[str, tuple[float, int | None]] = {}
        self._lock = threading.Lock()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        now = time.monotonic()
        with self._lock:
            started, first = self._started.setdefault(label, (now, done))
            written, shown = self._written.get(label, (-self._every_s, None))
            ends = done == total and done != shown
            if shown is not None and not ends and now - written < self._every_s:
                return
            self._written[label] = now, done
            parts = [f"{label}: {done}/{'?' if total is None else total}"]
            if total and first < done < total:
                parts.append(f"{(now - started) / (done - first) * (total - done):.0f} s left")
            parts += [f"{name} {value}" for name, value in fields.items() if value]
            print(", ".join(parts), file=self._stream, flush=True)

    def __enter__(self) -> "LineProgress":
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to release."""


class TerminalProgress:
    """A bar per stage, with time left, drawn by rich. Close it (or use `with`) to release the terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Display

        self._display = Display(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[extra]}"),
            console=Console(file=stream or sys.stderr),
        )
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._display.start()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        extra = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
        with self._lock:
            if label not in self._tasks:
                self._tasks[label] = self._display.add_task(label, total=total, completed=done, extra=extra)
            self._display.update(self._tasks[label], completed=done, total=total, extra=extra)

    def close(self) -> None:
        self._display.stop()

    def __enter__(self) -> "TerminalProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_progress(stream: TextIO | None = None) -> "LineProgress | TerminalProgress":
    """The display that fits a stream (default stderr): bars on a terminal, lines otherwise."""
    stream = stream or sys.stderr
    return TerminalProgress(stream) if stream.isatty() else LineProgress(stream)
