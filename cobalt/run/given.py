"""Tasks, perturbed tasks and trajectories that a run is given: read as released, checked at the start."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.errors import InputError
from cobalt.rows import Raw, Row, Rows, UniqueIds, open_rows, parsed, require
from cobalt.run.rules import data_at, local_path
from cobalt.run.sections import SPLITS
from cobalt.tasks.released import complete, complete_perturbed, is_perturbed, whole_trajectories
from cobalt.tasks.statements import statement_key, statement_of

if TYPE_CHECKING:
    from cobalt.run.job import Job

_HELD = ("validation", "valid", "val", "dev", "test")
PREFER = {"train": ("train",), "dev": (*_HELD, "train"), "heldout": ("test", "heldout", *_HELD, "train")}
_SHARD = re.compile(r"-\d+-of-\d+(?=\.)")
_OVERLAP = "leave it out of one of them, or let the run leave such tasks out of training: tasks.overlap=drop"


def opened(job: Job, name: str, split: str) -> Rows:
    """A source of the configuration, its `split` where none is named.

    Raises InputError for a folder with several files that are not the shards of one.
    """
    source = open_rows(data_at(name, job.file), PREFER[split])
    if len({_SHARD.sub("", path.name) for path in source.paths}) > 1:
        names = ", ".join(sorted(path.name for path in source.paths)[:6])
        raise InputError(f"{source.name} holds several files for '{split}': name one of them ({names})")
    return source


def ready_tasks(job: Job, source: Rows, limit: int | None, held: Held | None = None) -> Iterator[Row]:
    """The first `limit` tasks of a source, complete; without those that `held` says are left out.

    Raises InputError for a task that cannot be used, a doubled id, and a source without tasks.
    """
    ids, some = UniqueIds(), False
    for where, row in islice(source, limit):
        ids(row, where)
        task = complete(row, where, job.prompts, job.config.tasks.public_tests)
        if held is None or held.admits(task, where):
            some = True
            yield task
    if not some:
        raise InputError(f"{source.name}: there are no tasks")


def perturbed_tasks(job: Job, source: Rows, limit: int | None) -> Iterator[Row] | None:
    """The first `limit` tasks of a source whose tasks are perturbed already, None for plain tasks."""
    first = next((row for _, row in source), None)
    if first is None:
        raise InputError(f"{source.name}: there are no tasks")
    if not is_perturbed(first):
        return None
    ids = UniqueIds()

    def rows() -> Iterator[Row]:
        for where, row in islice(source, limit):
            ids(row, where)
            yield complete_perturbed(row, where, job.prompts)

    return rows()


class Held:
    """Statements of the development and held-out tasks, which must not be trained on."""

    def __init__(self, job: Job, *, local_only: bool = False) -> None:
        tasks = job.config.tasks
        self.drop, self.dropped = tasks.overlap == "drop", 0
        self._places: dict[bytes, str] = {}
        named = [("dev", tasks.dev_file, tasks.dev), ("heldout", tasks.heldout_file, tasks.heldout)]
        if job.config.collect.dev_trajectories is not None:
            named.append(("dev", job.config.collect.dev_trajectories, None))
        for split, name, limit in named:
            if name is not None and not (local_only and local_path(data_at(name, job.file)) is None):
                for where, row in islice(opened(job, name, split), limit):
                    self._places.setdefault(statement_key(_statement(row, where)), where)

    def admits(self, row: Row, where: str) -> bool:
        """Whether a task may be trained on. Raises InputError for one that may not and is not dropped."""
        other = self._places.get(statement_key(_statement(row, where)))
        if other is None:
            return True
        if not self.drop:
            field = "question" if isinstance(row.get("question"), str) else "instruction"
            raise InputError(
                f"{where}: field '{field}': this training task is also in {other}, which is not for "
                f"training; {_OVERLAP}"
            )
        self.dropped += 1
        return False


def _statement(row: Row, where: str) -> str:
    if "question" in row or "instruction" in row or "conversations" not in row:
        return statement_of(row, where)
    try:
        return statement_of({"instruction": row["conversations"][0][1]["content"]}, where)
    except (IndexError, KeyError, TypeError):
        raise InputError(f"{where}: field 'conversations' holds no user message") from None


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
    for name in job.config.given_trajectories.values():
        if name is not None and _missing(job, name) is not None:
            found.append(job.file.parent / name)
        elif name is not None and (path := local_path(data_at(name, job.file))) is not None:
            found.append(path)
    return found


def check_given(job: Job, stages: Collection[str], *, local_only: bool) -> list[str]:
    """Read all that is given ready to these stages; returns notes on what is not there yet.

    `local_only` leaves out the hub, and notes missing trajectories. Raises InputError, with file, line
    and field, for the first row that cannot be used.
    """
    config, notes, held = job.config, list[str](), None
    named = config.given_trajectories if {"contexts", "ptb_contexts"} & {*stages} else {}
    ready = {split: name for split, name in named.items() if name is not None}
    for split, name in list(ready.items()):
        missing = _missing(job, name)
        if missing is not None and not local_only:
            raise InputError(missing)
        if missing is not None:
            notes.append(missing)
            del ready[split]

    def source(name: str | None, split: str) -> Rows | None:
        away = name is None or name in SPLITS or (local_only and local_path(data_at(name, job.file)) is None)
        return None if away or name is None else opened(job, name, split)

    if config.tasks.family == "files" and (ready or "data" in stages):
        held = Held(job, local_only=local_only)
    if "data" in stages:
        tasks, sets = config.tasks, [each for each in config.evaluate.sets if each.kind == "tasks"]
        plain = [(split, getattr(tasks, f"{split}_file"), getattr(tasks, split)) for split in SPLITS]
        for split, name, limit in [*plain, *(("heldout", each.source, each.limit) for each in sets)]:
            if (found := source(name, split)) is not None:
                deque(ready_tasks(job, found, limit, held if split == "train" else None), maxlen=0)
    sets = [each for each in config.evaluate.sets if each.kind == "perturbed" and "data" in stages]
    shown = [(each.source, each.limit) for each in sets]
    if config.perturb is not None and "perturb" in stages:
        shown.append((config.perturb.source, config.perturb.limit))
    for name, limit in shown:
        if (found := source(name, "dev")) is not None:
            deque(perturbed_tasks(job, found, limit) or ready_tasks(job, found, limit), maxlen=0)
    for split, name in ready.items():
        if (found := source(name, split)) is not None:
            _check_trajectories(Ready(found, held if split == "train" else None))
            if split == "train" and "ptb_contexts" in stages:
                deque((require(row, "responses", list, where) for where, row in found), maxlen=0)
    return notes


def _check_trajectories(source: Ready) -> None:
    from cobalt.contexts.trajectories import read_trajectories

    ids = UniqueIds()
    for where, row in source:
        ids(row, where)
        if row.get("all_pass_rates") is None:
            raise InputError(
                f"{where}: field 'all_pass_rates' is missing: eval_multi_turn.py adds it to trajectories"
            )
        read_trajectories(row, where)
    if next(iter(source), None) is None:
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
