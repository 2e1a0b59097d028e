"""The tasks of a run: drawn, read, perturbed; none that is held out is trained on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from cobalt.config.evaluation_sections import EvaluationSet
from cobalt.config.load import data_at, local_path
from cobalt.config.sections import SPLITS
from cobalt.errors import InputError
from cobalt.manifest import manifest_path
from cobalt.output import write_jsonl
from cobalt.rows import Row, Rows, UniqueIds, open_rows, read_rows
from cobalt.run.job import Job
from cobalt.run.overlaps import Held, opened, shared
from cobalt.tasks.own import complete, complete_perturbed, is_perturbed


def set_path(job: Job, each: EvaluationSet) -> Path:
    """The tasks of an evaluation set: those of a split as they are, or a file of their own."""
    return job.path("tasks", f"{each.source if is_split(each) else each.name}.jsonl")


def is_split(each: EvaluationSet) -> bool:
    """Whether a set is a split of the run's tasks as it is."""
    return each.kind == "tasks" and each.limit is None and each.source in SPLITS


def task_files(job: Job) -> list[Path]:
    """All files of tasks that the data stage makes."""
    splits = [job.path("tasks", f"{split}.jsonl") for split in job.config.tasks.splits]
    return list(dict.fromkeys([*splits, *(set_path(job, each) for each in job.config.evaluate.sets)]))


def local_sources(job: Job) -> list[Path]:
    """Files and folders that tasks are read from; names on the hub are not among them."""
    return [path for path in dict.fromkeys(sources(job).values()) if path is not None]


def sources(job: Job) -> dict[str, Path | None]:
    """What tasks are read from, by name: the file or folder, None on the hub."""
    tasks = job.config.tasks
    named = [] if tasks.family == "stored" else [tasks.source]
    named += [tasks.train_file, tasks.dev_file, tasks.heldout_file]
    named += [each.source for each in job.config.evaluate.sets if each.source not in SPLITS]
    return {name: local_path(data_at(name, job.file)) for name in named if name is not None}


def known_tasks(job: Job) -> list[Row] | None:
    """The training tasks as far as they are here already, of a finished stage or of their source; None where
    they are made, or come from the hub.
    """
    tasks, made = job.config.tasks, job.path("tasks", "train.jsonl")
    if tasks.family == "tiny":
        from cobalt.tasks import tiny

        family = tiny.FAMILIES[tasks.version]
        drawn = {
            split: list(family.draw_tasks(split, getattr(tasks, split), job.task_seed)) for split in SPLITS
        }
        return drawn["train"]
    if tasks.train_file is not None and local_path(data_at(tasks.train_file, job.file)) is not None:
        held = Held(job, local_only=True) if tasks.overlap == "drop" else None
        return list(ready_tasks(job, opened(job, tasks.train_file, "train"), tasks.train, held))
    return [row for _, row in read_rows(made)] if made.is_file() else None


def stored_programs(job: Job) -> Path:
    """The folder or file of stored programs that the run trains on."""
    source = job.config.tasks.source
    return job.path("tasks", "stored") if source is None else (job.file.parent / source).resolve()


def rows(path: Path) -> int:
    """Rows of a JSONL file."""
    return sum(1 for _ in read_rows(path))


def ready_tasks(
    job: Job, source: Rows, limit: int | None, held: Held | None = None, *, perturbed: bool = False
) -> Iterator[Row]:
    """The first `limit` tasks of a source (`perturbed`: already), complete, that `held` admits.

    Raises InputError for a task that cannot be used, a doubled id, and a source without tasks.
    """
    ids, some = UniqueIds(), False
    for where, row in islice(source, limit):
        ids(row, where)
        if perturbed:
            task = complete_perturbed(row, where, job.prompts)
        else:
            task = complete(row, where, job.prompts, job.config.tasks.public_tests)
        if held is None or held.admits(task, where):
            some = True
            yield task
    if not some:
        left = " left: all of them are held out, too ('tasks.overlap' drop)" if held and held.dropped else ""
        raise InputError(f"{source.name}: there are no tasks{left}")


def shown_tasks(job: Job, source: Rows, limit: int | None) -> tuple[bool, Iterator[Row]]:
    """Whether the tasks of a source are perturbed already, and the first `limit` of them."""
    already = any(is_perturbed(row) for _, row in islice(source, 1))
    return already, ready_tasks(job, source, limit, perturbed=already)


