"""Trajectories that a run is given, and the check of everything given before the run starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from cobalt.config.load import data_at, local_path
from cobalt.config.sections import SPLITS
from cobalt.contexts.trajectories import read_trajectories
from cobalt.errors import InputError
from cobalt.rows import Raw, Row, Rows, UniqueIds, parsed, require
from cobalt.run.job import Job
from cobalt.run.overlaps import Held, opened
from cobalt.run.task_files import ready_tasks, shown_tasks
from cobalt.tasks.livecodebench import LcbSettings, convert
from cobalt.tasks.own import whole_trajectories
from cobalt.tasks.taco_rows import filter_row


class Ready(Rows):
    """The rows of a source of trajectories, whole; without those that `held` says are left out."""

    def __init__(self, source: Rows, held: Held | None) -> None:
        super().__init__(source.name, source.paths, source.table, source.revision)
        self._held = held

    def raw(self) -> Iterator[tuple[str, Raw]]:
        for where, raw in super().raw():
            row = whole_trajectories(parsed(raw, where), where)
            if self._held is None or self._held.admits(row, where):
                yield where, row


def trajectories(job: Job, split: str) -> Rows | None:
    """The trajectories that the configuration gives for `train` or `dev`, None if the run makes its own."""
    name = job.config.given_trajectories[split]
    if name is None:
        return None
    drop = split == "train" and job.config.tasks.overlap == "drop"
    return Ready(opened(job, name, split), Held(job) if drop else None)


def local_trajectories(job: Job) -> list[Path]:
    """Files and folders of given trajectories, there or not; names on the hub are not among them."""
    found = []
    for name in filter(None, job.config.given_trajectories.values()):
        path = job.file.parent / name if _missing(job, name) else local_path(data_at(name, job.file))
        found += [] if path is None else [path]
    return found


def check_given(job: Job, stages: Collection[str], *, local_only: bool) -> tuple[list[str], list[str]]:
    """Read all that is given ready to these stages, and a row of each source that tasks are made of; returns
    what is not there yet, and what is doubtful.

    `local_only` leaves out the hub, and notes missing trajectories. Raises InputError, with file, line
    and field, for the first row that cannot be used, and for tasks that must not be trained on.
    """
    config, tasks, notes = job.config, job.config.tasks, list[str]()
    ready = {split: name for split, name in config.given_trajectories.items() if name}
    if not {"contexts", "ptb_contexts"} & {*stages}:
        ready = {}
    for split, name in list(ready.items()):
        missing = _missing(job, name)
        if missing and not local_only:
            raise InputError(missing)
        if missing:
            notes.append(missing)
            del ready[split]

    def there(name: str | None, split: str) -> Iterator[Rows]:
        if name is None or name in SPLITS or (local_only and local_path(data_at(name, job.file)) is None):
            return
        yield opened(job, name, split)

    files = tasks.family == "files" and (ready or "data" in stages)
    held = Held(job, local_only=local_only) if files else None
    sets = config.evaluate.sets if "data" in stages else []
    for split in SPLITS if "data" in stages else ():
        for found in there(getattr(tasks, f"{split}_file"), split):
            _read(ready_tasks(job, found, getattr(tasks, split), held if split == "train" else None))
    for each in sets:
        for found in there(each.source, "heldout") if each.kind == "tasks" else ():
            _read(ready_tasks(job, found, each.limit))
        for found in there(each.source, "heldout") if each.kind == "livecodebench" and local_only else ():
            _first(found, lambda row, where: convert(row, where, LcbSettings()))
    if tasks.family == "taco" and "data" in stages and local_only:
        for found in there(tasks.source, "train"):
            _first(found, filter_row)
    shown = [(each.source, each.limit) for each in sets if each.kind == "perturbed"]
    if config.perturb is not None and "perturb" in stages:
        shown.append((config.perturb.source, config.perturb.limit))
    for name, limit in shown:
        for found in there(name, "dev"):
            _read(shown_tasks(job, found, limit)[1])
    for split, name in ready.items():
        for found in there(name, split):
            _check_trajectories(Ready(found, held if split == "train" else None))
            if split == "train" and "ptb_contexts" in stages:
                _read(require(row, "responses", list, where) for where, row in found)
    if held is not None:
        held.refuse()
    return notes, [] if held is None else held.doubts()


def _first(found: Rows, check: Callable[[Row, str], object]) -> None:
    for where, row in islice(found, 1):
        check(row, where)
        return
    raise InputError(f"{found.name}: there are no rows")


def _read(found: Iterator[object]) -> None:
    deque(found, maxlen=0)


def _check_trajectories(source: Ready) -> None:
    ids, some = UniqueIds(), False
    for where, row in source:
        ids(row, where)
        if row.get("all_pass_rates") is None:
            raise InputError(
                f"{where}: field 'all_pass_rates' is missing: eval_multi_turn.py adds it to trajectories"
            )
        read_trajectories(row, where)
        some = True
    if not some:
        raise InputError(f"{source.name}: there are no trajectories")


def _missing(job: Job, name: str) -> str | None:
    try:
        data_at(name, job.file)
    except InputError as error:
        return (
            f"{job.file}: the file or folder of trajectories {error}: download the released ones there, name "
            "others (--set collect.trajectories=FOLDER), or collect (--set collect.trajectories=null)"
        )
    return None
