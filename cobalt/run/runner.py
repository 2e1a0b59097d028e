"""Stages in order, each skipped when its settings and the content of its inputs are what they were; what is
measured meanwhile.

There is no graph: a stage names files, and content decides. One stage may name another `beside` which it runs
at the same time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cobalt.files import plain
from cobalt.run.stage_cache import Outcome, Records, Shared, Stage
from cobalt.run.view import View


class MemoryPeak:
    """Watches this process and everything below it (Ray, sandboxes) from a thread; a context manager.

    `mib`: the highest sum of proportional set sizes (shared pages divided among their users; the resident
    size where the kernel does not tell), looked at every `every_s` seconds at most.
    """

    def __init__(self, every_s: float = 1.0) -> None:
        self.mib = 0.0
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        own, pause = psutil.Process(), self._every_s
        while not self._stop.wait(pause):
            began = time.thread_time()
            with contextlib.suppress(psutil.Error):
                self.mib = max(self.mib, sum(map(_mib, [own, *own.children(recursive=True)])))
            # A look costs milliseconds with few processes and more with many: at most 2 % of one core.
            pause = max(self._every_s, 50 * (time.thread_time() - began))


def _mib(process: psutil.Process) -> float:
    """Proportional set size of a process; 0 for one that has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process.pid}/smaps_rollup", "rb") as handle:
        for line in handle:
            if line.startswith(b"Pss:"):
                return float(line.split()[1]) / 1024
    with contextlib.suppress(psutil.Error):
        return float(process.memory_info().rss) / 2**20
    return 0.0


@dataclass
class _Attempt:
    """A stage at work: the record of its interrupted attempts, and where clock and counters stood."""

    stage: Stage
    basis: Mapping[str, Any]
    earlier: Mapping[str, Any]
    counters: Mapping[str, float]
    began: float
    outcome: Outcome | None = None
    error: BaseException | None = None


class Runner:
    """Runs stages and keeps their records. `counters`: numbers that only grow, recorded per stage. `shared`:
    what other runs have made already. ``only``: the stages asked for, if not all. As a context manager it
    watches the memory.
    """

    only: Sequence[Stage] | None = None

    def __init__(
        self,
        out: Path,
        stages: Sequence[Stage] = (),
        counters: Callable[[], Mapping[str, float]] = dict,
        shared: Shared | None = None,
    ) -> None:
        self.stages, self.counters, self.memory = stages, counters, MemoryPeak()
        self.kept, self.shared = Records(out), shared or Shared(None)
        age_s: float = time.time() - psutil.Process().create_time()
        self._started = time.monotonic() - age_s
        self._attempt: _Attempt | None = None
        self._in_stages_s = 0.0

    def __enter__(self) -> Runner:
        self.memory.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.__exit__()

    def wall_s(self) -> float:
        """Seconds since this process started."""
        return time.monotonic() - self._started

    @property
    def chosen(self) -> Sequence[Stage]:
        """The stages asked for."""
        return self.stages if self.only is None else self.only

    def finished(self) -> bool:
        """Whether every stage asked for is done and unchanged."""
        return all(self.kept.why(stage) is None for stage in self.chosen)

    def run(self, view: View) -> None:
        """Run what is not done. On an interrupt or error the time spent so far is still recorded."""
        done: set[str] = set()
        for stage, following in zip(self.chosen, [*self.chosen[1:], None], strict=True):
            if stage.name in done:
                continue
            record = self.kept.known(stage, self.shared)
            if record is not None:
                view.end(stage.name, wall_s=record["wall_s"], rows=record["rows_out"], kept=True)
            elif (
                following is not None
                and following.beside == stage.name
                and self.kept.known(following, self.shared) is None
            ):
                self._two(stage, following, view)
                done.add(following.name)
            else:
                self._one(stage, view)

    def _one(self, stage: Stage, view: View) -> None:
        view.begin(stage.name)
        attempt = self._attempt = self._begin(stage)
        try:
            attempt.outcome = stage.run()
        finally:
            self._end(attempt, view)

    def _two(self, first: Stage, second: Stage, view: View) -> None:
        """Run `second` in a thread beside `first`.

        Their wall seconds add up to those of the pair: `second` is given what it takes after `first` has
        ended.
        """
        view.begin(second.name)
        view.begin(first.name)
        main, other = self._begin(first), self._begin(second)
        open_ = [main, other]

        def work() -> None:
            try:
                other.outcome = second.run()
            except BaseException as error:
                other.error = error

        thread = threading.Thread(target=work, name=second.name, daemon=True)
        thread.start()
        try:
            main.outcome = first.run()
            self._end(open_.pop(0), view)
            other.began = self.wall_s()
            while thread.is_alive():
                thread.join(0.2)
            if other.error is not None:
                raise other.error
        finally:
            second.stop()
            thread.join()
            if main in open_:
                other.began = self.wall_s()  # its time is the pair's, recorded with `first`
            for attempt in open_:
                self._end(attempt, view)

    def records(self) -> list[dict[str, Any]]:
        """Records of the finished stages, in order."""
        found = [self.kept.read(stage.name) for stage in self.stages]
        return [record for record in found if record is not None and record.get("finished")]

    def so_far(self) -> dict[str, Any]:
        """What the running stage has used, its interrupted attempts included."""
        assert self._attempt is not None
        return self._used(self._attempt)

    def between_s(self) -> float:
        """Seconds of this process so far that belong to no stage: start, checks, the end."""
        inside = self.wall_s() - self._attempt.began if self._attempt else 0.0
        return self.wall_s() - self._in_stages_s - inside

    def _begin(self, stage: Stage) -> _Attempt:
        basis = self.kept.basis(stage)
        earlier = self.kept.begin_anew(stage, basis["hash"])
        if earlier.get("finished"):
            earlier = {}
        # A killed attempt leaves this record: what it was made under, so that no other goes on from it.
        now: dict[str, Any] = {"name": stage.name, "wall_s": 0.0, "peak_mib": 0.0, "counters": {}, **earlier}
        attempts = now.get("attempts", 0) + 1
        self.kept.write(stage, {**now, **basis, "finished": False, "attempts": attempts})
        return _Attempt(stage, basis, earlier, dict(self.counters()), self.wall_s())

    def _used(self, attempt: _Attempt) -> dict[str, Any]:
        earlier, now = attempt.earlier, self.counters()
        before = earlier.get("counters", {})
        return {
            "name": attempt.stage.name,
            "wall_s": round(earlier.get("wall_s", 0.0) + self.wall_s() - attempt.began, 2),
            "peak_mib": round(max(earlier.get("peak_mib", 0.0), self.memory.mib), 1),
            "counters": {
                name: now[name] - attempt.counters.get(name, 0) + before.get(name, 0) for name in now
            },
            "attempts": earlier.get("attempts", 0) + 1,
        }

    def _end(self, attempt: _Attempt, view: View) -> None:
        """Write the record of a stage that is done or was interrupted."""
        outcome, stage = attempt.outcome, attempt.stage
        record: dict[str, Any] = {
            **self._used(attempt),
            **attempt.basis,
            "finished": outcome is not None,
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._in_stages_s += self.wall_s() - attempt.began
        self._attempt = None
        if outcome is not None:
            record |= {"rows_in": outcome.rows_in, "rows_out": outcome.rows_out}
            record["facts"] = plain(outcome.facts)
        self.kept.write(stage, record)
        if outcome is not None:
            self.kept.share(stage, record, self.shared)
            view.end(stage.name, wall_s=record["wall_s"], rows=outcome.rows_out, kept=False)
