"""Progress within rows: programs and tokens sampled so far, beside the rows that the pipeline counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from cobalt.engines.base import Completion
from cobalt.pipeline import Progress

_EVERY_S = 0.5


class Meter:
    """Passes the pipeline's progress on and adds programs and tokens per second; counts tokens for the
    manifest.
    """

    def __init__(self, progress: Progress | None, label: str) -> None:
        self._progress, self._label = progress, label
        self._rows: tuple[int, int | None, dict[str, Any]] = (0, None, {})
        self._started = self._shown = time.monotonic()
        self.programs = self.prompt_tokens = self.completion_tokens = 0

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        self._rows = done, total, fields
        if self._progress is not None:
            self._progress.advance(label, done, total, **fields, **self._more())

    def sampled(self, completions: Iterable[Completion]) -> None:
        """Count completions that have just arrived, and show them now and then."""
        for completion in completions:
            self.programs += 1
            self.prompt_tokens += completion.prompt_tokens
            self.completion_tokens += completion.completion_tokens
        now = time.monotonic()
        if self._progress is not None and now - self._shown >= _EVERY_S:
            self._shown = now
            done, total, fields = self._rows
            self._progress.advance(self._label, done, total, **fields, **self._more())

    def tokens(self) -> dict[str, int]:
        """Tokens of this run (not of the runs it resumes), summed over completions."""
        return {"prompt": self.prompt_tokens, "completion": self.completion_tokens, "programs": self.programs}

    def _more(self) -> dict[str, str]:
        if not self.programs:
            return {}
        rate = self.completion_tokens / max(1e-9, time.monotonic() - self._started)
        return {"programs": str(self.programs), "tokens/s": f"{rate:.0f}"}
