"""The stages that look at trained models: evaluation, and the controls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.config.sections import EvaluationSet
from cobalt.evaluation.controls import best_of_n, feedback_control
from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.run.task_files import rows, set_path

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
    return job.stage(
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

    stage = job.stage(
        "controls", "control experiments", run=run, inputs=[tasks, job.path("train", "model")],
        outputs=list(files.values()), owns=[folder],
        settings=_settings(job, first)[1] | plain(job.config.controls) | job.model_basis,
    )  # fmt: skip
    return [stage] if files else []
