"""The command line of a run: check everything, then do what is left, then show the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from cobalt.flags import parser
from cobalt.report import console as tables
from cobalt.report.results import read as read_results
from cobalt.run.config import load, model_folder
from cobalt.run.findings import finding_stages
from cobalt.run.folder import Folder
from cobalt.run.job import Job
from cobalt.run.meter import Meter
from cobalt.run.runner import Outcome, Runner, lines
from cobalt.run.stages import data_stages, training_stages
from cobalt.run.view import View, duration


def main(argv: list[str] | None = None) -> int:
    """Run a configuration; returns the exit code."""
    flags = parser("Run the stages of a configuration, continuing where an earlier run stopped.")
    flags.add_argument("config", type=Path, help="YAML file, for instance configs/tiny.yaml")
    flags.add_argument("--out", type=Path, required=True, help="folder of this run; run again to continue")
    flags.add_argument("--seed", type=int, default=0, help="of sampling, training and bootstrap")
    flags.add_argument("--task_seed", type=int, default=0, help="of the tasks drawn")
    flags.add_argument("--fresh", action="store_true", help="delete the run in the folder and start again")
    args = flags.parse_args(argv)
    config = load(args.config)
    model = model_folder(config, args.config)
    with (
        Meter(whole_process=True) as meter,
        Job(config, model, args.out, seed=args.seed, task_seed=args.task_seed) as job,
        Folder(args.out, job.identity()).opened(fresh=args.fresh),
    ):
        return _run(job, meter)


def _run(job: Job, meter: Meter) -> int:
    runner = Runner(job.out, [], meter, job.counters)
    runner.stages = [
        *data_stages(job),
        *training_stages(job),
        *finding_stages(job, lambda report: totals(job, runner, report)),
    ]
    out = Console()
    if not out.is_terminal:
        out.width = 110
    finished = runner.finished()
    if finished:
        said = f"The run in {job.out} is finished and nothing has changed. Its result:"
        out.print(said, style="green", soft_wrap=True)
    else:
        view = job.view = View(lines(runner.stages))
        try:
            # What libraries print would break the live list; warnings and errors go to stderr as ever.
            with open(job.path("run.log"), "a") as log, contextlib.redirect_stdout(log):
                runner.run(view)
        except KeyboardInterrupt:
            view.close()
            raise KeyboardInterrupt(
                f"after {duration(meter.usage().wall_s)}. What is done is kept in {job.out}; "
                "the same command (make demo) continues from there"
            ) from None
        except BaseException:
            view.close()
            raise
        view.close()
    tables.show(read_results(job.path("results.json")), job.out, out, dialogues=not finished)
    return 0


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
