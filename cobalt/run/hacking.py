"""The stages about perturbed tests: dialogues on them, and the turns that accepted a wrong test."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.rows import read_rows
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.rules import data_at, local_path
from cobalt.run.sections import SPLITS, Judge, Perturb
from cobalt.run.sources import perturbed
from cobalt.run.stage import Outcome, Stage
from cobalt.run.stages import stage

ARMS = ("reference", "cobalt")


def perturbed_rows(job: Job, name: str) -> Path:
    """Evaluated dialogues of a model on perturbed tasks."""
    return job.path("perturb", f"{name}_eval.jsonl")


def errors(job: Job, name: str) -> Path:
    """The turns of a model's dialogues that accepted a wrong test."""
    return job.path("hack_analysis", f"{name}_errors.jsonl")


def verdicts(job: Job, name: str) -> Path:
    """The judge's verdicts on them; there is no such file where no judge was asked."""
    return job.path("hack_analysis", f"{name}_judged.jsonl")


def hacking_stages(job: Job) -> list[Stage]:
    """perturb and hack_analysis, if the configuration has them."""
    given = job.config.perturb
    return [] if given is None else [_perturb(job, given), _analysis(job)]


def _perturb(job: Job, given: Perturb) -> Stage:
    folder, tasks = job.path("perturb"), job.path("perturb", "tasks.jsonl")
    settings = replace(job.evaluation(given.samples, given.turns), tests="perturbed")
    if given.source in SPLITS:
        local: Path | None = job.path("tasks", f"{given.source}.jsonl")
    else:
        local = local_path(data_at(given.source, job.file))

    def run() -> Outcome:
        count = perturbed(job, given.source, tasks, limit=given.limit, seed=given.seed)
        trained = job.path("train", "model")
        found = {
            name: evaluation(job, model, tasks, perturbed_rows(job, name), settings)["pass_at_1"]
            for name, model in zip(ARMS, (job.model, trained), strict=True)
        }
        return Outcome(count, count * len(ARMS), {"pass_at_1": found})

    return stage(
        job, "perturb", "perturb: dialogues on wrong tests", run=run,
        inputs=[*([] if local is None else [local]), job.path("train", "model")],
        outputs=[tasks, *(perturbed_rows(job, name) for name in ARMS)], owns=[folder],
        settings={"limit": given.limit, "perturbation_seed": given.seed, "n": settings.samples,
                  "trained_engine": job.config.model.trained_engine,
                  "source": given.source if local is None else None,
                  **plain(settings.record()), **job.model_basis},
    )  # fmt: skip


def _analysis(job: Job) -> Stage:
    given = job.config.hack_analysis
    asked = given.judge if _may_ask(job) else None

    def run() -> Outcome:
        from cobalt.analysis.turn_errors import turn_errors

        facts: dict[str, Any] = {"judge": _said(given.judge, asked)}
        if job.view is not None and given.judge is not None:
            job.view.note(facts["judge"])
        written = 0
        for name in ARMS:
            found = turn_errors(
                job.path("perturb", "tasks.jsonl"), perturbed_rows(job, name), errors(job, name),
                match=given.match,
            )  # fmt: skip
            facts[name] = {
                key: found.summary[key] for key in ("cases", "trajectories", "problems", "all_turns")
            }
            written += len(found.rows)
            if asked is not None and found.rows:
                facts[name]["verdicts"] = _judged(job, asked, name)
        return Outcome(2 * len(list(read_rows(job.path("perturb", "tasks.jsonl")))), written, facts)

    return stage(
        job, "hack_analysis", "hack-analysis: turns that accepted a wrong test", run=run,
        inputs=[job.path("perturb", "tasks.jsonl"), *(perturbed_rows(job, name) for name in ARMS)],
        outputs=[errors(job, name) for name in ARMS], owns=[job.path("hack_analysis")],
        settings={"match": given.match, "judge": None if asked is None else plain(asked),
                  "judge_prompts": None if asked is None else job.prompts.judge_sha256},
    )  # fmt: skip


def _may_ask(job: Job) -> bool:
    """Whether the judge can be asked, or has been."""
    judge = job.config.hack_analysis.judge
    if judge is None:
        return False
    if not judge.key_variable or os.environ.get(judge.key_variable):
        return True
    return any(verdicts(job, name).exists() for name in ARMS)


def _said(judge: Judge | None, asked: Judge | None) -> str:
    if judge is None:
        return "no judge: hack_analysis.judge names no model"
    if asked is None:
        return f"no judge: {judge.key_variable}, the key of {judge.model}, is not set"
    return f"judge: {judge.model}"


def _judged(job: Job, judge: Judge, name: str) -> dict[str, int]:
    """Ask the judge; returns its majority verdicts."""
    from cobalt.analysis.judge import JudgeSettings, judge_file
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
        from cobalt.errors import InfraError

        raise InfraError(f"{verdicts(job, name)}: {done.run.failed} cases failed; run the same command again")
    return {label: found["cases"] for label, found in done.summary["verdicts"].items()}
