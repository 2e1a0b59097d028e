"""The last stage: statistics, `results.json`, the page, and a report for every set of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write
from cobalt.manifest import versions
from cobalt.rows import read_rows
from cobalt.run.findings import control_files, evaluated, models
from cobalt.run.hacking import ARMS, errors, perturbed_rows, verdicts
from cobalt.run.job import Job
from cobalt.run.stage import Outcome, Records, Stage
from cobalt.run.stages import stage


def report_stage(job: Job, totals: Callable[[Outcome], dict[str, Any]]) -> Stage:
    """The report. `totals`: seconds, memory and counters of the run so far."""
    sets, arms = job.config.evaluate.sets, models(job)
    curves = [job.path(name, "metrics.jsonl") for name in ("train", "train_single")][: len(arms) - 1]
    found = [evaluated(job, name, number) for number in range(len(sets)) for name in arms]
    pages = [job.path("report", "index.html")]
    pages += [job.path(f"report_{each.name}", "index.html") for each in sets[1:]]
    if job.config.perturb is not None:
        found += [path for name in ARMS for path in (perturbed_rows(job, name), errors(job, name))]
        pages.append(job.path("report_perturbed", "index.html"))
    return stage(
        job, "report", "report", run=lambda: _report(job, totals), common=False,
        inputs=[*found, *control_files(job).values(), *curves],
        outputs=[job.path("results.json"), job.path("report.html"), *pages],
        settings={"seed": job.seed, "name": job.config.name},
    )  # fmt: skip


def _report(job: Job, totals: Callable[[Outcome], dict[str, Any]]) -> Outcome:
    from cobalt.report import page
    from cobalt.report.results import SCHEMA, Evaluations, statistics

    controls, arms = control_files(job), models(job)
    best = controls.pop("best_of_turns", None)
    files = {name: evaluated(job, name) for name in arms}
    rates = None if best is None else {row["id"]: row["right"] for _, row in read_rows(best)}
    others = {name: path for name, path in files.items() if name not in ("reference", "cobalt")}
    found = Evaluations(files["reference"], files["cobalt"], others | controls, rates)
    results = {
        "schema": SCHEMA,
        "name": job.config.name,
        "recipe": job.config.train.recipe,
        "smoke": job.smoke,
        "set": job.config.evaluate.sets[0].name,
        "seed": job.seed,
        "task_seed": job.task_seed,
        **statistics(found, slot_names(job), seed=job.seed),
        **_further(job),
        "family_hash": job.family_hash,
        "model_sha256": job.model_sha256,
        "versions": versions(),
    }
    outcome = Outcome(results["tasks"] * (len(arms) + len(controls)), results["tasks"])
    results |= totals(outcome)
    _pages(job)
    trainings = {"cobalt": job.path("train", "metrics.jsonl")}
    if job.config.controls.single_turn_training:
        trainings["control"] = job.path("train_single", "metrics.jsonl")
    card = None if isinstance(job.model, str) else job.model / "README.md"
    known = card is not None and card.exists()
    page.write(
        job.path("report.html"), results, curves={name: curve(path) for name, path in trainings.items()},
        model_card=card.read_text(encoding="utf-8") if card is not None and known else None,
        card_link=os.path.relpath(card, job.out) if card is not None and known else None,
        details="report/index.html", further=_addresses(job),
    )  # fmt: skip
    atomic_write(job.path("results.json"), json.dumps(results, indent=2) + "\n")
    return outcome


def _further(job: Job) -> dict[str, Any]:
    """Pass@1 on the other sets and on perturbed tasks, and what was found there, from the stages' records."""
    records = Records(job.out)
    facts = {
        name: (records.read(name) or {}).get("facts", {}) for name in ("evaluate", "perturb", "hack_analysis")
    }
    made: dict[str, Any] = {"sets": facts["evaluate"].get("pass_at_1", {})}
    if job.config.perturb is not None:
        made["perturbed"] = {"pass_at_1": facts["perturb"].get("pass_at_1", {})}
        made["hacking"] = facts["hack_analysis"]
    return made


def _pages(job: Job) -> None:
    """A report for each set of tasks. They are made by every run of this stage from the other stages' files,
    so a folder cut short is not kept.
    """
    from cobalt.report import build

    seed, view, label = job.seed, job.view, Path(job.config.train.recipe).stem
    build.build([str(job.out)], job.path("report"), seed=seed, progress=view)
    for number, each in enumerate(job.config.evaluate.sets):
        if number:
            named = [f"{_label(name, label)}={evaluated(job, name, number)}" for name in models(job)]
            build.build(named, job.path(f"report_{each.name}"), seed=seed, progress=view)
    if job.config.perturb is not None:
        named = [f"{_label(name, label)}={perturbed_rows(job, name)}" for name in ARMS]
        cases = [errors(job, name) for name in ARMS]
        judged = [verdicts(job, name) for name in ARMS if verdicts(job, name).exists()]
        build.build(
            [*named, *map(str, [*cases, *judged])], job.path("report_perturbed"), seed=seed, progress=view
        )


def _addresses(job: Job) -> dict[str, str]:
    """The reports beside the first, by what they are about."""
    made = {
        each.name.replace("_", " "): f"report_{each.name}/index.html" for each in job.config.evaluate.sets[1:]
    }
    return made | ({"perturbed tests": "report_perturbed/index.html"} if job.config.perturb else {})


def _label(name: str, recipe: str) -> str:
    """The trained model is called by its recipe."""
    return recipe if name == "cobalt" else name


def slot_names(job: Job) -> tuple[str, ...]:
    """What a statement may leave vague: known of the tiny family only."""
    if job.config.tasks.family != "tiny":
        return ()
    from cobalt.tasks import tiny

    return tiny.SLOTS


def curve(metrics: Path) -> list[dict[str, float]]:
    """Share of right programs by training step; none for a training that samples nothing."""
    found = [row for _, row in read_rows(metrics)]
    return [
        {"step": row["step"], "solved": row["reward/acc"]}
        for row in found
        if row.get("reward/acc") is not None
    ]
