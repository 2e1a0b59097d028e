"""Stored programs that a run trains on, instead of sampling and running any."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.rows import read_rows
from cobalt.run.rules import GROUP_SIZE

if TYPE_CHECKING:
    from cobalt.run.job import Job


def stored_programs(job: Job) -> Path:
    """The folder or file of stored programs that the run trains on."""
    source = job.config.tasks.source
    return job.path("tasks", "stored") if source is None else (job.file.parent / source).resolve()


def stored_inputs(job: Job) -> list[Path]:
    """What decides the groups: of a tree its metadata (the programs do not change under their names)."""
    source = stored_programs(job)
    return [source] if source.is_file() else [source / "metadata"]


def write_stored(job: Job, target: Path) -> int:
    """Groups of the stored programs as Parquet; returns how many. Raises InputError for none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cobalt.tasks.codenet import build_codenet
    from cobalt.tasks.codenet_tree import CodenetSettings

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
    groups = [row for _, row in read_rows(source)]
    pq.write_table(pa.Table.from_pylist(groups), target)
    return len(groups)
