"""Sources of tasks, and which tasks are in two of them: none that is held out is trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from cobalt.config.load import data_at, local_path
from cobalt.config.sections import SPLITS
from cobalt.errors import InputError
from cobalt.rows import Row, Rows, open_rows, read_rows
from cobalt.run.job import Job
from cobalt.tasks.own import statement_key, statement_of

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


class Held:
    """What must not be trained on: the statements of development, held-out and evaluation tasks, and of
    development trajectories. Asked about training tasks, it keeps what they share; `refuse` says it.
    """

    def __init__(self, job: Job, *, local_only: bool = False) -> None:
        tasks, perturb = job.config.tasks, job.config.perturb
        self.drop, self.dropped = tasks.overlap == "drop", 0
        self._asked, self._shared, self._same_ids = 0, list[str](), list[str]()
        self._places: dict[bytes, tuple[str, str]] = {}
        self._ids: dict[object, str] = {}
        self._again: dict[str, list[str]] = {}
        named = [("dev", tasks.dev_file, tasks.dev), ("heldout", tasks.heldout_file, tasks.heldout)]
        named.append(("dev", job.config.collect.dev_trajectories, None))
        sets = [(each.name, each.source, each.limit) for each in job.config.evaluate.sets]
        sets += [] if perturb is None else [("perturb", perturb.source, perturb.limit)]
        for split, name, limit in [*named, *(each for each in sets if each[1] not in SPLITS)]:
            if name is not None and not (local_only and local_path(data_at(name, job.file)) is None):
                for where, row in islice(opened(job, name, split if split in PREFER else "heldout"), limit):
                    self._add(split, row, where)

    def _add(self, split: str, row: Row, where: str) -> None:
        key = statement_key(_statement(row, where))
        before, other = self._places.setdefault(key, (split, where))
        if before == "dev" and split not in ("dev", "perturb"):
            self._again.setdefault(split, []).append(f"{where} = {other}")
        if row.get("id") is not None:
            self._ids.setdefault(row["id"], where)

    def admits(self, row: Row, where: str) -> bool:
        """Whether a task may be trained on; what is not dropped may, until `refuse`."""
        self._asked += 1
        _, other = self._places.get(statement_key(_statement(row, where)), (None, None))
        if other is None:
            if row.get("id") in self._ids:
                self._same_ids.append(f"{where} and {self._ids[row['id']]}: {row['id']!r}")
            return True
        field = "question" if isinstance(row.get("question"), str) else "instruction"
        self._shared.append(f"{where}: field '{field}': this training task is also in {other}")
        self.dropped += self.drop
        return not self.drop

    def refuse(self) -> None:
        """Raises InputError, with the first and how many, for tasks that are shared and not dropped."""
        if self._shared and not self.drop:
            raise InputError(
                f"{self._shared[0]}, which is not for training; {len(self._shared)} of {self._asked} "
                f"training tasks are shared so; {_OVERLAP}"
            )

    def doubts(self) -> list[str]:
        """What a run may do, and its reader should know."""
        found = [
            f"{len(pairs)} tasks of evaluation set {name} are development tasks, too (such as {pairs[0]})"
            for name, pairs in self._again.items()
        ]
        if self._same_ids:
            found.append(
                f"{len(self._same_ids)} training tasks have the id of another task that is not for training, "
                f"with another statement (for instance {self._same_ids[0]})"
            )
        return found


def _statement(row: Row, where: str) -> str:
    if "question" in row or "instruction" in row or "conversations" not in row:
        return statement_of(row, where)
    try:
        return statement_of({"instruction": row["conversations"][0][1]["content"]}, where)
    except (IndexError, KeyError, TypeError):
        raise InputError(f"{where}: field 'conversations' holds no user message") from None


def shared(files: Iterable[Path]) -> list[str]:
    """Evaluation sets, and the development tasks, whose statements are among the training tasks as made."""
    named = {path.stem: path for path in files}
    train, found = named.pop("train", None), list[str]()
    if train is None:
        return []
    places = {statement_key(_statement(row, where)): where for where, row in read_rows(train)}
    for name, path in named.items():
        asked = [(where, places.get(statement_key(_statement(row, where)))) for where, row in read_rows(path)]
        same = [f"{where} = {other}" for where, other in asked if other is not None]
        if same:
            found.append(
                f"{len(same)} of {len(asked)} tasks of {name} are trained on (for instance {same[0]})"
            )
    return found
