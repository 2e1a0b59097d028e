"""Stages and what is known of them: a stage whose settings and inputs are as they were is not run again.

`OUT/stages/NAME.json` says what a stage read, wrote and used. A `Shared` folder keeps outputs for other runs.
"""

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

_TAKEN_OVER = ("name", "wall_s", "peak_mib", "counters", "rows_in", "rows_out", "facts")


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
    runs may take the outputs over. A stage with `beside` starts together with the stage of that name, just
    before it in the list, and runs in a thread; `stop` makes its `run` end soon, even if it has not begun.
    """

    name: str
    title: str
    run: Callable[[], Outcome]
    settings: Mapping[str, Any]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    owns: Sequence[Path] = ()
    common: bool = True
    beside: str | None = None
    stop: Callable[[], None] = lambda: None

    def needs(self, other: Stage) -> bool:
        """Whether an input is an output of `other`, or lies within one."""
        return any(
            each == made or each.is_relative_to(made) or made.is_relative_to(each)
            for each in self.inputs
            for made in other.outputs
        )


def content(path: Path, of_file: Callable[[Path], str] = file_sha256) -> str:
    """Hash of a file, or of the files of a folder."""
    if not path.is_dir():
        return of_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return settings_hash([[each.relative_to(path).as_posix(), of_file(each)] for each in files])


class Shared:
    """A folder of outputs by kind and key (a hash of all that determines them); None: nothing is shared.

    Files are linked where the file system allows, else copied. What was changed since is not taken.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def has(self, kind: str, key: str) -> bool:
        """Whether there are such outputs."""
        return self.folder is not None and (self.folder / kind / key / "record.json").exists()

    def take(self, kind: str, key: str, out: Path) -> dict[str, Any] | None:
        """Put the outputs into the run's folder `out` and return their record; None if there are none."""
        if self.folder is None:
            return None
        place = self.folder / kind / key
        try:
            record = json.loads((place / "record.json").read_text(encoding="utf-8"))
            if any(content(place / "files" / name) != known for name, known in record["files"].items()):
                return None
        except (OSError, ValueError, KeyError):
            return None
        for name in record["files"]:
            _link(place / "files" / name, out / name)
        facts: dict[str, Any] = record["facts"]
        return facts

    def give(self, kind: str, key: str, out: Path, paths: Sequence[Path], facts: Mapping[str, Any]) -> None:
        """Keep files and folders of the run in `out`, with what stands beside each file (`FILE.*`)."""
        if self.folder is None or self.has(kind, key):
            return
        place, made = self.folder / kind / key, {}
        for path in paths:
            for each in [path, *sorted(_beside(path))]:
                if not each.name.endswith((".tmp", ".journal")):
                    name = each.relative_to(out).as_posix()
                    _link(each, place / "files" / name)
                    made[name] = content(each)
        atomic_write(place / "record.json", json.dumps({"files": made, "facts": facts}, indent=1) + "\n")


def _beside(path: Path) -> list[Path]:
    return [] if path.is_dir() else [each for each in path.parent.glob(f"{path.name}.*") if each.is_file()]


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    _delete(part)
    if source.is_dir():
        shutil.copytree(source, part, copy_function=_link_or_copy)
        _delete(target)
    else:
        _link_or_copy(os.fspath(source), os.fspath(part))
    part.replace(target)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
            record["outputs"] = {self._name(path): self._content(path) for path in stage.outputs}
        atomic_write(self._path(stage.name), json.dumps(record, indent=2) + "\n")

    def known(self, stage: Stage, shared: Shared) -> dict[str, Any] | None:
        """The record of a stage that need not run: it has, here or in a run that shares its outputs."""
        if self.why(stage) is None:
            return self.read(stage.name)
        if not self.has_shared(stage, shared):
            return None
        basis = self.basis(stage)
        self.begin_anew(stage, basis["hash"])
        facts = shared.take(stage.name, basis["hash"], self.out)
        if facts is not None:
            self.write(stage, {"attempts": 0, **facts, **basis, "finished": True, "shared": True})
        return self.read(stage.name) if self.why(stage) is None else None

    def has_shared(self, stage: Stage, shared: Shared) -> bool:
        """Whether another run has left the outputs of a stage."""
        ready = stage.common and shared.folder is not None and all(path.exists() for path in stage.inputs)
        return ready and shared.has(stage.name, self.basis(stage)["hash"])

    def share(self, stage: Stage, record: Mapping[str, Any], shared: Shared) -> None:
        """Leave the outputs of a finished stage to other runs."""
        if stage.common:
            facts = {name: record[name] for name in _TAKEN_OVER}
            shared.give(stage.name, record["hash"], self.out, stage.outputs, facts)

    def why(self, stage: Stage) -> str | None:
        """Why a stage has to run, None if nothing has changed since it did."""
        record = self.read(stage.name)
        if record is None:
            return "has not run yet"
        missing = [self._name(path) for path in stage.inputs if not path.exists()]
        if missing:
            return f"{missing[0]} is missing"
        basis = self.basis(stage)
        if record.get("hash") != basis["hash"]:
            return _changed(record, basis)
        if not record.get("finished"):
            return "was interrupted"
        outputs = record.get("outputs", {})
        for path in stage.outputs:
            if not path.exists():
                return f"{self._name(path)} is gone"
            if outputs.get(self._name(path)) != self._content(path):
                return f"{self._name(path)} was changed"
        return None

    def basis(self, stage: Stage) -> dict[str, Any]:
        """Settings, content of the inputs, and the hash of both."""
        inputs = {self._name(path): self._content(path) for path in stage.inputs}
        settings = plain(stage.settings)
        return {"hash": settings_hash([settings, inputs]), "settings": settings, "inputs": inputs}

    def begin_anew(self, stage: Stage, basis_hash: str) -> dict[str, Any]:
        """The record of an earlier attempt; what one under other settings or inputs made is deleted."""
        earlier = self.read(stage.name) or {}
        if not earlier or earlier.get("hash") == basis_hash:
            return earlier
        for path in (*stage.outputs, *stage.owns):
            for each in [*_beside(path), path]:
                _delete(each)
        return {}

    def _name(self, path: Path) -> str:
        """A file as records call it."""
        return path.relative_to(self.out).as_posix() if path.is_relative_to(self.out) else path.name

    def _content(self, path: Path) -> str:
        return content(path, self._file_hash)

    def _file_hash(self, path: Path) -> str:
        """Remembered while size and time stay."""
        facts = path.stat()
        key = (os.fspath(path), facts.st_size, facts.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = file_sha256(path)
        return self._hashes[key]

    def _path(self, name: str) -> Path:
        return self.out / "stages" / f"{name}.json"


def _changed(record: Mapping[str, Any], basis: Mapping[str, Any]) -> str:
    """What differs between a record and what would be done now."""
    old, new = (flatten(each.get("settings") or {}) for each in (record, basis))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            return f"{name}: {json.dumps(old.get(name))} -> {json.dumps(new.get(name))}"
    old, new = (each.get("inputs") or {} for each in (record, basis))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            return f"{name} has other content"
    return "its settings have changed"
