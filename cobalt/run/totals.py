"""What a run took in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.run.job import Job
from cobalt.run.runner import Runner
from cobalt.run.stage import Outcome


def totals(job: Job, runner: Runner, report: Outcome) -> dict[str, Any]:
    """The part of `results.json` that tells what the run took, the report stage (`report`: its rows)
    included.
    """
    rows = {"rows_in": report.rows_in, "rows_out": report.rows_out}
    records = {record["name"]: record for record in runner.records()} | {"report": runner.so_far() | rows}
    ordered = [records[stage.name] for stage in runner.stages if stage.name in records]
    trained = [record for record in ordered if record["name"].startswith("train")]
    first = next(record["facts"] for record in trained if record["name"] == "train")
    return {
        "stages": [
            {name: record[name] for name in ("name", "wall_s", "cpu_s", "rows_in", "rows_out")}
            for record in ordered
        ],
        "wall_s": round(sum(record["wall_s"] for record in ordered) + runner.between_s(), 2),
        "peak_memory_mib": round(max(record["peak_mib"] for record in ordered), 1),
        "evaluator": _evaluator(job, ordered, trained),
        "training": {
            "trainer": "verl",
            "verl": _version("verl"),
            "steps": first["steps"],
            "samples": first["samples"],
            "masked": sum(record["facts"]["masked"] for record in trained),
            "side_by_side": any(stage.beside is not None for stage in runner.stages),
        },
    }


def _evaluator(
    job: Job, records: Sequence[Mapping[str, Any]], trained: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Counters of all stages; those of training processes come from the trainings themselves."""
    parts = [record["counters"] for record in records] + [record["facts"]["evaluator"] for record in trained]
    names = ("tests", "shared", "infra_errors")
    summed = {name: round(sum(part.get(name, 0) for part in parts)) for name in names}
    return summed | {"isolation": job.evaluator.isolation}


def _version(package: str) -> str:
    from importlib import metadata

    return metadata.version(package)
