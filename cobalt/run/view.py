"""What a run shows while it works: a live list of stages on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cobalt.cli import Progress

FIRST_GUESS_WEIGHT_S = 20.0  # how long the expected times are trusted against those measured


@dataclass
class Line:
    """One stage as shown. `state`: waiting, running, done, kept (done in an earlier run).

    `expected_s` is 0 for a stage that runs beside another: the time left is that of the other.
    """

    name: str
    title: str
    expected_s: float
    state: str = "waiting"
    wall_s: float = 0.0
    rows: int | None = None
    done: int = 0
    total: int | None = None
    note: str = ""
    began: float = 0.0

    @property
    def share(self) -> float:
        """How much of the stage is done, in [0, 1]."""
        if self.state in ("done", "kept"):
            return 1.0
        return min(self.done / self.total, 1.0) if self.total else 0.0


class View:
    """Shows stages, progress and time left; also a `cobalt.cli.Progress` for the stages themselves."""

    def __init__(self, lines: list[Line], stream: TextIO | None = None, every_s: float = 15.0) -> None:
        self.console = Console(file=stream or sys.stdout)
        self.lines = {line.name: line for line in lines}
        self._every_s = every_s
        self._lock = threading.RLock()
        self._current: Line | None = None
        self._began = time.monotonic()
        self._written = 0.0
        self._live: Live | None = None
        if self.console.is_terminal:
            self._live = Live(
                self, console=self.console, refresh_per_second=2, transient=True, redirect_stdout=False
            )
            self._live.start()

    def begin(self, name: str) -> None:
        """A stage starts."""
        with self._lock:
            line = self.lines[name]
            line.state, line.began = "running", time.monotonic()
            self._current, self._written = line, time.monotonic()
        self._say(f"{self._number(line)} {line.title} ...")

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Progress of the stage that began last; `label` says of which part."""
        if self._current is not None:
            self._advance(self._current, label, done, total, fields)

    def note(self, text: str) -> None:
        """Something worth saying in the middle of a stage."""
        if self._live is not None:
            self._live.console.print(f"  {text}", highlight=False, markup=False, style="dim")
        self._say(f"        {text}")

    def progress(self, name: str) -> Progress:
        """Where a stage that runs beside another reports its progress."""
        return _Bound(self, self.lines[name])

    def _advance(self, line: Line, label: str, done: int, total: int | None, fields: dict[str, Any]) -> None:
        with self._lock:
            extra = "".join(f", {name} {value}" for name, value in fields.items() if value)
            line.note = f"{label} {done}/{'?' if total is None else total}{extra}"
            line.done, line.total = done, total
            now = time.monotonic()
            if self._live is not None or now - self._written < self._every_s:
                return
            self._written = now
        left = self.left_s()
        shown = "" if left is None else f", about {duration(left)} left"
        self._say(f"        {line.note}{shown}")

    def end(self, name: str, *, wall_s: float, rows: int | None, kept: bool) -> None:
        """A stage is done, or was already (`kept`)."""
        with self._lock:
            line = self.lines[name]
            line.state, line.wall_s, line.rows = "kept" if kept else "done", wall_s, rows
            if self._current is line:
                self._current = None
        rows_text = "" if rows is None else f", {rows:,} rows"
        words = "unchanged, kept" if kept else f"done in {duration(wall_s)}"
        self._say(f"{self._number(line)} {line.title}: {words}{rows_text}")

    def close(self, *, keep: bool = True) -> None:
        """Release the terminal, leaving the list of stages if `keep`."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            if keep:
                self.console.print(self)

    def left_s(self) -> float | None:
        """Seconds to go: the expected times of what is left, scaled by how they have held so far.

        Rows that are worked on side by side are finished late, so in the first half of a stage the clock
        counts where it is ahead of the rows.
        """
        with self._lock:
            lines = list(self.lines.values())
            spent = expected = FIRST_GUESS_WEIGHT_S
            left = 0.0
            for line in lines:
                if not line.expected_s:
                    continue
                if line.state == "done":
                    spent, expected = spent + line.wall_s, expected + line.expected_s
                elif line.state == "running":
                    so_far = time.monotonic() - line.began
                    got = max(line.share * line.expected_s, min(so_far, line.expected_s / 2))
                    spent, expected = spent + so_far, expected + got
                    left += line.expected_s - got
                elif line.state == "waiting":
                    left += line.expected_s
            return left * spent / expected if lines else None

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 1))
        with self._lock:
            for line in self.lines.values():
                table.add_row(*self._cells(line))
            left = self.left_s()
        elapsed = time.monotonic() - self._began
        foot = f"{duration(elapsed)} elapsed"
        if left is not None and any(line.state in ("running", "waiting") for line in self.lines.values()):
            foot += f", about {duration(left)} left (Ctrl-C stops; the same command continues)"
        return Group(table, Text(foot, style="dim"))

    def _cells(self, line: Line) -> list[Any]:
        mark, style = {
            "waiting": ("·", "dim"),
            "running": ("▶", "bold cyan"),
            "done": ("✓", "green"),
            "kept": ("✓", "green"),
        }[line.state]
        rows = "" if line.rows is None else f"{line.rows:,} rows"
        middle: Any = Text(f"{rows}{' (kept)' if line.state == 'kept' else ''}", style="dim")
        seconds = duration(line.wall_s) if line.state in ("done", "kept") else ""
        if line.state == "running":
            seconds = duration(time.monotonic() - line.began)
            middle = Text("working", style="dim")
            if line.total:
                middle = Table.grid(padding=(0, 1))
                bar = ProgressBar(total=line.total, completed=line.done, width=24)
                middle.add_row(bar, Text(line.note.replace("_", " "), style="dim"))
        title, spent = Text(line.title, style=style), Text(seconds, justify="right")
        return [Text(mark, style=style), title, spent, middle]

    def _number(self, line: Line) -> str:
        position = list(self.lines).index(line.name) + 1
        return f"[{position:>2}/{len(self.lines)}]"

    def _say(self, text: str) -> None:
        if self._live is None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
            self.console.file.flush()


class _Bound:
    """Progress of one stage."""

    def __init__(self, view: View, line: Line) -> None:
        self._view, self._line = view, line

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        self._view._advance(self._line, label, done, total, fields)


def duration(seconds: float) -> str:
    """Seconds as people read them: 0.4 s, 42 s, 3 min 05 s."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
