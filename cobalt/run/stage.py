"""Stages and what is known of them: `OUT/stages/NAME.json` says what a stage read, wrote and used."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write, file_sha256, plain, settings_hash
from cobalt.manifest import flatten

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
    content of `inputs` (files or folders) determine `outputs`. `owns`: further files and folders of the stage
    alone, deleted with the outputs before it runs under other settings or inputs. `common`: whether other
    runs may take the outputs over. `expected_s` is a rough guess for the time left shown. A stage with
    `beside` starts together with the stage of that name, just before it in the list, and runs in a thread.
    The other starts when `under_way` says so; `stop` makes `run` end soon; `owned` tells by their command
    lines the child processes that are its own (for its CPU seconds).
    """

    name: str
    title: str
    run: Callable[[], Outcome]
    settings: Mapping[str, Any]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    owns: Sequence[Path] = ()
    common: bool = True
    expected_s: float = 1.0
    beside: str | None = None
    under_way: Callable[[], bool] = lambda: True
    stop: Callable[[], None] = lambda: None
    owned: Callable[[Sequence[str]], bool] = lambda _: False

    def needs(self, other: Stage) -> bool:
        """Whether an input is an output of `other`, or lies within one."""
        return any(
            each == made or each.is_relative_to(made) or made.is_relative_to(each)
            for each in self.inputs
            for made in other.outputs
        )


class Records:
    """The records of the stages of the run in the folder `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._hashes: dict[tuple[str, int, int], str] = {}

    def read(self, name: str) -> dict[str, Any] | None:
        """The record of a stage, None if it never ran. A damaged one counts as none: the stage runs again."""
        try:
            record = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def write(self, stage: Stage, record: dict[str, Any]) -> None:
        """Put a record in place; a finished one gets the content of the outputs."""
        if record["finished"]:
            record["outputs"] = {self.name(path): self.content(path) for path in stage.outputs}
        atomic_write(self._path(stage.name), json.dumps(record, indent=2) + "\n")

    def kept(self, stage: Stage) -> dict[str, Any] | None:
        """The record of a stage that need not run again."""
        return None if self.why(stage) is not None else self.read(stage.name)

    def why(self, stage: Stage) -> str | None:
        """Why a stage has to run, None if nothing has changed since it did."""
        record = self.read(stage.name)
        if record is None:
            return "has not run yet"
        missing = [self.name(path) for path in stage.inputs if not path.exists()]
        if missing:
            return f"{missing[0]} is missing"
        basis = self.basis(stage)
        if record.get("hash") != basis["hash"]:
            return self._changed(record, basis)
        if not record.get("finished"):
            return "was interrupted"
        outputs = record.get("outputs", {})
        for path in stage.outputs:
            if not path.exists():
                return f"{self.name(path)} is gone"
            if outputs.get(self.name(path)) != self.content(path):
                return f"{self.name(path)} was changed"
        return None

    @staticmethod
    def _changed(record: Mapping[str, Any], basis: Mapping[str, Any]) -> str:
        for what in ("settings", "inputs"):
            old, new = (
                flatten(each.get(what) or {}) if what == "settings" else each.get(what) or {}
                for each in (record, basis)
            )
            names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
            if names and what == "settings":
                return f"{names[0]}: {json.dumps(old.get(names[0]))} -> {json.dumps(new.get(names[0]))}"
            if names:
                return f"{names[0]} has other content"
        return "its settings have changed"

    def basis(self, stage: Stage) -> dict[str, Any]:
        """Settings, content of the inputs, and the hash of both."""
        inputs = {self.name(path): self.content(path) for path in stage.inputs}
        settings = plain(stage.settings)
        return {"hash": settings_hash([settings, inputs]), "settings": settings, "inputs": inputs}

    def clear(self, stage: Stage) -> None:
        """Delete what a stage made under other settings or from other inputs."""
        for path in (*stage.outputs, *stage.owns):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
                continue
            path.unlink(missing_ok=True)
            for beside in path.parent.glob(f"{path.name}.*"):
                if beside.is_file():
                    beside.unlink()

    def name(self, path: Path) -> str:
        """A file as records call it."""
        inside = path.is_relative_to(self.out)
        return path.relative_to(self.out).as_posix() if inside else path.name

    def content(self, path: Path) -> str:
        """Hash of a file, or of the files of a folder."""
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file())
            return settings_hash([[each.relative_to(path).as_posix(), self.content(each)] for each in files])
        facts = os.stat(path)
        key = (os.fspath(path), facts.st_size, facts.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = file_sha256(path)
        return self._hashes[key]

    def _path(self, name: str) -> Path:
        return self.out / STAGES_FOLDER / f"{name}.json"
