"""The page of a run under way: its `report.html`, until the report stage writes the real one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cobalt.errors import CobaltError
from cobalt.files import atomic_write
from cobalt.run.stage_cache import Stage

DONE, RUNNING, TO_COME, STOPPED = "done", "running", "to come", "stopped"
UNDER_WAY, INTERRUPTED = "under way", "interrupted"


class LivePage:
    """A page of all stages, written when one begins or ends and every `every_s` seconds in between; a context
    manager. A page that is not written any more tells its reader so: that is how a killed run looks.

    `facts`: what the run is, by name. `known`: stages that are done already. `last`: the stage that writes
    the page itself; it calls `leave` first.
    """

    def __init__(
        self,
        path: Path,
        facts: Mapping[str, Any],
        stages: Sequence[Stage],
        *,
        smoke: bool = False,
        known: Collection[str] = (),
        last: str = "report",
        every_s: float = 10.0,
    ) -> None:
        self._path, self._facts, self._smoke, self._last = path, facts, smoke, last
        self._stages = {
            each.name: {"title": each.title, "state": DONE if each.name in known else TO_COME, "said": ""}
            for each in stages
        }
        self._began: dict[str, float] = {}
        self._every_s, self._state, self._why = every_s, UNDER_WAY, ""
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name="page", daemon=True)

    def __enter__(self) -> LivePage:
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say how the run ended, unless its last stage did."""
        ended = self._stages.get(self._last, {}).get("state") == DONE
        self._over.set()
        self._thread.join()
        if ended:
            return
        with self._lock:
            for each in self._stages.values():
                each["state"] = STOPPED if each["state"] == RUNNING else each["state"]
            self._state = "as far as was asked for" if error is None else INTERRUPTED
            if error is not None and not isinstance(error, KeyboardInterrupt):
                known = isinstance(error, CobaltError)
                self._state, self._why = STOPPED, f"{'' if known else f'{type(error).__name__}: '}{error}"
            # The error itself is what the caller must hear of, not that the disk is full for its page too.
            with contextlib.suppress(CobaltError) if error is not None else contextlib.nullcontext():
                self._write()

    def begin(self, name: str) -> None:
        """A stage starts."""
        with self._lock:
            self._began[name] = time.time()
            self._stages[name] |= {"state": RUNNING, "said": ""}
            self._write()

    def leave(self) -> None:
        """From now on the file is another's."""
        with self._lock:
            self._over.set()

    def say(self, name: str, text: str) -> None:
        """How far a stage is; shown with the next writing."""
        with self._lock:
            self._stages[name]["said"] = text

    def end(self, name: str, said: str) -> None:
        """A stage is done."""
        with self._lock:
            self._stages[name] |= {"state": DONE, "said": said}
            if not self._over.is_set():
                self._write()

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            with self._lock:
                if not self._over.is_set():
                    # A full disk is told of by the stage that meets it; here a page is late, no more.
                    with contextlib.suppress(CobaltError):
                        self._write()

    def _write(self) -> None:
        from cobalt.report.render import live_page

        now = time.time()
        stages = [
            each | {"for_s": now - self._began[name] if each["state"] == RUNNING else None}
            for name, each in self._stages.items()
        ]
        how = {"state": self._state, "why": self._why, "smoke": self._smoke, "every_s": self._every_s}
        atomic_write(self._path, live_page(self._facts, stages, written=now, **how))
