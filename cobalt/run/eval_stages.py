"""The stages that look at trained models: evaluation, perturbed tests and who accepted them, controls."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from cobalt.config.evaluation_sections import EvaluationSet, Judge, Perturb
from cobalt.config.load import data_at, local_path
from cobalt.config.sections import SPLITS
from cobalt.errors import InfraError
from cobalt.evaluation.controls import best_of_n, feedback_control
from cobalt.evaluation.judge import JudgeSettings, judge_engine, judge_file
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import read_rows
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.run.task_files import perturbed, rows, set_path

ARMS = ("reference", "cobalt")
FEEDBACK_CONTROLS = {"blank_feedback": "blank", "other_feedback": "other"}


def models(job: Job) -> dict[str, Path | str]:
    """The models to evaluate, by name; `cobalt` is the trained one, whatever its recipe."""
    found: dict[str, Path | str] = {"reference": job.model, "cobalt": job.path("train", "model")}
    if job.config.controls.single_turn_training:
        found["single_turn_training"] = job.path("train_single", "model")
    return found


def evaluated(job: Job, name: str, number: int = 0) -> Path:
    """Rows of a model on an evaluation set, with verdicts on hidden tests. The first set's need no folder."""
    folder = (job.config.evaluate.sets[number].name,) if number else ()
    return job.path("evaluate", *folder, f"{name}_eval.jsonl")


def _settings(job: Job, each: EvaluationSet) -> tuple[MultiTurnSettings, dict[str, Any]]:
    """How dialogues on a set are sampled, and the same for the stage's record."""
    settings = job.evaluation(each.samples, each.turns)
    record = {**plain(settings.record()), "n": settings.samples}
    if each.kind != "perturbed":
        return settings, record
    return replace(settings, tests="perturbed"), record | {"tests": "perturbed"}


def evaluate_stage(job: Job) -> Stage:
    """All models on all sets."""
    sets = job.config.evaluate.sets

    def run() -> Outcome:
        facts: dict[str, Any] = {}
        read = written = 0
        # Model by model: a server is started once for all sets.
        for name, model in models(job).items():
            for number, each in enumerate(sets):
                target, settings = evaluated(job, name, number), _settings(job, each)[0]
                summary = evaluation(job, model, set_path(job, each), target, settings)
                facts.setdefault(each.name, {})[name] = summary["pass_at_1"]
                written += summary["tasks"]
                read += summary["tasks"] if name == "reference" else 0
        return Outcome(read, written, {"pass_at_1": facts})

    named = " and ".join(each.name.replace("heldout", "held-out").replace("_", " ") for each in sets)
    trained = [Path(path) for name, path in models(job).items() if name != "reference"]
    return Stage(
        "evaluate", f"evaluate on {named} tasks", run=run,
        inputs=[*dict.fromkeys(set_path(job, each) for each in sets), *trained],
        outputs=[evaluated(job, name, number) for number in range(len(sets)) for name in models(job)],
        owns=[job.path("evaluate")],
        settings={"sets": [_settings(job, each)[1] for each in sets],
                  "trained_engine": job.config.model.trained_engine, **job.model_basis},
    )  # fmt: skip


def control_files(job: Job) -> dict[str, Path]:
    """Files of the control experiments that are switched on, by name."""
    on, turns = job.config.controls, job.config.evaluate.turns
    found = {
        name: job.path("controls", f"control_{kind}_eval.jsonl")
        for name, kind in FEEDBACK_CONTROLS.items()
        if getattr(on, name)
    }
    if on.best_of_turns:
        found["best_of_turns"] = job.path("controls", f"best_of_{turns}_choices.jsonl")
    return found


