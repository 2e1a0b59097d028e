"""Stages in order, each skipped when its settings and the content of its inputs are what they were.

There is no graph: a stage names files, and content decides. `OUT/stages/NAME.json` says what a stage read,
wrote and used. One stage may name another `beside` which it runs at the same time.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write, file_sha256, plain, settings_hash
from cobalt.run.meter import Meter
from cobalt.run.view import Line, View

STAGES_FOLDER = "stages"


@dataclass
class Outcome:
    """What a stage reports: rows read and written, and any facts worth keeping (plain JSON values)."""

    rows_in: int
    rows_out: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    `run` does the work and can be interrupted anywhere: called again, it continues. `settings` and the
    content of `inputs` (files or folders) determine `outputs`. `expected_s` is a rough guess for the time
    left shown. A stage with `beside` starts together with the stage of that name, just before it in the list,
    and runs in a thread. The other starts when `under_way` says so; `stop` makes `run` end soon; `owned`
    tells by their command lines the child processes that are its own (for its CPU seconds).
    """

    name: str
    title: str
    run: Callable[[], Outcome]
    settings: Mapping[str, Any]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    expected_s: float = 1.0
    beside: str | None = None
    under_way: Callable[[], bool] = lambda: True
    stop: Callable[[], None] = lambda: None
    owned: Callable[[Sequence[str]], bool] = lambda _: False


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
    """Runs stages and keeps their records. `counters`: numbers that only grow, recorded per stage."""

    def __init__(
        self, out: Path, stages: Sequence[Stage], meter: Meter, counters: Callable[[], Mapping[str, float]]
    ) -> None:
        self.out, self.stages, self.meter, self.counters = out, stages, meter, counters
        self._hashes: dict[tuple[str, int, int], str] = {}
        self._attempt: _Attempt | None = None
        self._in_stages_s = 0.0

    def finished(self) -> bool:
        """Whether every stage is done and unchanged."""
        return all(self._kept(stage) for stage in self.stages)

    def run(self, view: View) -> None:
        """Run what is not done. On an interrupt or error the time spent so far is still recorded."""
        for place, stage in enumerate(self.stages):
            record = self._kept(stage)
            if record is not None:
                if view.lines[stage.name].state == "waiting":
                    view.end(stage.name, wall_s=record["wall_s"], rows=record["rows_out"], kept=True)
                continue
            following = self.stages[place + 1] if place + 1 < len(self.stages) else None
            if following is not None and following.beside == stage.name and not self._kept(following):
                self._two(stage, following, view)
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
            if thread.is_alive():
                second.stop()
                thread.join()
            if main in open_:
                other.wall_from = self.meter.usage().wall_s  # its time is the pair's, recorded with `first`
            for attempt in open_:
                self._end(attempt, view)

    def record(self, name: str) -> dict[str, Any] | None:
        """The record of a stage, None if it never ran. A damaged record counts as none: the stage runs again.
        """
        try:
            record = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def records(self) -> list[dict[str, Any]]:
        """Records of the finished stages, in order."""
        found = [self.record(stage.name) for stage in self.stages]
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
        earlier, basis = self.record(stage.name) or {}, self._basis(stage)
        if earlier.get("finished") or earlier.get("hash") != basis["hash"]:
            earlier = {}
        began = self.meter.usage()
        cpu_s = lambda: self.meter.usage().cpu_s - began.cpu_s  # noqa: E731
        return _Attempt(stage, basis, earlier, cpu_s, dict(self.counters()), began.wall_s)

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
            record["outputs"] = {self._name(path): self._content(path) for path in stage.outputs}
        atomic_write(self._path(stage.name), json.dumps(record, indent=2) + "\n")
        if outcome is not None:
            view.end(stage.name, wall_s=record["wall_s"], rows=outcome.rows_out, kept=False)

    def _kept(self, stage: Stage) -> dict[str, Any] | None:
        """The record of a stage that need not run again."""
        record = self.record(stage.name)
        if record is None or not record.get("finished") or not all(path.exists() for path in stage.inputs):
            return None
        if record.get("hash") != self._basis(stage)["hash"]:
            return None
        outputs = record.get("outputs", {})
        for path in stage.outputs:
            if not path.exists() or outputs.get(self._name(path)) != self._content(path):
                return None
        return record

    def _basis(self, stage: Stage) -> dict[str, Any]:
        inputs = {self._name(path): self._content(path) for path in stage.inputs}
        settings = plain(stage.settings)
        return {"hash": settings_hash([settings, inputs]), "settings": settings, "inputs": inputs}

    def _path(self, name: str) -> Path:
        return self.out / STAGES_FOLDER / f"{name}.json"

    def _name(self, path: Path) -> str:
        inside = path.is_relative_to(self.out)
        return path.relative_to(self.out).as_posix() if inside else path.name

    def _content(self, path: Path) -> str:
        """Hash of a file, or of the files of a folder."""
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file())
            return settings_hash([[each.relative_to(path).as_posix(), self._content(each)] for each in files])
        facts = os.stat(path)
        key = (os.fspath(path), facts.st_size, facts.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = file_sha256(path)
        return self._hashes[key]


def lines(stages: Sequence[Stage]) -> list[Line]:
    """What the view shows of stages."""
    return [Line(stage.name, stage.title, stage.expected_s) for stage in stages]
