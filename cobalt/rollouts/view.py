"""What a door shows while it samples: a small table on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, TextIO

EVERY_S = 10.0


class RolloutView:
    """A `cobalt.cli.Progress`. A plain line comes at the start, the end, and at most every `every_s`
    seconds, also while no row is finished: a run that stalls says on what it waits.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = EVERY_S) -> None:
        self._stream = stream or sys.stderr
        self._every_s = every_s
        self._written = 0.0
        self._last: tuple[int, int | None] | None = None
        self._text: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._live: Any = None
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self._table, console=Console(file=self._stream), refresh_per_second=2
            )
            self._live.start()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        """Note what there is to show."""
        shown = {name: str(value) for name, value in fields.items() if value}
        of = "?" if total is None else str(total)
        with self._lock:
            self._text = [(label, f"{done}/{of} tasks"), *shown.items()]
            if self._live is not None:
                return
            now = time.monotonic()
            ends = done == total and self._last != (done, total)
            if self._last is not None and not ends and now - self._written < self._every_s:
                return
            self._written, self._last = now, (done, total)
        text = f"{label}: {done}/{of}" + "".join(f", {name} {value}" for name, value in shown.items())
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Release the terminal; what it shows last stays."""
        if self._live is not None:
            self._live.stop()

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        with self._lock:
            for name, value in self._text:
                stalled = name == "waiting for"
                table.add_row(Text(name, style="dim"), Text(value, style="yellow" if stalled else ""))
        return table
