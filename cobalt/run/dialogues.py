"""Programs of a model within a run: first turns, dialogues, their verdicts; the reference's are made once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError
from cobalt.evaluation.evaluate import hidden_tests, summary_path
from cobalt.files import file_sha256, plain, settings_hash
from cobalt.output import failures_path
from cobalt.pipeline import Summary
from cobalt.rollouts import multi_turn as dialogues
from cobalt.rollouts import single_turn as firsts
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.run.job import Job


def complete(summary: Summary) -> Summary:
    """`summary`, if every row was made; raises InfraError naming the file of failures otherwise."""
    if summary.failed:
        raise InfraError(
            f"{summary.failed} of {summary.total} rows failed, see {failures_path(summary.output)}; "
            "run the same command again to try them again"
        )
    return summary


def single_turn(job: Job, rows: Path, target: Path, *, shared_first: bool) -> int:
    """First programs of the reference, run on all tests; returns the number of tasks.

    Raises InfraError if one fails.
    """
    with job.engine(job.model, shared_first=shared_first) as engine:
        work = firsts.single_turn(
            rows, target, engine, job.evaluator, job.single_turn(),
            concurrency=job.config.execution.concurrency, progress=job.view,
        )  # fmt: skip
        return complete(job.wait(work)).total


def multi_turn(job: Job, model: Path | str, rows: Path, target: Path, settings: MultiTurnSettings) -> int:
    """Dialogues of a model; returns the number of tasks. Raises InfraError if one fails."""
    with job.engine(model) as engine:
        work = dialogues.multi_turn(
            rows, target, engine, job.evaluator, settings,
            concurrency=job.config.execution.concurrency, progress=job.view,
        )  # fmt: skip
        return complete(job.wait(work)).total


def judged(job: Job, rows: Path, target: Path) -> Mapping[str, Any]:
    """Hidden tests for every program of dialogues; returns the summary. Raises InfraError for programs
    without verdict.
    """
    done = job.wait(hidden_tests(rows, target, job.evaluator, progress=job.view))
    complete(done.run)
    if done.summary["infra_errors"]:
        raise InfraError(
            f"{target}: {done.summary['infra_errors']} programs without verdict; run the same command again"
        )
    return done.summary


def evaluation(
    job: Job, model: Path | str, rows: Path, target: Path, settings: MultiTurnSettings
) -> Mapping[str, Any]:
    """Dialogues and verdicts of a model (`target`: `NAME_eval.jsonl`, the dialogues are in `NAME.jsonl`).

    The reference's are made once: they stay when the training changes, and other runs may take them over.
    Returns the summary.
    """
    plain_rows = target.with_name(target.name.replace("_eval", ""))
    reference = model == job.model
    basis = [plain(settings.record()), settings.samples, file_sha256(rows), job.model_basis]
    key = settings_hash([*basis, target.relative_to(job.out).as_posix()])
    if not (reference and not target.exists() and job.of_reference.take("reference", key, job.out)):
        multi_turn(job, model, rows, plain_rows, settings)
        judged(job, plain_rows, target)
        if reference:
            job.of_reference.give("reference", key, job.out, [plain_rows, target], {"model": str(model)})
    summary: dict[str, Any] = json.loads(summary_path(target).read_text(encoding="utf-8"))
    return summary
