"""The stages that look at trained models: evaluation, controls, report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError
from cobalt.files import atomic_write, plain
from cobalt.manifest import versions
from cobalt.run.job import Job, complete
from cobalt.run.runner import Outcome, Stage
from cobalt.run.stages import stage
from cobalt.store import read_jsonl, write_jsonl

FEEDBACK_CONTROLS = {"blank_feedback": "blank", "other_feedback": "other"}


def models(job: Job) -> dict[str, Path]:
    """The models to evaluate, by name."""
    found = {"reference": job.model, "cobalt": job.path("train", "model")}
    if job.config.controls.single_turn_training:
        found["single_turn_training"] = job.path("train_single", "model")
    return found


def evaluated(job: Job, name: str) -> Path:
    """Held-out rows of a model with verdicts on hidden tests."""
    return job.path("evaluate", f"{name}_eval.jsonl")


def finding_stages(job: Job, totals: Callable[[Outcome], dict[str, Any]]) -> list[Stage]:
    """Evaluation, controls and report. `totals`: seconds, memory and counters of the run so far."""
    heldout, arms = job.path("tasks", "heldout.jsonl"), models(job)
    settings = plain(job.evaluation().record()) | {"n": job.config.evaluate.samples}
    trained = [path for name, path in arms.items() if name != "reference"]
    evaluations = [evaluated(job, name) for name in arms]
    stages = [
        stage(job, "evaluate", "evaluate on held-out tasks", run=lambda: _evaluate(job, heldout),
              inputs=[heldout, *trained], outputs=evaluations,
              settings=settings | {"model_sha256": job.model_sha256}),
    ]  # fmt: skip
    controls = control_files(job)
    if controls:
        stages.append(
            stage(job, "controls", "control experiments", run=lambda: _controls(job, heldout),
                  inputs=[heldout, arms["cobalt"]], outputs=list(controls.values()),
                  settings=settings | plain(job.config.controls) | {"model_sha256": job.model_sha256}),
        )  # fmt: skip
    curves = [path / "metrics.jsonl" for path in (job.path("train"), job.path("train_single"))]
    stages.append(
        stage(job, "report", "report", run=lambda: _report(job, totals),
              inputs=[*evaluations, *controls.values(), *(curves[: len(trained)])],
              outputs=[job.path("results.json"), job.path("report.html"), job.path("report", "index.html")],
              settings={"seed": job.seed}),
    )  # fmt: skip
    return stages


def _evaluate(job: Job, heldout: Path) -> Outcome:
    from cobalt.analysis.hidden_tests import hidden_tests
    from cobalt.rollouts.multi_turn import multi_turn

    facts = {}
    arms = models(job)
    for name, model in arms.items():
        rows = job.path("evaluate", f"{name}.jsonl")
        with job.engine(model) as engine:
            work = multi_turn(
                heldout, rows, engine, job.evaluator, job.evaluation(),
                concurrency=job.config.execution.concurrency, progress=job.view,
            )  # fmt: skip
            complete(job.wait(work))
        tested = hidden_tests(rows, evaluated(job, name), job.evaluator, seed=job.seed, progress=job.view)
        done = job.wait(tested)
        complete(done.run)
        if done.summary["infra_errors"]:
            raise InfraError(f"{evaluated(job, name)}: programs without verdict; run the same command again")
        facts[name] = done.summary["pass_at_1"]
    tasks = job.config.tasks.heldout
    return Outcome(tasks, tasks * len(arms), {"pass_at_1": facts})


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


def _controls(job: Job, heldout: Path) -> Outcome:
    from cobalt.analysis.controls import best_of_n, feedback_control

    files, folder = control_files(job), job.path("controls")
    more: dict[str, Any] = {"concurrency": job.config.execution.concurrency, "progress": job.view}
    settings, turns = job.evaluation(), job.config.evaluate.turns
    with job.engine(job.path("train", "model")) as engine:
        for name, kind in FEEDBACK_CONTROLS.items():
            if name in files:
                job.wait(feedback_control(kind, heldout, folder, engine, job.evaluator, settings, **more))
    if "best_of_turns" in files:
        with job.engine(job.model) as engine:
            best = job.wait(best_of_n(turns, heldout, folder, engine, job.evaluator, settings, **more))
        write_jsonl(files["best_of_turns"], ({"id": key, "right": rate} for key, rate in best.rates.items()))
    tasks = job.config.tasks.heldout
    return Outcome(tasks, tasks * len(files))


def _report(job: Job, totals: Callable[[Outcome], dict[str, Any]]) -> Outcome:
    from cobalt.report import build, page
    from cobalt.report.results import SCHEMA, Evaluations, statistics

    controls = control_files(job)
    best = controls.pop("best_of_turns", None)
    arms = {name: evaluated(job, name) for name in models(job)}
    rates = None if best is None else {row["id"]: row["right"] for _, row in read_jsonl(best)}
    others = {name: path for name, path in arms.items() if name not in ("reference", "cobalt")}
    found = Evaluations(arms["reference"], arms["cobalt"], others | controls, rates)
    results = {
        "schema": SCHEMA,
        "seed": job.seed,
        "task_seed": job.task_seed,
        **statistics(found, slot_names(), seed=job.seed),
        "family_hash": job.family_hash,
        "model_sha256": job.model_sha256,
        "versions": versions(),
    }
    card = job.model / "README.md"
    trainings = {"cobalt": job.path("train", "metrics.jsonl")}
    if job.config.controls.single_turn_training:
        trainings["control"] = job.path("train_single", "metrics.jsonl")
    curves = {name: curve(path) for name, path in trainings.items()}
    outcome = Outcome(results["tasks"] * (len(arms) + len(controls)), results["tasks"])
    results |= totals(outcome)
    # Made by every run of this stage from the other stages' files, so a folder cut short is not kept.
    build.build([str(job.out)], job.path("report"), seed=job.seed, progress=job.view)
    page.write(
        job.path("report.html"), results, curves=curves,
        model_card=card.read_text(encoding="utf-8") if card.exists() else None,
        card_link=os.path.relpath(card, job.out) if card.exists() else None,
        details="report/index.html",
    )  # fmt: skip
    atomic_write(job.path("results.json"), json.dumps(results, indent=2) + "\n")
    return outcome


def slot_names() -> tuple[str, ...]:
    from cobalt.tasks import tiny

    return tiny.SLOTS


def curve(metrics: Path) -> list[dict[str, float]]:
    """Share of right programs by training step."""
    return [{"step": row["step"], "solved": row["reward/acc"]} for _, row in read_jsonl(metrics)]