def write_tasks(job: Job) -> tuple[dict[str, int], int, list[str]]:
    """Make every file of `task_files`; returns the number of tasks by file, and of training tasks that were
    left out because their statements are also among the others; and which files still share some.
    """
    tasks, left_out = job.config.tasks, 0
    if tasks.family == "tiny":
        _tiny(job)
    elif tasks.family == "taco":
        _taco(job)
    else:
        held = Held(job)
        for split in SPLITS:
            name, limit = getattr(tasks, f"{split}_file"), getattr(tasks, split)
            if name is not None:
                found = ready_tasks(job, opened(job, name, split), limit, held if split == "train" else None)
                write_jsonl(job.path("tasks", f"{split}.jsonl"), found)
            if split == "train":
                held.refuse()
        left_out = held.dropped
    for each in job.config.evaluate.sets:
        if not is_split(each):
            _evaluation_set(job, each, set_path(job, each))
    return {path.stem: rows(path) for path in task_files(job)}, left_out, shared(task_files(job))


def _tiny(job: Job) -> None:
    from cobalt.tasks import tiny
    from cobalt.tasks.submissions import write_tree

    tasks = job.config.tasks
    assert tasks.train and tasks.dev and tasks.heldout
    sizes = {"train": tasks.train, "dev": tasks.dev, "heldout": tasks.heldout}
    tiny.FAMILIES[tasks.version].write_splits(job.path("tasks"), seed=job.task_seed, **sizes)
    if tasks.submissions is not None:
        target = stored_programs(job)
        write_tree(target, tasks=tasks.train, submissions=tasks.submissions, seed=job.task_seed)


def _taco(job: Job) -> None:
    from cobalt.tasks.taco import TacoSettings, build_taco, split_path

    tasks = job.config.tasks
    assert tasks.source is not None
    settings = TacoSettings(
        seed=tasks.split_seed, max_solutions=tasks.max_solutions, require_verified=tasks.require_verified,
        num_public=tasks.public_tests, dev_size=250 if tasks.dev is None else tasks.dev,
        functional=tasks.functional, prompts=job.prompts,
    )  # fmt: skip
    whole = job.path("tasks", "taco", "all.jsonl")
    source = open_rows(data_at(tasks.source, job.file))
    build_taco(source, whole, settings, evaluator=lambda: job.evaluator, progress=job.view)
    for split in ("train", "dev"):
        made, target = split_path(whole, split), job.path("tasks", f"{split}.jsonl")
        if split == "train" and tasks.train is not None:
            _copy(made, target, tasks.train)
        else:
            os.replace(made, target)
        os.replace(manifest_path(made), manifest_path(target))
    whole.unlink()


def _evaluation_set(job: Job, each: EvaluationSet, target: Path) -> None:
    if each.kind == "livecodebench":
        from cobalt.tasks.livecodebench import LcbSettings, build_lcb, locate

        settings = LcbSettings(functional=each.functional, prompts=job.prompts)
        source = open_rows(locate(data_at(each.source, job.file)))
        build_lcb(source, target, settings, progress=job.view)
        if each.limit is not None:
            _copy(target, target, each.limit)
    elif each.kind == "perturbed":
        perturbed(job, each.source, target, limit=each.limit)
    elif each.source in SPLITS:
        _copy(job.path("tasks", f"{each.source}.jsonl"), target, each.limit)
    else:
        write_jsonl(target, ready_tasks(job, opened(job, each.source, "heldout"), each.limit))


def perturbed(
    job: Job, source: str, target: Path, *, limit: int | None, kind: str = "swap", seed: int = 42
) -> int:
    """Perturb tasks (`cobalt.tasks.perturb.KINDS`); returns how many could be.

    `source`: a split, or a file or hub name. Tasks that are perturbed already are taken as they are.
    """
    from cobalt.tasks.perturb import run_perturbation

    split = job.path("tasks", f"{source}.jsonl") if source in SPLITS else None
    already, found = shown_tasks(job, open_rows(split) if split else opened(job, source, "dev"), limit)
    if already:
        write_jsonl(target, found)
        return rows(target)
    plain = target.with_name(f"{target.stem}.plain.jsonl")
    write_jsonl(plain, found)
    try:
        return run_perturbation(plain, target, kind=kind, seed=seed).written
    finally:
        plain.unlink()


def _copy(source: Path, target: Path, limit: int | None) -> None:
    """The first `limit` rows of a file of the run."""
    write_jsonl(target, (row for _, row in islice(read_rows(source), limit)))


def openings(job: Job) -> list[dict[str, Any]]:
    """Contexts without programs for the development tasks."""
    return [
        {
            "example_id": row["id"], "conversation": job.prompts.messages(row["instruction"]),
            "test_cases": row["test_cases"], "difficulty": row["difficulty"], "prev_best_pass_rate": 0.0,
        }
        for _, row in read_rows(job.path("tasks", "dev.jsonl"))
    ]  # fmt: skip
