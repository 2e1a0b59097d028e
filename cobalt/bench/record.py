"""A bench in one file: what a page was made from, for other machines to make it again or to go on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from cobalt.bench.schedule import name_of
from cobalt.errors import InputError
from cobalt.files import atomic_write

_PARTS = ("rates", "trainings")
_ABOUT = ("bench", "reference")  # written by the bench itself, before anything is trained
_OF_A_MACHINE = ("config", "result", "work", "shared")


def write_record(out: Path, target: Path) -> None:
    """Put all results of the folder `out` into `target`, JSON by gzip; failures are left out."""
    record: dict[str, Any] = {name: json.loads((out / f"{name}.json").read_text()) for name in _ABOUT}
    record["bench"]["methods"] = [name_of(method) for method in record["bench"]["methods"]]
    for part in _PARTS:
        record[part] = {}
        for path in sorted((out / part).glob("*.json")):
            found = json.loads(path.read_text())
            if "error" not in found:
                kept = {key: value for key, value in found.items() if key not in _OF_A_MACHINE}
                record[part][path.stem] = kept | {"method": name_of(found["method"])}
    text = json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n"
    atomic_write(target, gzip.compress(text.encode(), mtime=0))


def take_over(source: Path, out: Path) -> int:
    """Put the results of a record into the folder `out` where it has none; returns how many.

    The bench uses those that answer what it asks for and were trained by the same settings, files and model.
    Raises InputError for a file that is no record.
    """
    try:
        record = json.loads(gzip.decompress(source.read_bytes()))
        parts = [(part, stem, found) for part in _PARTS for stem, found in record[part].items()]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{source}: no record of a bench (`cobalt bench table --write PAGE`): {error}"
        ) from None
    count = 0
    for part, stem, found in parts:
        target = out / part / f"{Path(stem).name}.json"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, json.dumps(found, indent=1) + "\n")
            count += 1
    return count