def control_stages(job: Job) -> list[Stage]:
    """The control experiments, if any is switched on."""
    files, folder, first = control_files(job), job.path("controls"), job.config.evaluate.sets[0]
    tasks, settings = set_path(job, first), job.evaluation(first.samples, first.turns)

    def run() -> Outcome:
        more: dict[str, Any] = {"concurrency": job.config.execution.concurrency, "progress": job.view}
        kinds = [kind for name, kind in FEEDBACK_CONTROLS.items() if name in files]
        if kinds:
            with job.engine(job.path("train", "model")) as engine:
                for kind in kinds:
                    job.wait(feedback_control(kind, tasks, folder, engine, job.evaluator, settings, **more))
        if "best_of_turns" in files:
            with job.engine(job.model) as engine:
                work = best_of_n(settings.turns, tasks, folder, engine, job.evaluator, settings, **more)
                best = job.wait(work)
            write_jsonl(files["best_of_turns"], ({"id": key, "right": rate} for key, rate in best.items()))
        count = rows(tasks)
        return Outcome(count, count * len(files))

    stage = Stage(
        "controls", "control experiments", run=run, inputs=[tasks, job.path("train", "model")],
        outputs=list(files.values()), owns=[folder],
        settings=_settings(job, first)[1] | plain(job.config.controls) | job.model_basis,
    )  # fmt: skip
    return [stage] if files else []


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
    tasks, trained = job.path("perturb", "tasks.jsonl"), job.path("train", "model")
    settings = replace(job.evaluation(given.samples, given.turns), tests="perturbed")
    split = job.path("tasks", f"{given.source}.jsonl") if given.source in SPLITS else None
    local = split or local_path(data_at(given.source, job.file))

    def run() -> Outcome:
        count = perturbed(job, given.source, tasks, limit=given.limit, kind=given.kind, seed=given.seed)
        found = {
            name: evaluation(job, model, tasks, perturbed_rows(job, name), settings)["pass_at_1"]
            for name, model in zip(ARMS, (job.model, trained), strict=True)
        }
        return Outcome(count, count * len(ARMS), {"pass_at_1": found})

    return Stage(
        "perturb", "perturb: dialogues on wrong tests", run=run,
        inputs=[*([] if local is None else [local]), trained],
        outputs=[tasks, *(perturbed_rows(job, name) for name in ARMS)], owns=[tasks.parent],
        settings={"limit": given.limit, "perturbation_seed": given.seed, "n": settings.samples,
                  **({} if given.kind == "swap" else {"perturbation": given.kind}),
                  "trained_engine": job.config.model.trained_engine,
                  "source": given.source if local is None else None,
                  **plain(settings.record()), **job.model_basis},
    )  # fmt: skip


def _analysis(job: Job) -> Stage:
    given, asked, tasks = job.config.hack_analysis, _asked(job), job.path("perturb", "tasks.jsonl")

    def run() -> Outcome:
        facts: dict[str, Any] = {"judge": _said(given.judge, asked)}
        if given.judge is not None:
            job.note(facts["judge"])
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

    return Stage(
        "hack_analysis", "hack-analysis: turns that accepted a wrong test", run=run,
        inputs=[tasks, *(perturbed_rows(job, name) for name in ARMS)],
        outputs=findings(job), owns=[job.path("hack_analysis")],
        settings={"match": given.match, "judge": None if asked is None else plain(asked),
                  "judge_prompts": None if asked is None else job.prompts.judge_sha256},
    )  # fmt: skip


def _asked(job: Job) -> Judge | None:
    """The judge, if it can be asked, or has been."""
    judge = job.config.hack_analysis.judge
    if judge is None or not judge.key or os.environ.get(judge.key):
        return judge
    return judge if any(verdicts(job, name).exists() for name in ARMS) else None


def _said(judge: Judge | None, asked: Judge | None) -> str:
    if judge is None:
        return "no judge: hack_analysis.judge names no model"
    if asked is None:
        return f"no judge: {judge.key}, the key of {judge.said}, is not set"
    return f"judge: {judge.said}"


def _judged(job: Job, judge: Judge, name: str) -> dict[str, int]:
    """Ask the judge; returns its majority verdicts."""
    from cobalt.engines import check

    cases = errors(job, name)
    if judge.max_cases is not None:
        cases = cases.with_name(f"{name}_cases.jsonl")
        write_jsonl(cases, (row for _, row in islice(read_rows(errors(job, name)), judge.max_cases)))
    key = os.environ.get(judge.key) if judge.key else None
    more: dict[str, Any] = {} if judge.engine == "litellm" or not key else {"key": key}
    engine = judge_engine(judge.engine, judge.model, judge.base_url, **more)
    try:
        job.wait(check(engine))
        settings = JudgeSettings(votes=judge.votes, seed=job.seed, prompts=job.prompts)
        done = job.wait(judge_file(cases, verdicts(job, name), engine, settings, progress=job.view))
    finally:
        job.wait(engine.aclose())
    if done.run.failed:
        raise InfraError(f"{verdicts(job, name)}: {done.run.failed} cases failed; run the same command again")
    return {label: found["cases"] for label, found in done.summary["verdicts"].items()}
