"""Contexts whose feedback comes from perturbed tests, for recipe `cobalt_ptb`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.output import write_jsonl
from cobalt.rows import Row, read_rows, require
from cobalt.run.dialogues import judged, multi_turn
from cobalt.run.given import trajectories
from cobalt.run.job import Job
from cobalt.schema import EvalRow, SingleTurnRow
from cobalt.tasks.own import complete

# Columns of the further turns, and those that then have another shape.
_FOLLOWING = {*EvalRow.__annotations__} - {*SingleTurnRow.__annotations__} | {"usage", "finish_reasons"}


def perturbed_contexts(job: Job, folder: Path, **cut: Any) -> int:
    """Make `train.parquet` in `folder`: trajectories that were shown perturbed tests, with their true rates,
    so that selection and reward are honest. `cut` goes to `build_contexts`. Returns the number of contexts.
    """
    from cobalt.contexts.build import build_contexts
    from cobalt.contexts.parquet import build_parquet
    from cobalt.tasks.perturb import run_perturbation

    folder.mkdir(parents=True, exist_ok=True)
    first, shown = folder / "single.jsonl", folder / "trajectories.jsonl"
    given, own = trajectories(job, "train"), job.path("collect", "single.jsonl")
    if given is not None:
        own = folder / "given.jsonl"
        write_jsonl(own, (_first_turn(job, row, where) for where, row in given))
    run_perturbation(own, first)
    multi_turn(job, job.model, first, shown, replace(job.repair(), tests="perturbed"))
    hidden = _rates(job, shown, folder / "hidden.jsonl")
    swapped = folder / "public_as_hidden.jsonl"
    write_jsonl(swapped, (row | {"hidden_test_cases": row["public_test_cases"]} for row in _rows(shown)))
    public = _rates(job, swapped, folder / "public.jsonl")
    true = folder / "judged.jsonl"
    write_jsonl(true, (
        row | {
            "all_pass_rates": hidden[row["id"]],
            "public_pass_rates": [list(rates) for rates in zip(*public[row["id"]], strict=True)],
        }
        for row in _rows(shown)
    ))  # fmt: skip
    contexts, made = folder / "contexts.jsonl", folder / "made"
    done = build_contexts(true, contexts, model_name=str(job.model), **cut)
    build_parquet(contexts, contexts, made, kind="multi_turn")
    shutil.copy(made / "train.parquet", folder / "train.parquet")
    return done.contexts


def _first_turn(job: Job, row: Row, where: str) -> Row:
    """A task with its first programs, of a row that also holds the turns that followed."""
    require(row, "responses", list, where)
    return complete(
        {name: value for name, value in row.items() if name not in _FOLLOWING}, where, job.prompts
    )


def _rates(job: Job, rows: Path, target: Path) -> dict[Any, list[list[float]]]:
    judged(job, rows, target)
    return {row["id"]: row["all_pass_rates"] for row in _rows(target)}


def _rows(path: Path) -> Iterator[Row]:
    return (row for _, row in read_rows(path))
