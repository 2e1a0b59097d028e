"""What a run says while it works, on a terminal and on its page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from cobalt.cli import LineProgress, Progress, TerminalProgress
from cobalt.run.live_page import LivePage
from cobalt.run.stage_cache import Stage


class View:
    """Tells which stage begins and ends; also a `cobalt.cli.Progress` for the stages themselves.

    Lines go to ``stream`` (default stdout); with ``bars``, that of a terminal, they stand above its bars.
    ``page`` is told the same.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        stream: TextIO | None = None,
        every_s: float = 15.0,
        bars: TerminalProgress | None = None,
        page: LivePage | None = None,
    ) -> None:
        self._titles = {
            stage.name: f"[{number:>2}/{len(stages)}] {stage.title}" for number, stage in enumerate(stages, 1)
        }
        self._current = ""
        self._shown = bars or LineProgress(stream or sys.stdout, every_s)
        self._indent = "" if bars else "        "
        self._page = page

    def begin(self, name: str) -> None:
        """A stage starts."""
        self._current = name
        self._shown.say(f"{self._titles[name]} ...")
        if self._page is not None:
            self._page.begin(name)

    def end(self, name: str, *, wall_s: float, rows: int | None, kept: bool) -> None:
        """A stage is done, or was already (`kept`)."""
        self._shown.clear()
        words = "unchanged, kept" if kept else f"done in {duration(wall_s)}"
        said = f"{words}{'' if rows is None else f', {rows:,} rows'}"
        self._shown.say(f"{self._titles[name]}: {said}")
        if self._page is not None:
            self._page.end(name, said)

    def leave_page(self) -> None:
        """The page is written by the stage that asks this."""
        if self._page is not None:
            self._page.leave()

    def note(self, text: str) -> None:
        """Something worth saying in the middle of a stage."""
        self._shown.say(f"        {text}")

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Progress of the stage that began last; `label` says of which part."""
        self.progress(self._current).advance(label, done, total, **fields)

    def progress(self, name: str) -> _Part:
        """Where a stage that runs beside another reports its progress."""
        return _Part(self._shown, f"{self._indent}{name}", name, self._page)


@dataclass
class _Part:
    """Progress of one stage."""

    parts: Progress
    shown: str
    name: str
    page: LivePage | None = None

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Tell it under the stage's name."""
        self.parts.advance(f"{self.shown}: {label}", done, total, **fields)
        if self.page is not None:
            more = [f"{name} {value}" for name, value in fields.items() if value]
            self.page.say(self.name, ", ".join([f"{label}: {done}/{'?' if total is None else total}", *more]))


def duration(seconds: float) -> str:
    """Seconds as people read them: 0.4 s, 42 s, 3 min 05 s."""
    whole = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
