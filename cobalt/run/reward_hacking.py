"""The stages about perturbed tests: dialogues on them, and the turns that accepted a wrong test."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from cobalt.config.files import data_at, local_path
from cobalt.config.sections import SPLITS, Judge, Perturb
from cobalt.errors import InfraError
from cobalt.evaluation.judge import JudgeSettings, judge_file
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.rows import read_rows
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.run.task_files import perturbed, rows

ARMS = ("reference", "cobalt")


def perturbed_rows(job: Job, name: str) -> Path:
    """Evaluated dialogues of a model on perturbed tasks."""
    return job.path("perturb", f"{name}_eval.jsonl")


def errors(job: Job, name: str) -> Path:
    """The turns of a model's dialogues that accepted a wrong test."""
    return job.path("hack_analysis", f"{name}_errors.jsonl")


def verdicts(job: Job, name: str) -> Path:
    """The judge's verdicts on them, empty if there are none; no such file where no judge was asked."""
    return job.path("hack_analysis", f"{name}_judged.jsonl")


def findings(job: Job) -> list[Path]:
    """What the analysis makes: turn errors, and the verdicts of a judge that is asked."""
    judged = [verdicts(job, name) for name in ARMS] if _asked(job) else []
    return [*(errors(job, name) for name in ARMS), *judged]


def hacking_stages(job: Job) -> list[Stage]:
    """perturb and hack_analysis, if the configuration has them."""
    given = job.config.perturb
    return [] if given is None else [_perturb(job, given), _analysis(job)]


def _perturb(job: Job, given: Perturb) -> Stage:
    folder, tasks, trained = (
        job.path("perturb"),
        job.path("perturb", "tasks.jsonl"),
        job.path("train", "model"),
    )
    settings = replace(job.evaluation(given.samples, given.turns), tests="perturbed")
    if given.source in SPLITS:
        local: Path | None = job.path("tasks", f"{given.source}.jsonl")
    else:
        local = local_path(data_at(given.source, job.file))

    def run() -> Outcome:
        count = perturbed(job, given.source, tasks, limit=given.limit, seed=given.seed)
        found = {
            name: evaluation(job, model, tasks, perturbed_rows(job, name), settings)["pass_at_1"]
            for name, model in zip(ARMS, (job.model, trained), strict=True)
        }
        return Outcome(count, count * len(ARMS), {"pass_at_1": found})

    return job.stage(
        "perturb", "perturb: dialogues on wrong tests", run=run,
        inputs=[*([] if local is None else [local]), trained],
        outputs=[tasks, *(perturbed_rows(job, name) for name in ARMS)], owns=[folder],
        settings={"limit": given.limit, "perturbation_seed": given.seed, "n": settings.samples,
                  "trained_engine": job.config.model.trained_engine,
                  "source": given.source if local is None else None,
                  **plain(settings.record()), **job.model_basis},
    )  # fmt: skip


def _analysis(job: Job) -> Stage:
    given, asked, tasks = job.config.hack_analysis, _asked(job), job.path("perturb", "tasks.jsonl")

    def run() -> Outcome:
        facts: dict[str, Any] = {"judge": _said(given.judge, asked)}
        if job.view is not None and given.judge is not None:
            job.view.note(facts["judge"])
        written = 0
        for name in ARMS:
            found = turn_errors(tasks, perturbed_rows(job, name), errors(job, name), match=given.match)
            facts[name] = {key: found[key] for key in ("cases", "trajectories", "problems", "all_turns")}
            written += found["cases"]
            if asked is not None and found["cases"]:
                facts[name]["verdicts"] = _judged(job, asked, name)
            elif asked is not None:
                verdicts(job, name).write_text("")
        return Outcome(2 * rows(tasks), written, facts)

    return job.stage(
        "hack_analysis", "hack-analysis: turns that accepted a wrong test", run=run,
        inputs=[tasks, *(perturbed_rows(job, name) for name in ARMS)],
        outputs=findings(job), owns=[job.path("hack_analysis")],
        settings={"match": given.match, "judge": None if asked is None else plain(asked),
                  "judge_prompts": None if asked is None else job.prompts.judge_sha256},
    )  # fmt: skip


def _asked(job: Job) -> Judge | None:
    """The judge, if it can be asked, or has been."""
    judge = job.config.hack_analysis.judge
    if judge is None or not judge.key_variable or os.environ.get(judge.key_variable):
        return judge
    return judge if any(verdicts(job, name).exists() for name in ARMS) else None


def _said(judge: Judge | None, asked: Judge | None) -> str:
    if judge is None:
        return "no judge: hack_analysis.judge names no model"
    if asked is None:
        return f"no judge: {judge.key_variable}, the key of {judge.model}, is not set"
    return f"judge: {judge.model}"


def _judged(job: Job, judge: Judge, name: str) -> dict[str, int]:
    """Ask the judge; returns its majority verdicts."""
    from cobalt.engines import check, connect

    cases = errors(job, name)
    if judge.max_cases is not None:
        cases = cases.with_name(f"{name}_cases.jsonl")
        write_jsonl(cases, (row for _, row in islice(read_rows(errors(job, name)), judge.max_cases)))
    key = os.environ.get(judge.key_variable) if judge.key_variable else None
    more: dict[str, Any] = {} if judge.engine == "litellm" or not key else {"key": key}
    engine = connect(judge.engine, judge.model, judge.base_url, **more)
    try:
        job.wait(check(engine))
        settings = JudgeSettings(votes=judge.votes, seed=job.seed, prompts=job.prompts)
        done = job.wait(judge_file(cases, verdicts(job, name), engine, settings, progress=job.view))
    finally:
        job.wait(engine.aclose())
    if done.run.failed:
        raise InfraError(f"{verdicts(job, name)}: {done.run.failed} cases failed; run the same command again")
    return {label: found["cases"] for label, found in done.summary["verdicts"].items()}
