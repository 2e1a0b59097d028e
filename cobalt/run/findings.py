"""The stages that look at trained models: evaluation, controls, perturbed tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.sections import EvaluationSet
from cobalt.run.sources import rows, set_path
from cobalt.run.stage import Outcome, Stage
from cobalt.run.stages import stage

FEEDBACK_CONTROLS = {"blank_feedback": "blank", "other_feedback": "other"}


def models(job: Job) -> dict[str, Path | str]:
    """The models to evaluate, by name; `cobalt` is the trained one, whatever its recipe."""
    found: dict[str, Path | str] = {"reference": job.model, "cobalt": job.path("train", "model")}
    if job.config.controls.single_turn_training:
        found["single_turn_training"] = job.path("train_single", "model")
    return found


def trained(job: Job) -> list[Path]:
    """The folders of the trained models."""
    return [Path(path) for name, path in models(job).items() if name != "reference"]


def evaluated(job: Job, name: str, number: int = 0) -> Path:
    """Rows of a model on an evaluation set, with verdicts on hidden tests. The first set's need no folder."""
    folder = (job.config.evaluate.sets[number].name,) if number else ()
    return job.path("evaluate", *folder, f"{name}_eval.jsonl")


def finding_stages(job: Job) -> list[Stage]:
    """Evaluation of all models on all sets, and the controls."""
    stages = [_evaluate(job)]
    return [*stages, _controls(job)] if control_files(job) else stages


def _settings(job: Job, each: EvaluationSet) -> dict[str, Any]:
    settings = job.evaluation(each.samples, each.turns)
    tests = {"tests": "perturbed"} if each.kind == "perturbed" else {}
    return {**plain(settings.record()), "n": settings.samples, **tests}


def _evaluate(job: Job) -> Stage:
    sets = job.config.evaluate.sets

    def run() -> Outcome:
        from dataclasses import replace

        facts: dict[str, Any] = {}
        read = written = 0
        # Model by model: a server is started once for all sets.
        for name, model in models(job).items():
            for number, each in enumerate(sets):
                settings = job.evaluation(each.samples, each.turns)
                if each.kind == "perturbed":
                    settings = replace(settings, tests="perturbed")
                tasks = set_path(job, each)
                summary = evaluation(job, model, tasks, evaluated(job, name, number), settings)
                facts.setdefault(each.name, {})[name] = summary["pass_at_1"]
                written += summary["tasks"]
                read += summary["tasks"] if name == "reference" else 0
        return Outcome(read, written, {"pass_at_1": facts})

    files = list(dict.fromkeys(set_path(job, each) for each in sets))
    return stage(
        job, "evaluate", f"evaluate on {' and '.join(_said(each.name) for each in sets)} tasks",
        run=run, inputs=[*files, *trained(job)],
        outputs=[evaluated(job, name, number) for number in range(len(sets)) for name in models(job)],
        owns=[job.path("evaluate")],
        settings={"sets": [_settings(job, each) for each in sets],
                  "trained_engine": job.config.model.trained_engine, **job.model_basis},
    )  # fmt: skip


def _said(name: str) -> str:
    return name.replace("heldout", "held-out").replace("_", " ")


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


def _controls(job: Job) -> Stage:
    files, folder, first = control_files(job), job.path("controls"), job.config.evaluate.sets[0]
    tasks, settings = set_path(job, first), job.evaluation(first.samples, first.turns)
    more: dict[str, Any] = {"concurrency": job.config.execution.concurrency}

    def run() -> Outcome:
        from cobalt.analysis.controls import best_of_n, feedback_control

        more["progress"] = job.view
        kinds = [kind for name, kind in FEEDBACK_CONTROLS.items() if name in files]
        if kinds:
            with job.engine(job.path("train", "model")) as engine:
                for kind in kinds:
                    job.wait(feedback_control(kind, tasks, folder, engine, job.evaluator, settings, **more))
        if "best_of_turns" in files:
            with job.engine(job.model) as engine:
                work = best_of_n(settings.turns, tasks, folder, engine, job.evaluator, settings, **more)
                best = job.wait(work)
            write_jsonl(
                files["best_of_turns"], ({"id": key, "right": rate} for key, rate in best.rates.items())
            )
        count = rows(tasks)
        return Outcome(count, count * len(files))

    return stage(
        job, "controls", "control experiments", run=run, inputs=[tasks, job.path("train", "model")],
        outputs=list(files.values()), owns=[folder],
        settings=_settings(job, first) | plain(job.config.controls) | job.model_basis,
    )  # fmt: skip
