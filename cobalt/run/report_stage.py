"""The last stage: statistics, `results.json`, the page, and a report for every set of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from cobalt.evaluation.evaluate import summary_path
from cobalt.evaluation.origin import data_words
from cobalt.files import atomic_write
from cobalt.manifest import versions
from cobalt.rows import read_rows
from cobalt.run.eval_stages import (
    ARMS,
    control_files,
    errors,
    evaluated,
    findings,
    models,
    perturbed_rows,
)
from cobalt.run.job import Job
from cobalt.run.runner import Runner
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.stats import RESAMPLES, SEED


def report_stage(job: Job, runner: Runner) -> Stage:
    """The report on what the stages of `runner` have made."""
    sets, arms = job.config.evaluate.sets, models(job)
    found = [evaluated(job, name, number) for number in range(len(sets)) for name in arms]
    pages = [job.path("report", "index.html")]
    pages += [job.path(f"report_{each.name}", "index.html") for each in sets[1:]]
    if job.config.perturb is not None:
        found += [*(perturbed_rows(job, name) for name in ARMS), *findings(job)]
        pages.append(job.path("report_perturbed", "index.html"))
    return Stage(
        "report", "report", run=lambda: _report(job, runner), common=False,
        inputs=[*found, *control_files(job).values(), *_curves(job).values()],
        outputs=[job.path("results.json"), job.path("report.html"), *pages],
        settings={"intervals": [RESAMPLES, SEED], "name": job.config.name},
    )  # fmt: skip


def _curves(job: Job) -> dict[str, Path]:
    """Metrics of the trainings, by what the page calls them."""
    found = {"cobalt": job.path("train", "metrics.jsonl")}
    if job.config.controls.single_turn_training:
        found["control"] = job.path("train_single", "metrics.jsonl")
    return found


def _report(job: Job, runner: Runner) -> Outcome:
    from cobalt.report.render import write_run_page
    from cobalt.report.results import SCHEMA, statistics, wrong_test_examples
    from cobalt.tasks import tiny

    controls, arms = control_files(job), models(job)
    best = controls.pop("best_of_turns", None)
    files = {name: evaluated(job, name) for name in arms}
    rates = None if best is None else {row["id"]: row["right"] for _, row in read_rows(best)}
    others = {name: path for name, path in files.items() if name not in ("reference", "cobalt")}

    def facts(stage: str) -> dict[str, Any]:
        found: dict[str, Any] = (runner.kept.read(stage) or {}).get("facts", {})
        return found

    slots = tiny.SLOTS if job.config.tasks.family == "tiny" else ()
    results: dict[str, Any] = {
        "schema": SCHEMA,
        "name": job.config.name,
        "recipe": job.config.train.recipe,
        "smoke": job.smoke,
        "model": job.about["model"],
        "changed": job.about["changed"],
        "set": job.config.evaluate.sets[0].name,
        "data": data_words(
            job.config.evaluate.sets[0].name, job.config.evaluate.sets[0].source, job.config.tasks.family
        ),
        "seed": job.seed,
        "task_seed": job.task_seed,
        **statistics(files["reference"], files["cobalt"], others | controls, rates, slots),
        "sets": facts("evaluate").get("pass_at_1", {}),
        "family_hash": job.family_hash,
        "model_sha256": job.model_sha256,
        "versions": versions(),
    }
    if job.config.perturb is not None:
        dialogues = {name: perturbed_rows(job, name) for name in ARMS}
        summaries = {name: json.loads(summary_path(errors(job, name)).read_text()) for name in ARMS}
        places = {name: found["places"] for name, found in summaries.items()}
        results["perturbed"] = {
            "pass_at_1": facts("perturb").get("pass_at_1", {}), "kind": job.config.perturb.kind,
            "examples": wrong_test_examples(dialogues, places),
        }  # fmt: skip
        results["hacking"] = facts("hack_analysis")
    outcome = Outcome(results["tasks"] * (len(arms) + len(controls)), results["tasks"])
    results |= _totals(job, runner, outcome)
    further = _pages(job)
    card = None if isinstance(job.model, str) else job.model / "README.md"
    if card is not None and not card.exists():
        card = None
    if job.view is not None:
        job.view.leave_page()
    write_run_page(
        job.path("report.html"), results,
        curves={name: [row for _, row in read_rows(path)] for name, path in _curves(job).items()},
        model_card=None if card is None else card.read_text(encoding="utf-8"),
        card_link=None if card is None else os.path.relpath(card, job.out),
        details="report/index.html", further=further,
    )  # fmt: skip
    atomic_write(job.path("results.json"), json.dumps(results, indent=2) + "\n")
    return outcome


def _pages(job: Job) -> dict[str, str]:
    """A report for each set of tasks; returns the addresses of the others, by what they are about.

    They are made by every run of this stage from the other stages' files, so a folder cut short is not kept.
    """
    from cobalt.report.build import build

    trained = Path(job.config.train.recipe).stem
    made = {"": [str(job.out)]}

    def named(path: Callable[[str], Path], names: Any) -> list[str]:
        """The trained model is called by its recipe."""
        return [f"{trained if name == 'cobalt' else name}={path(name)}" for name in names]

    for number, each in enumerate(job.config.evaluate.sets):
        if number:
            made[each.name] = named(lambda name, at=number: evaluated(job, name, at), models(job))  # type: ignore[misc]
    if job.config.perturb is not None:
        # A judge that was asked about no case leaves an empty file.
        filled = [path for path in findings(job) if path.stat().st_size or "_errors" in path.name]
        made["perturbed"] = [*named(lambda name: perturbed_rows(job, name), ARMS), *map(str, filled)]
    further = {}
    for name, arguments in made.items():
        folder = f"report_{name}" if name else "report"
        build(arguments, job.path(folder), progress=job.view)
        if name:
            said = "perturbed tests" if name == "perturbed" else name.replace("_", " ")
            further[said] = f"{folder}/index.html"
    return further


def _totals(job: Job, runner: Runner, report: Outcome) -> dict[str, Any]:
    """The part of `results.json` that tells what the run took, the report stage (`report`: its rows)
    included.
    """
    rows = {"rows_in": report.rows_in, "rows_out": report.rows_out}
    records = {record["name"]: record for record in runner.records()} | {"report": runner.so_far() | rows}
    ordered = [records[stage.name] for stage in runner.stages if stage.name in records]
    trained = [record for record in ordered if record["name"].startswith("train")]
    first = next(record["facts"] for record in trained if record["name"] == "train")
    # Counters of a training's own processes come from the training itself.
    counts = [record["counters"] for record in ordered] + [record["facts"]["evaluator"] for record in trained]
    tests = {
        name: round(sum(part.get(name, 0) for part in counts)) for name in ("tests", "shared", "infra_errors")
    }
    return {
        "stages": [
            {name: record[name] for name in ("name", "wall_s", "rows_in", "rows_out")} for record in ordered
        ],
        "wall_s": round(sum(record["wall_s"] for record in ordered) + runner.between_s(), 2),
        "peak_memory_mib": round(max(record["peak_mib"] for record in ordered), 1),
        "evaluator": tests | {"isolation": job.evaluator.isolation},
        "training": {
            "trainer": "verl",
            "verl": metadata.version("verl"),
            "steps": first["steps"],
            "samples": first["samples"],
            "masked": sum(record["facts"]["masked"] for record in trained),
            "functions": first["plan"].get("functions", {}),
            "side_by_side": any(stage.beside is not None for stage in runner.stages),
        },
    }
