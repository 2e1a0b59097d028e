"""Stages in order, each skipped when its settings and the content of its inputs are what they were.

There is no graph: a stage names files, and content decides. One stage may name another `beside` which it runs
at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.run.meter import Meter
from cobalt.run.shared import Shared
from cobalt.run.stage import Outcome, Records, Stage
from cobalt.run.view import Line, View

__all__ = ["Outcome", "Runner", "Stage", "lines"]


@dataclass
class _Attempt:
    """A stage at work: the record of its interrupted attempts, and what it has used since it began."""

    stage: Stage
    basis: Mapping[str, Any]
    earlier: Mapping[str, Any]
    cpu_s: Callable[[], float]
    counters: Mapping[str, float]
    wall_from: float
    outcome: Outcome | None = None
    error: BaseException | None = None


class Runner:
    """Runs stages and keeps their records. `counters`: numbers that only grow, recorded per stage. `shared`:
    what other runs have made already.
    """

    def __init__(
        self,
        out: Path,
        stages: Sequence[Stage],
        meter: Meter,
        counters: Callable[[], Mapping[str, float]],
        shared: Shared | None = None,
    ) -> None:
        self.out, self.stages, self.meter, self.counters = out, stages, meter, counters
        self.kept = Records(out)
        self._shared = shared or Shared(None)
        self._attempt: _Attempt | None = None
        self._in_stages_s = 0.0

    def finished(self, only: Collection[str] | None = None) -> bool:
        """Whether every stage (of those named) is done and unchanged."""
        return all(self.kept.why(stage) is None for stage in self._chosen(only))

    def run(self, view: View, only: Collection[str] | None = None) -> None:
        """Run what is not done (of the stages named). On an interrupt or error the time spent so far is still
        recorded.
        """
        stages = self._chosen(only)
        for place, stage in enumerate(stages):
            record = self._known(stage)
            if record is not None:
                if view.lines[stage.name].state == "waiting":
                    view.end(stage.name, wall_s=record["wall_s"], rows=record["rows_out"], kept=True)
                continue
            following = stages[place + 1] if place + 1 < len(stages) else None
            if following is not None and following.beside == stage.name and self._known(following) is None:
                self._two(stage, following, view)
            else:
                self._one(stage, view)

    def _chosen(self, only: Collection[str] | None) -> list[Stage]:
        return [stage for stage in self.stages if only is None or stage.name in only]

    def _known(self, stage: Stage) -> dict[str, Any] | None:
        """The record of a stage that need not run: it has, here or in a run that shares its outputs."""
        record = self.kept.kept(stage)
        if record is not None or not stage.common or not all(path.exists() for path in stage.inputs):
            return record
        basis = self.kept.basis(stage)
        if not self._shared.has(stage.name, basis["hash"]):
            return None
        self._begin_anew(stage, basis["hash"])
        facts = self._shared.take(stage.name, basis["hash"], self.out)
        if facts is None:
            return None
        self.kept.write(stage, {"attempts": 0, **facts, **basis, "finished": True, "shared": True})
        return self.kept.kept(stage)

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
        before = self.meter.usage()
        main, other = self._begin(first), self._begin(second)
        other.cpu_s = lambda: self.meter.used_by(second.owned)
        main.cpu_s = lambda: self.meter.usage().cpu_s - before.cpu_s - other.cpu_s()
        open_ = [main, other]

        def work() -> None:
            try:
                other.outcome = second.run()
            except BaseException as error:
                other.error = error

        thread = threading.Thread(target=work, name=second.name, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and not second.under_way():
                thread.join(0.1)
            main.outcome = first.run()
            self._end(open_.pop(0), view)
            other.wall_from = self.meter.usage().wall_s
            while thread.is_alive():
                thread.join(0.2)
            if other.error is not None:
                raise other.error
        finally:
            while thread.is_alive():  # what it stops may only be about to start
                second.stop()
                thread.join(0.5)
            if main in open_:
                other.wall_from = self.meter.usage().wall_s  # its time is the pair's, recorded with `first`
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
        wall_s = self.meter.usage().wall_s
        inside = wall_s - self._attempt.wall_from if self._attempt else 0.0
        return wall_s - self._in_stages_s - inside

    def _begin(self, stage: Stage) -> _Attempt:
        basis = self.kept.basis(stage)
        earlier = self._begin_anew(stage, basis["hash"])
        if earlier.get("finished"):
            earlier = {}
        # A killed attempt leaves this record: what it was made under, so that no other goes on from it.
        unused = {"wall_s": 0.0, "cpu_s": 0.0, "peak_mib": 0.0, "counters": {}}
        now: dict[str, Any] = {"name": stage.name, **unused, **earlier}
        attempts = now.get("attempts", 0) + 1
        self.kept.write(stage, {**now, **basis, "finished": False, "attempts": attempts})
        began = self.meter.usage()
        cpu_s = lambda: self.meter.usage().cpu_s - began.cpu_s  # noqa: E731
        return _Attempt(stage, basis, earlier, cpu_s, dict(self.counters()), began.wall_s)

    def _begin_anew(self, stage: Stage, basis_hash: str) -> dict[str, Any]:
        """The record of an earlier attempt; of one under other settings or inputs all is deleted."""
        earlier = self.kept.read(stage.name) or {}
        if earlier and earlier.get("hash") != basis_hash:
            self.kept.clear(stage)
            return {}
        return earlier

    def _used(self, attempt: _Attempt) -> dict[str, Any]:
        earlier, now = attempt.earlier, self.counters()
        before = earlier.get("counters", {})
        return {
            "name": attempt.stage.name,
            "wall_s": round(earlier.get("wall_s", 0.0) + self.meter.usage().wall_s - attempt.wall_from, 2),
            "cpu_s": round(earlier.get("cpu_s", 0.0) + attempt.cpu_s(), 2),
            "peak_mib": round(max(earlier.get("peak_mib", 0.0), self.meter.peak_mib), 1),
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
        self._in_stages_s += self.meter.usage().wall_s - attempt.wall_from
        self._attempt = None
        if outcome is not None:
            record |= {"rows_in": outcome.rows_in, "rows_out": outcome.rows_out}
            record["facts"] = plain(outcome.facts)
        self.kept.write(stage, record)
        if outcome is not None:
            if stage.common:
                known = ("name", "wall_s", "cpu_s", "peak_mib", "counters", "rows_in", "rows_out", "facts")
                facts = {name: record[name] for name in known}
                self._shared.give(stage.name, record["hash"], self.out, stage.outputs, facts)
            view.end(stage.name, wall_s=record["wall_s"], rows=outcome.rows_out, kept=False)


def lines(stages: Sequence[Stage], only: Collection[str] | None = None) -> list[Line]:
    """What the view shows of stages (of those named)."""
    chosen = [stage for stage in stages if only is None or stage.name in only]
    return [Line(stage.name, stage.title, stage.expected_s) for stage in chosen]
