"""The tasks of a run: drawn, or read from files and data sets."""

from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.errors import InputError
from cobalt.inputs import open_input
from cobalt.run.rules import data_at
from cobalt.run.sections import EvaluationSet
from cobalt.store import manifest_path, read_jsonl, write_jsonl

if TYPE_CHECKING:
    from cobalt.run.job import Job

SPLITS = ("train", "dev", "heldout")


def set_path(job: Job, each: EvaluationSet) -> Path:
    """The tasks of an evaluation set: those of a split as they are, or a file of their own."""
    whole = each.kind == "tasks" and each.limit is None and each.source in SPLITS
    return job.path("tasks", f"{each.source if whole else each.name}.jsonl")


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
    found = [data_at(name, job.file) for name in named if name is not None]
    return [Path(name) for name in dict.fromkeys(found) if os.path.exists(name)]


def stored_programs(job: Job) -> Path:
    """The folder or file of stored programs that the run trains on."""
    tasks = job.config.tasks
    return job.path("tasks", "stored") if tasks.source is None else (job.file.parent / tasks.source).resolve()


def stored_inputs(job: Job) -> list[Path]:
    """What decides the groups: of a tree its metadata (the programs do not change under their names)."""
    source = stored_programs(job)
    return [source] if source.is_file() else [source / "metadata"]


def write_stored(job: Job, target: Path) -> int:
    """Groups of the stored programs as Parquet; returns how many. Raises InputError for none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cobalt.run.rules import GROUP_SIZE
    from cobalt.tasks.codenet import CodenetSettings
    from cobalt.tasks.codenet_door import build_codenet

    tasks, source = job.config.tasks, stored_programs(job)
    if source.is_dir():
        settings = CodenetSettings(
            job.prompts, tasks.language, GROUP_SIZE, tasks.max_groups, seed=job.seed,
            problems=tasks.train if tasks.family == "stored" else None,
        )  # fmt: skip
        return build_codenet(source, target, settings, job.view).groups
    if source.suffix == ".parquet":
        shutil.copyfile(source, target)  # training checks every row
        return int(pq.read_metadata(target).num_rows)
    groups = [row for _, row in read_jsonl(source)]
    pq.write_table(pa.Table.from_pylist(groups), target)
    return len(groups)


def write_tasks(job: Job) -> dict[str, int]:
    """Make every file of `task_files`; returns the number of tasks by file."""
    tasks = job.config.tasks
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
        for split, limit in (("train", tasks.train), ("dev", tasks.dev), ("heldout", tasks.heldout)):
            name = getattr(tasks, f"{split}_file")
            if name is not None:
                _copy(data_at(name, job.file), job.path("tasks", f"{split}.jsonl"), limit)
    for each in job.config.evaluate.sets:
        _evaluation_set(job, each)
    return {path.stem: rows(path) for path in task_files(job)}


def rows(path: Path) -> int:
    """Rows of a JSONL file."""
    return sum(1 for _ in read_jsonl(path))


def perturbed(source: str | Path, target: Path, *, limit: int | None, seed: int) -> int:
    """Perturb tasks (two public tests of each exchange their outputs); returns how many could be."""
    from cobalt.tasks.perturb import run_perturbation

    if limit is None:
        return run_perturbation(source, target, seed=seed).written
    plain = target.with_name(f"{target.stem}.plain.jsonl")
    _copy(source, plain, limit)
    try:
        return run_perturbation(plain, target, seed=seed).written
    finally:
        plain.unlink()


def _evaluation_set(job: Job, each: EvaluationSet) -> None:
    target = set_path(job, each)
    if target == job.path("tasks", f"{each.source}.jsonl"):
        return
    source = (
        job.path("tasks", f"{each.source}.jsonl") if each.source in SPLITS else data_at(each.source, job.file)
    )
    if each.kind == "livecodebench":
        _livecodebench(job, str(source), target, each)
    elif each.kind == "perturbed":
        perturbed(source, target, limit=each.limit, seed=42)
    else:
        _copy(source, target, each.limit)


def _livecodebench(job: Job, source: str, target: Path, each: EvaluationSet) -> None:
    from cobalt.tasks.lcb_door import build_lcb, locate
    from cobalt.tasks.livecodebench import LcbSettings

    settings = LcbSettings(functional=each.functional, prompts=job.prompts)
    build_lcb(open_input(locate(source)), target, settings, progress=job.view)
    if each.limit is not None:
        _copy(target, target, each.limit)


def _taco(job: Job) -> None:
    from cobalt.tasks.build_taco import build_taco
    from cobalt.tasks.taco_files import TacoSettings, split_path

    tasks = job.config.tasks
    assert tasks.source is not None
    settings = TacoSettings(
        seed=tasks.split_seed, max_solutions=tasks.max_solutions, require_verified=tasks.require_verified,
        num_public=tasks.public_tests, dev_size=250 if tasks.dev is None else tasks.dev,
        functional=tasks.functional, prompts=job.prompts,
    )  # fmt: skip
    whole = job.path("tasks", "taco", "all.jsonl")
    source = open_input(data_at(tasks.source, job.file))
    build_taco(source, whole, settings, evaluator=job.reference_judge, progress=job.view)
    for split in ("train", "dev"):
        made, target = split_path(whole, split), job.path("tasks", f"{split}.jsonl")
        if split == "train" and tasks.train is not None:
            _copy(made, target, tasks.train)
        else:
            os.replace(made, target)
        os.replace(manifest_path(made), manifest_path(target))
    whole.unlink()


def _copy(source: str | Path, target: Path, limit: int | None) -> None:
    """The first `limit` rows of a source. Raises InputError for none."""
    found = open_input(source)
    write_jsonl(target, (row for _, row in islice(found, limit)))
    if not target.stat().st_size:
        raise InputError(f"{found.name}: there are no tasks")


def chosen(job: Job, source: str) -> str | Path:
    """A split of the run, or a file or hub name."""
    return job.path("tasks", f"{source}.jsonl") if source in SPLITS else data_at(source, job.file)
