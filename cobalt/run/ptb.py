"""Contexts whose feedback comes from perturbed tests, for recipe `cobalt_ptb`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.records import Row
from cobalt.run.dialogues import judged, multi_turn
from cobalt.run.job import Job
from cobalt.store import read_jsonl, write_jsonl


def perturbed_contexts(job: Job, folder: Path, **cut: Any) -> int:
    """Make `train.parquet` in `folder`: trajectories that were shown perturbed tests, with their true rates,
    so that selection and reward are honest. `cut` goes to `build_contexts`. Returns the number of contexts.
    """
    from cobalt.contexts.build import build_contexts
    from cobalt.contexts.parquet import build_parquet
    from cobalt.tasks.perturb import run_perturbation

    folder.mkdir(parents=True, exist_ok=True)
    first, shown = folder / "single.jsonl", folder / "trajectories.jsonl"
    run_perturbation(job.path("collect", "single.jsonl"), first)
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


def _rates(job: Job, rows: Path, target: Path) -> dict[Any, list[list[float]]]:
    judged(job, rows, target)
    return {row["id"]: row["all_pass_rates"] for row in _rows(target)}


def _rows(path: Path) -> Iterator[Row]:
    return (row for _, row in read_jsonl(path))
