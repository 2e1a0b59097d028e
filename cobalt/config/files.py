"""The files and models that a configuration names: where they are, and that they are there."""

from __future__ import annotations

import os
from pathlib import Path

from cobalt.config.config import Config
from cobalt.errors import InputError
from cobalt.hub import is_hub_name


def data_at(name: str, path: Path) -> str:
    """A file or folder of tasks as a path that can be opened from anywhere; a hub name as it is.

    A relative path is meant from the folder of the configuration file `path`. Raises InputError (without the
    place) if there is neither.
    """
    local = path.parent / name
    if local.exists():
        return str(local.resolve())
    head, colon, split = name.rpartition(":")
    if colon and (path.parent / head).exists():
        return f"{(path.parent / head).resolve()}:{split}"
    if is_hub_name(name.partition(":")[0]):
        return name
    raise InputError(f"is {local}, which does not exist")


def local_path(name: str) -> Path | None:
    """The file or folder of a source as `data_at` gives it; None for a name on the hub."""
    return next(
        (Path(each) for each in (name, name.rpartition(":")[0]) if each and os.path.exists(each)), None
    )


def model_at(model: str, path: Path) -> Path | str:
    """The reference model: an absolute folder, or a name on the hub. Raises InputError if it is no model."""
    if is_hub_name(model) and not (path.parent / model).is_dir():
        return model
    folder = (path.parent / model).resolve()
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{path}: 'model.path' is {folder}, which holds no model (no config.json); "
            "scripts/train_tiny_reference.sh makes the tiny reference"
        )
    return folder


def check_files(config: Config, path: Path) -> None:
    """Raises InputError for a model or a file of tasks that is named in the file `path` but not there."""
    if isinstance(model_at(config.model.path, path), str) and config.train.profile == "cpu":
        raise InputError(
            f"{path}: 'model.path' is {config.model.path}, a name on the hub; "
            "'train.profile' cpu needs a folder"
        )
    tasks = config.tasks
    named = {f"tasks.{name}": getattr(tasks, name) for name in ("train_file", "dev_file", "heldout_file")}
    if tasks.family != "stored":  # those: check_stored
        named["tasks.source"] = tasks.source
    named |= {f"evaluate.sets.{n}.source": each.source for n, each in enumerate(config.evaluate.sets)}
    if config.perturb is not None:
        named["perturb.source"] = config.perturb.source
    for where, name in named.items():
        if name not in (None, "dev", "heldout"):
            try:
                data_at(name, path)
            except InputError as error:
                raise InputError(f"{path}: '{where}' {error}") from None


def check_stored(config: Config, path: Path) -> None:
    """Raises InputError for stored programs that are not there, or nothing a run can train on.

    Apart from the other files: a plan needs no data.
    """
    tasks = config.tasks
    if tasks.family != "stored" or tasks.source is None:
        return
    source = path.parent / tasks.source
    where = f"{path}: 'tasks.source' is {source}"
    if not source.exists():
        raise InputError(
            f"{where}, which does not exist: unpack Project CodeNet there (docs/data.md), or name a folder "
            "of its layout or a file of stored groups (--set tasks.source=...)"
        )
    if source.is_dir():
        from cobalt.tasks.codenet import problem_ids

        problem_ids(source)
    elif source.suffix not in (".parquet", ".jsonl"):
        raise InputError(f"{where}: a file of stored groups is .parquet or .jsonl")
    else:
        from cobalt.rows import open_rows
        from cobalt.training.offline_data import COLUMNS

        first = next((row for _, row in open_rows(str(source))), {})
        missing = [name for name in COLUMNS if name not in first]
        if missing:
            raise InputError(f"{where}: no stored groups (no {', '.join(missing)})")
