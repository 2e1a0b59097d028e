"""The tasks of a run: drawn, or read from files and data sets."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.manifest import manifest_path
from cobalt.output import write_jsonl
from cobalt.rows import open_rows, read_rows
from cobalt.run.given import Held, opened, perturbed_tasks, ready_tasks
from cobalt.run.rules import data_at, local_path
from cobalt.run.sections import SPLITS, EvaluationSet
from cobalt.run.stored import stored_programs

if TYPE_CHECKING:
    from cobalt.run.job import Job


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
    tasks = job.config.tasks
    named = [
        None if tasks.family == "stored" else tasks.source,
        tasks.train_file,
        tasks.dev_file,
        tasks.heldout_file,
    ]
    named += [each.source for each in job.config.evaluate.sets if each.source not in SPLITS]
    found = [local_path(data_at(name, job.file)) for name in named if name is not None]
    return [path for path in dict.fromkeys(found) if path is not None]


def write_tasks(job: Job) -> tuple[dict[str, int], int]:
    """Make every file of `task_files`; returns the number of tasks by file, and of training tasks that were
    left out because their statements are also among the others.
    """
    tasks, left_out = job.config.tasks, 0
    if tasks.family == "tiny":
        from cobalt.tasks import tiny
        from cobalt.tasks.submissions import write_tree

        assert tasks.train and tasks.dev and tasks.heldout
        tiny.write_splits(
            job.path("tasks"), seed=job.task_seed, train=tasks.train, dev=tasks.dev, heldout=tasks.heldout
        )
        if tasks.submissions is not None:
            write_tree(
                stored_programs(job), tasks=tasks.train, submissions=tasks.submissions, seed=job.task_seed
            )
    elif tasks.family == "taco":
        _taco(job)
    else:
        held = Held(job)
        for split in SPLITS:
            name, limit = getattr(tasks, f"{split}_file"), getattr(tasks, split)
            if name is not None:
                found = ready_tasks(job, opened(job, name, split), limit, held if split == "train" else None)
                write_jsonl(job.path("tasks", f"{split}.jsonl"), found)
        left_out = held.dropped
    for each in job.config.evaluate.sets:
        _evaluation_set(job, each)
    return {path.stem: rows(path) for path in task_files(job)}, left_out


def rows(path: Path) -> int:
    """Rows of a JSONL file."""
    return sum(1 for _ in read_rows(path))


def perturbed(job: Job, source: str, target: Path, *, limit: int | None, seed: int) -> int:
    """Perturb tasks (two public tests of each exchange their outputs); returns how many could be.

    `source`: a split, or a file or hub name. Tasks that are perturbed already are taken as they are.
    """
    from cobalt.tasks.perturb import run_perturbation

    if source in SPLITS:
        found = open_rows(job.path("tasks", f"{source}.jsonl"))
    else:
        found = opened(job, source, "dev")
    given = perturbed_tasks(job, found, limit)
    if given is not None:
        write_jsonl(target, given)
        return rows(target)
    plain = target.with_name(f"{target.stem}.plain.jsonl")
    write_jsonl(plain, ready_tasks(job, found, limit))
    try:
        return run_perturbation(plain, target, seed=seed).written
    finally:
        plain.unlink()


def _evaluation_set(job: Job, each: EvaluationSet) -> None:
    target = set_path(job, each)
    if is_split(each):
        return
    if each.kind == "livecodebench":
        _livecodebench(job, data_at(each.source, job.file), target, each)
    elif each.kind == "perturbed":
        perturbed(job, each.source, target, limit=each.limit, seed=42)
    elif each.source in SPLITS:
        _copy(job.path("tasks", f"{each.source}.jsonl"), target, each.limit)
    else:
        write_jsonl(target, ready_tasks(job, opened(job, each.source, "heldout"), each.limit))


def _livecodebench(job: Job, source: str, target: Path, each: EvaluationSet) -> None:
    from cobalt.tasks.livecodebench import LcbSettings, build_lcb, locate

    settings = LcbSettings(functional=each.functional, prompts=job.prompts)
    build_lcb(open_rows(locate(source)), target, settings, progress=job.view)
    if each.limit is not None:
        _copy(target, target, each.limit)


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
    build_taco(source, whole, settings, evaluator=job.reference_judge, progress=job.view)
    for split in ("train", "dev"):
        made, target = split_path(whole, split), job.path("tasks", f"{split}.jsonl")
        if split == "train" and tasks.train is not None:
            _copy(made, target, tasks.train)
        else:
            os.replace(made, target)
        os.replace(manifest_path(made), manifest_path(target))
    whole.unlink()


def _copy(source: Path, target: Path, limit: int | None) -> None:
    """The first `limit` rows of a file of the run."""
    write_jsonl(target, (row for _, row in islice(read_rows(source), limit)))
