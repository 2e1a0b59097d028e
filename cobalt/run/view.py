"""What a run shows while it works: a live list of stages on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from cobalt.run.stage_cache import Stage

FIRST_GUESS_WEIGHT_S = 20.0  # how long the expected times are trusted against those measured
_MARKS = {"waiting": "[dim]·", "running": "[bold cyan]▶", "done": "[green]✓", "kept": "[green]✓"}


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
    """Shows stages, progress and time left; also a `cobalt.cli.Progress` for the stages themselves."""

    def __init__(self, lines: list[Line], stream: TextIO | None = None, every_s: float = 15.0) -> None:
        self.console = Console(file=stream or sys.stdout)
        self.lines = {line.name: line for line in lines}
        self._every_s, self._written = every_s, 0.0
        self._lock = threading.RLock()
        self._current = ""
        self._began = time.monotonic()
        self.bars = _Bars(self)
        self._live = self.console.is_terminal
        if self._live:
            self.bars.start()

    def begin(self, name: str) -> None:
        """A stage starts."""
        with self._lock:
            line, self._current = self.lines[name], name
            line.state, line.began = "running", time.monotonic()
            self._written = line.began
        self._say(f"{self._number(name)} {line.title} ...")

    def end(self, name: str, *, wall_s: float, rows: int | None, kept: bool) -> None:
        """A stage is done, or was already (`kept`)."""
        with self._lock:
            line = self.lines[name]
            line.state, line.wall_s, line.rows = "kept" if kept else "done", wall_s, rows
        words = "unchanged, kept" if kept else f"done in {duration(wall_s)}"
        self._say(f"{self._number(name)} {line.title}: {words}{'' if rows is None else f', {rows:,} rows'}")

    def note(self, text: str) -> None:
        """Something worth saying in the middle of a stage."""
        if self._live:
            self.console.print(f"  {text}", highlight=False, markup=False, style="dim")
        self._say(f"        {text}")

    def progress(self, name: str) -> StageProgress:
        """Where a stage that runs beside another reports its progress."""
        return StageProgress(self, name)

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Progress of the stage that began last; `label` says of which part."""
        if self._current:
            self.advance_stage(self._current, label, done, total, fields)

    def advance_stage(
        self, name: str, label: str, done: int, total: int | None, fields: dict[str, Any]
    ) -> None:
        """Progress of a stage."""
        with self._lock:
            line, now = self.lines[name], time.monotonic()
            extra = "".join(f", {key} {value}" for key, value in fields.items() if value)
            line.note = f"{label} {done}/{'?' if total is None else total}{extra}"
            line.done, line.total = done, total
            if self._live or now - self._written < self._every_s:
                return
            self._written = now
            several = sum(each.state == "running" for each in self.lines.values()) > 1
        whose = f"{name}: " if several else ""
        self._say(f"        {whose}{line.note}, about {duration(self.left_s())} left")

    def close(self) -> None:
        """Release the terminal, leaving the list of stages."""
        if self._live:
            self._live = False
            self.bars.stop()

    def left_s(self) -> float:
        """Seconds to go: the expected times of what is left, scaled by how they have held so far.

        Rows that are worked on side by side are finished late, so in the first half of a stage the clock
        counts where it is ahead of the rows.
        """
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
        return left * spent / expected

    def foot(self) -> str:
        """The last line of the live list."""
        open_ = any(line.state in ("running", "waiting") for line in self.lines.values())
        advice = f", about {duration(self.left_s())} left (Ctrl-C stops; the same command continues)"
        return f"{duration(time.monotonic() - self._began)} elapsed{advice if open_ else ''}"

    def _number(self, name: str) -> str:
        return f"[{list(self.lines).index(name) + 1:>2}/{len(self.lines)}]"

    def _say(self, text: str) -> None:
        if not self._live:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
            self.console.file.flush()


@dataclass
class StageProgress:
    """Progress of one stage."""

    view: View
    name: str

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Tell the view."""
        self.view.advance_stage(self.name, label, done, total, fields)


class _Bars(Progress):
    """The live list: a row of rich's progress display for each stage, and the time left below."""

    def __init__(self, view: View) -> None:
        self._view = view
        columns = (
            TextColumn("{task.fields[mark]}"),
            TextColumn("{task.fields[title]}", markup=False),
            TextColumn("{task.fields[spent]}", justify="right"),
            BarColumn(24),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
        )
        super().__init__(*columns, console=view.console, refresh_per_second=2, redirect_stdout=False)
        for line in view.lines.values():
            self.add_task(line.title, start=False, mark="", title="", spent="", note="")

    def get_renderables(self) -> Iterator[RenderableType]:
        for task, line in zip(self.tasks, self._view.lines.values(), strict=False):
            seconds = time.monotonic() - line.began if line.state == "running" else line.wall_s
            rows = "" if line.rows is None else f"{line.rows:,} rows"
            kept = f"{rows}{' (kept)' if line.state == 'kept' else ''}"
            task.total, task.completed = 1.0, line.share
            task.fields |= {
                "mark": _MARKS[line.state],
                "title": line.title,
                "spent": "" if line.state == "waiting" else duration(seconds),
                "note": line.note.replace("_", " ") or "working" if line.state == "running" else kept,
            }
        yield self.make_tasks_table(self.tasks)
        yield Text(self._view.foot(), style="dim")


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
