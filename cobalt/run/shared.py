"""Outputs of stages that several runs have in common, kept by what determines them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write, file_sha256, settings_hash

_RECORD = "record.json"


def content(path: Path) -> str:
    """Hash of a file, or of the files of a folder."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return settings_hash([[each.relative_to(path).as_posix(), content(each)] for each in files])
    return file_sha256(path)


class Shared:
    """A folder of outputs by kind and key (a hash of all that determines them); None: nothing is shared.

    Files are linked where the file system allows, else copied. What was changed since is not taken.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def has(self, kind: str, key: str) -> bool:
        """Whether there are such outputs."""
        return self.folder is not None and (self.folder / kind / key / _RECORD).exists()

    def take(self, kind: str, key: str, out: Path) -> dict[str, Any] | None:
        """Put the outputs into the run's folder `out` and return their record; None if there are none."""
        if self.folder is None:
            return None
        place = self.folder / kind / key
        try:
            record = json.loads((place / _RECORD).read_text(encoding="utf-8"))
            for name, known in record["files"].items():
                if content(place / "files" / name) != known:
                    return None
        except (OSError, ValueError, KeyError):
            return None
        for name in record["files"]:
            _link(place / "files" / name, out / name)
        facts: dict[str, Any] = record["facts"]
        return facts

    def give(self, kind: str, key: str, out: Path, paths: Sequence[Path], facts: Mapping[str, Any]) -> None:
        """Keep files and folders of the run in `out`, with what stands beside each file (`FILE.*`)."""
        if self.folder is None:
            return
        place = self.folder / kind / key
        if (place / _RECORD).exists():
            return
        files = [each for path in paths for each in _with_sidecars(path)]
        made = {}
        for each in files:
            name = each.relative_to(out).as_posix()
            _link(each, place / "files" / name)
            made[name] = content(each)
        atomic_write(place / _RECORD, json.dumps({"files": made, "facts": facts}, indent=1) + "\n")


def _with_sidecars(path: Path) -> list[Path]:
    if path.is_dir():
        return [path]
    beside = path.parent.glob(f"{path.name}.*")
    return [path, *sorted(each for each in beside if not each.name.endswith((".tmp", ".journal")))]


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(source, part, copy_function=_link_or_copy)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        return
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    _link_or_copy(os.fspath(source), os.fspath(part))
    part.replace(target)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
