"""Stages in order, each skipped when its settings and the content of its inputs are what they were.

There is no graph: a stage names files, and content decides. `OUT/run.json` says what the run is
(configuration, seeds, model, prompts); another run in the same folder is refused. `OUT/stages/NAME.json` says
what a stage read, wrote and used.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError, SettingsChanged
from cobalt.files import atomic_write, file_sha256, plain, settings_hash, writing
from cobalt.manifest import flatten, versions
from cobalt.run.meter import Meter, Usage
from cobalt.run.view import Line, View

RUN_FILE, STAGES_FOLDER, LOCK_FILE = "run.json", "stages", ".lock"


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
    left shown.
    """

    name: str
    title: str
    run: Callable[[], Outcome]
    settings: Mapping[str, Any]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    expected_s: float = 1.0


class Folder:
    """The output folder of one run, locked while in use."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, plain(identity)

    @contextlib.contextmanager
    def opened(self, *, fresh: bool) -> Iterator[None]:
        """Check the folder, take its lock and write `run.json`.

        Raises InputError if the folder cannot be written, is used by another process, or holds files that are
        no run; SettingsChanged if it holds another run. Nothing is changed then. With `fresh` a run that is
        there is deleted first.
        """
        self._check(fresh)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / LOCK_FILE, "a")  # noqa: SIM115 - held until the block ends
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another run is at work in {self.path}; wait for it or give another OUT"
                raise InputError(message) from None
            self._check(fresh)
            if fresh:
                self._clear()
            if self._before() is None:
                made = {"schema": 1, "identity": self.identity, "versions": versions()}
                atomic_write(self.path / RUN_FILE, json.dumps(made, indent=2) + "\n")
            yield

    def _check(self, fresh: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; OUT must be a folder")
        if not self.path.is_dir():
            return
        others = [each.name for each in self.path.iterdir() if each.name != LOCK_FILE]
        before = self._before()
        if before is None and others:
            raise InputError(
                f"{self.path} holds files ({', '.join(sorted(others)[:3])}, ...) but no run of ours "
                f"(no {RUN_FILE}); give another OUT"
            )
        if before is None or fresh:
            return
        old, new = flatten(before), flatten(self.identity)
        changed = [
            f"  {name}: {_show(old, name)} -> {_show(new, name)}"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
        if changed:
            raise SettingsChanged(
                "\n".join([f"{self.path} holds a run with other settings (before -> now):", *changed])
                + "\nNothing was changed. Start again with FRESH=1 (--fresh) or give another OUT (--out)."
            )

    def _before(self) -> dict[str, Any] | None:
        path = self.path / RUN_FILE
        try:
            before = json.loads(path.read_text(encoding="utf-8"))["identity"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not readable as a run's record ({error}); give another OUT") from None
        return before if isinstance(before, dict) else None

    def _clear(self) -> None:
        """Delete a run. Only called on a folder that holds one."""
        for each in self.path.iterdir():
            if each.name == LOCK_FILE:
                continue
            with writing(each):
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink()


@dataclass(frozen=True)
class _Attempt:
    """A stage at work: the record of its interrupted attempts, and where meter and counters stood."""

    name: str
    earlier: Mapping[str, Any]
    began: Usage
    counters: Mapping[str, float]


class Runner:
    """Runs stages and keeps their records."""

    def __init__(
        self, out: Path, stages: Sequence[Stage], meter: Meter, counters: Callable[[], Mapping[str, float]]
    ) -> None:
        self.out, self.stages, self.meter, self.counters = out, stages, meter, counters
        self._attempt: _Attempt | None = None
        self._in_stages_s = 0.0
        self._hashes: dict[tuple[str, int, int], str] = {}

    def finished(self) -> bool:
        """Whether every stage is done and unchanged."""
        return all(self._kept(stage) for stage in self.stages)

    def run(self, view: View) -> None:
        """Run what is not done. On an interrupt or error the time spent so far is still recorded."""
        for stage in self.stages:
            record = self._kept(stage)
            if record is not None:
                view.end(stage.name, wall_s=record["wall_s"], rows=record["rows_out"], kept=True)
                continue
            view.begin(stage.name)
            earlier = self.record(stage.name) or {}
            basis = self._basis(stage)
            if earlier.get("finished") or earlier.get("hash") != basis["hash"]:
                earlier = {}
            self._attempt = _Attempt(stage.name, earlier, self.meter.usage(), dict(self.counters()))
            try:
                outcome = stage.run()
            except BaseException:
                self._write(stage, basis, None)
                raise
            record = self._write(stage, basis, outcome)
            view.end(stage.name, wall_s=record["wall_s"], rows=outcome.rows_out, kept=False)

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

    def _kept(self, stage: Stage) -> dict[str, Any] | None:
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

    def so_far(self) -> dict[str, Any]:
        """What the running stage has used, its interrupted attempts included."""
        attempt = self._attempt
        assert attempt is not None
        usage, earlier, now = self.meter.usage(), attempt.earlier, self.counters()
        before = earlier.get("counters", {})
        return {
            "name": attempt.name,
            "wall_s": round(earlier.get("wall_s", 0.0) + usage.wall_s - attempt.began.wall_s, 2),
            "cpu_s": round(earlier.get("cpu_s", 0.0) + usage.cpu_s - attempt.began.cpu_s, 2),
            "peak_mib": round(max(earlier.get("peak_mib", 0.0), self.meter.peak_mib), 1),
            "counters": {
                name: now[name] - attempt.counters.get(name, 0) + before.get(name, 0) for name in now
            },
            "attempts": earlier.get("attempts", 0) + 1,
        }

    def between_s(self) -> float:
        """Seconds of this process so far that belong to no stage: start, checks, the end."""
        running, wall_s = self._attempt, self.meter.usage().wall_s
        return wall_s - self._in_stages_s - (wall_s - running.began.wall_s if running else 0.0)

    def _write(self, stage: Stage, basis: Mapping[str, Any], outcome: Outcome | None) -> dict[str, Any]:
        attempt = self._attempt
        assert attempt is not None
        record: dict[str, Any] = {
            **self.so_far(),
            **basis,
            "finished": outcome is not None,
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._in_stages_s += self.meter.usage().wall_s - attempt.began.wall_s
        self._attempt = None
        if outcome is not None:
            record |= {"rows_in": outcome.rows_in, "rows_out": outcome.rows_out}
            record["facts"] = plain(outcome.facts)
            record["outputs"] = {self._name(path): self._content(path) for path in stage.outputs}
        atomic_write(self._path(stage.name), json.dumps(record, indent=2) + "\n")
        return record

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


def _show(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "(absent)"
