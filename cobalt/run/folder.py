"""The output folder of a run: locked while in use, and never shared by two different runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cobalt.errors import InputError, SettingsChanged
from cobalt.evaluation.origin import RUN_FILE
from cobalt.files import atomic_write, plain, writing
from cobalt.manifest import flatten, versions

LOCK_FILE = ".lock"


class Folder:
    """The output folder of one run, locked while in use."""

    def __init__(
        self, path: Path, identity: Mapping[str, Any], about: Mapping[str, Any] | None = None
    ) -> None:
        """`about`: what pages call the run, beside its identity in `run.json`."""
        self.path, self.identity, self.about = path, plain(identity), about or {}

    @contextlib.contextmanager
    def opened(self, *, fresh: bool, changed: bool = False) -> Iterator[None]:
        """Check the folder, take its lock and write `run.json`.

        Raises InputError if the folder cannot be written, is used by another process, or holds files that are
        no run; SettingsChanged if it holds another run. Nothing is changed then. With `fresh` a run that is
        there is deleted first; with `changed` it goes on under the new settings.
        """
        self.check(fresh=fresh, changed=changed)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / LOCK_FILE, "a")  # noqa: SIM115 - held until the block ends
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another run is at work in {self.path}; wait for it or give another OUT"
                raise InputError(message) from None
            self.check(fresh=fresh, changed=changed)
            for each in self.path.iterdir() if fresh else ():
                if each.name != LOCK_FILE:
                    with writing(each):
                        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
            if self._before() != self.identity:
                made = {"schema": 1, "identity": self.identity, "about": self.about, "versions": versions()}
                atomic_write(self.path / RUN_FILE, json.dumps(made, indent=2) + "\n")
            yield

    def check(self, *, fresh: bool, changed: bool = False) -> None:
        """Raises what `opened` does, as far as it can be known without the lock."""
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
        if before is None or fresh or changed:
            return
        old, new = flatten(before), flatten(self.identity)
        differences = [
            f"  {name}: {json.dumps(old.get(name))} -> {json.dumps(new.get(name))}"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
        if differences:
            raise SettingsChanged(
                "\n".join([f"{self.path} holds a run with other settings (before -> now):", *differences])
                + "\nNothing was changed. Start again with FRESH=1 (--fresh), give another OUT (--out), or "
                "go on with --changed (stages that the change does not touch are kept)."
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
