"""What a run shows while it works: a live list of stages on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.progress import Progress as Bars
from rich.progress import ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.text import Text

from cobalt.progress import Progress
from cobalt.run.stage_cache import Stage

FIRST_GUESS_WEIGHT_S = 20.0  # how long the expected times are trusted against those measured
_MARKS = {
    "waiting": ("·", "dim"), "running": ("▶", "bold cyan"), "done": ("✓", "green"), "kept": ("✓", "green"),
}  # fmt: skip


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


def lines(stages: Sequence[Stage], only: Collection[str] | None = None) -> list[Line]:
    """What the view shows of stages (of those named)."""
    chosen = [stage for stage in stages if only is None or stage.name in only]
    return [Line(stage.name, stage.title, stage.expected_s) for stage in chosen]


class View:
    """Shows stages, progress and time left; also a `cobalt.progress.Progress` for the stages themselves."""

    def __init__(self, lines: list[Line], stream: TextIO | None = None, every_s: float = 15.0) -> None:
        self.console = Console(file=stream or sys.stdout)
        self.lines = {line.name: line for line in lines}
        self._every_s, self._written = every_s, 0.0
        self._lock = threading.RLock()
        self._current: Line | None = None
        self._began = time.monotonic()
        self.bars = _Bars(self)
        self._live = self.console.is_terminal
        if self._live:
            self.bars.start()

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
        if self._live:
            self.console.print(f"  {text}", highlight=False, markup=False, style="dim")
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
            if self._live or now - self._written < self._every_s:
                return
            self._written = now
            several = sum(each.state == "running" for each in self.lines.values()) > 1
        left = self.left_s()
        whose = f"{line.name}: " if several else ""
        self._say(f"        {whose}{line.note}{'' if left is None else f', about {duration(left)} left'}")

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

    def close(self) -> None:
        """Release the terminal, leaving the list of stages."""
        if self._live:
            self._live = False
            self.bars.stop()

    def left_s(self) -> float | None:
        """Seconds to go: the expected times of what is left, scaled by how they have held so far.

        Rows that are worked on side by side are finished late, so in the first half of a stage the clock
        counts where it is ahead of the rows.
        """
        with self._lock:
            spent = expected = FIRST_GUESS_WEIGHT_S
            left = 0.0
            for line in (each for each in self.lines.values() if each.expected_s):
                if line.state == "done":
                    spent, expected = spent + line.wall_s, expected + line.expected_s
                elif line.state == "running":
                    so_far = time.monotonic() - line.began
                    got = max(line.share * line.expected_s, min(so_far, line.expected_s / 2))
                    spent, expected = spent + so_far, expected + got
                    left += line.expected_s - got
                elif line.state == "waiting":
                    left += line.expected_s
            return left * spent / expected if self.lines else None

    def foot(self) -> str:
        """The last line of the live list."""
        left = self.left_s()
        open_ = any(line.state in ("running", "waiting") for line in self.lines.values())
        to_go = "" if left is None or not open_ else (
            f", about {duration(left)} left (Ctrl-C stops; the same command continues)"
        )  # fmt: skip
        return f"{duration(time.monotonic() - self._began)} elapsed{to_go}"

    def _number(self, line: Line) -> str:
        position = list(self.lines).index(line.name) + 1
        return f"[{position:>2}/{len(self.lines)}]"

    def _say(self, text: str) -> None:
        if not self._live:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
            self.console.file.flush()


class _Bound:
    """Progress of one stage."""

    def __init__(self, view: View, line: Line) -> None:
        self._view, self._line = view, line

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        self._view._advance(self._line, label, done, total, fields)


class _Bars(Bars):
    """The live list: a row of rich's progress display for each stage, and the time left below."""

    def __init__(self, view: View) -> None:
        self._view = view
        columns = [_Cell(each) for each in (_mark, _title, _seconds, _bar, _note)]
        super().__init__(*columns, console=view.console, refresh_per_second=2, redirect_stdout=False)
        for line in view.lines.values():
            self.add_task(line.title, start=False, line=line)

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(self._view.foot(), style="dim")


class _Cell(ProgressColumn):
    def __init__(self, make: Callable[[Line], RenderableType]) -> None:
        super().__init__()
        self._make = make

    def render(self, task: Task) -> RenderableType:
        return self._make(task.fields["line"])


def _mark(line: Line) -> Text:
    mark, style = _MARKS[line.state]
    return Text(mark, style=style)


def _title(line: Line) -> Text:
    return Text(line.title, style=_MARKS[line.state][1])


def _seconds(line: Line) -> Text:
    seconds = time.monotonic() - line.began if line.state == "running" else line.wall_s
    return Text("" if line.state == "waiting" else duration(seconds), justify="right")


def _bar(line: Line) -> RenderableType:
    running = line.state == "running" and line.total
    return ProgressBar(total=line.total, completed=line.done, width=24) if running else Text("")


def _note(line: Line) -> Text:
    if line.state == "running":
        return Text(line.note.replace("_", " ") if line.total else "working", style="dim")
    rows = "" if line.rows is None else f"{line.rows:,} rows"
    return Text(f"{rows}{' (kept)' if line.state == 'kept' else ''}", style="dim")


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
