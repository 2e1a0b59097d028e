"""The command line of a run: check everything, then do what is left, then show the result."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from rich.console import Console

from cobalt.cli import Parser, parser
from cobalt.config.files import check_stored, model_at
from cobalt.config.load import load
from cobalt.errors import InputError
from cobalt.report.results import read_results
from cobalt.report.tables import show
from cobalt.run.data_stages import data_stages
from cobalt.run.eval_stages import control_stages, evaluate_stage
from cobalt.run.folder import Folder
from cobalt.run.given import check_given
from cobalt.run.job import Job
from cobalt.run.memory import MemoryPeak
from cobalt.run.report_stage import report_stage
from cobalt.run.reward_hacking import hacking_stages
from cobalt.run.runner import Runner
from cobalt.run.select_stages import KNOWN, check_earlier, select_stages, stage_lines
from cobalt.run.stage_cache import Shared
from cobalt.run.trainings import check_composed, training_stages
from cobalt.run.view import View, duration, lines

STAGE_HELP = f"a stage: {', '.join(KNOWN)}"


def _flags() -> Parser:
    flags = parser("Run the stages of a configuration, continuing where an earlier run stopped.")
    flags.add_argument("config", type=Path, help="YAML file, for instance configs/tiny.yaml")
    flags.add_argument("--out", type=Path, required=True, help="folder of this run; run again to continue")
    flags.add_argument("--seed", type=int, default=0, help="of sampling, training and bootstrap")
    flags.add_argument("--task_seed", type=int, default=0, help="of the tasks drawn")
    flags.add_argument("--fresh", action="store_true", help="delete the run in the folder and start again")
    flags.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings",
        help="change the configuration, checked as the file is; may be repeated",
    )  # fmt: skip
    flags.add_argument("--from", dest="begin", metavar="STAGE", help=f"begin with {STAGE_HELP}")
    flags.add_argument("--until", metavar="STAGE", help="end with this stage")
    flags.add_argument("--only", metavar="STAGE", help="this stage alone")
    flags.add_argument(
        "--dry_run", action="store_true",
        help="check everything, say which stages would run and what the run costs, start nothing",
    )  # fmt: skip
    flags.add_argument(
        "--smoke", action="store_true",
        help="the same stages with the tiny model and tasks, on two CPU cores in minutes",
    )  # fmt: skip
    flags.add_argument(
        "--changed", action="store_true",
        help="go on in the folder under other settings: stages that they do not touch are kept",
    )  # fmt: skip
    flags.add_argument(
        "--share", type=Path, metavar="FOLDER",
        help="take over outputs of stages with the same settings and inputs, and leave ours there",
    )  # fmt: skip
    return flags


def main(argv: list[str] | None = None) -> int:
    """Run a configuration; returns the exit code."""
    args = _flags().parse_args(argv)
    config = load(args.config, args.settings, smoke=args.smoke)
    model, shared = model_at(config.model.path, args.config), Shared(args.share)
    seeds = {"seed": args.seed, "task_seed": args.task_seed}
    with (
        MemoryPeak() as memory,
        Job(config, model, args.out, file=args.config, shared=shared, smoke=args.smoke, **seeds) as job,
    ):
        runner = assembled(job, memory)
        only = select_stages(runner.stages, args.begin, args.until, args.only)
        folder = Folder(args.out, job.identity())
        notes = _given(job, runner, only, args)
        if args.dry_run:
            _dry_run(job, runner, folder, only, args)
            if notes:
                print("", *notes, sep="\n")
            return 0
        check_stored(config, args.config)
        with folder.opened(fresh=args.fresh, changed=args.changed):
            return _run(job, runner, only)


def assembled(job: Job, memory: MemoryPeak) -> Runner:
    """A runner with all stages of a job."""
    runner = Runner(job.out, [], memory, job.counters, job.shared)
    runner.stages = [
        *data_stages(job),
        *training_stages(job),
        evaluate_stage(job),
        *hacking_stages(job),
        *control_stages(job),
        report_stage(job, runner),
    ]
    return runner


def _given(job: Job, runner: Runner, only: Collection[str] | None, args: argparse.Namespace) -> list[str]:
    """Check the data that the run is given, if a stage that reads them is to be done; notes for a dry run."""
    stages = runner.chosen(only)
    to_do = [stage.name for stage in stages if args.fresh or runner.kept.why(stage) is not None]
    return check_given(job, to_do, local_only=args.dry_run)


def _dry_run(
    job: Job, runner: Runner, folder: Folder, only: Collection[str] | None, args: argparse.Namespace
) -> None:
    from cobalt.plan.estimate import estimate
    from cobalt.plan.from_config import workload

    folder.check(fresh=args.fresh, changed=args.changed)
    try:
        check_stored(job.config, args.config)
    except InputError as error:
        print(f"not yet: {error}")
    try:
        metadata.version("verl")
    except metadata.PackageNotFoundError:
        print("verl is not installed here: train.overrides were not checked")
    else:
        check_composed(job)
    print(f"{args.config} is sound; the run in {job.out} would have these stages:")
    for name, why in job.config.skipped:
        print(f"  {name}  skipped: {why}")
    print("\n".join(stage_lines(runner.stages, runner.kept, only, job.shared)))
    print(f"\ncost plan (`cobalt plan {args.config}` shows the arithmetic):")
    for line in estimate(workload(job.config, job.file)).summary():
        print(f"  {line}".rstrip())


def _run(job: Job, runner: Runner, only: tuple[str, ...] | None) -> int:
    out = Console()
    if not out.is_terminal:
        out.width = 110
    finished = runner.finished(only)
    if only is not None:
        check_earlier(runner.stages, only, runner.kept)
    if finished:
        what = f"The run in {job.out}" if only is None else f"What was asked for in {job.out}"
        out.print(f"{what} is finished and nothing has changed.", style="green", soft_wrap=True)
    else:
        if any(stage.name.startswith("train") and runner.kept.why(stage) for stage in runner.chosen(only)):
            check_composed(job)
        _work(job, runner, only)
    if only is None or "report" in only:
        show(read_results(job.path("results.json")), job.out, out)
        if job.smoke:
            out.print("A smoke run: that every stage works is all it shows.", style="yellow")
    elif not finished:
        out.print(f"Done: {', '.join(only)}. The same command without --until and --only goes on.")
    return 0


def _work(job: Job, runner: Runner, only: tuple[str, ...] | None) -> None:
    view = job.view = View(lines(runner.stages, only))
    try:
        # What libraries print would break the live list; warnings and errors go to stderr as ever.
        with open(job.path("run.log"), "a") as log, contextlib.redirect_stdout(log):
            runner.run(view, only)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"after {duration(runner.wall_s())}. What is done is kept in {job.out}; "
            "the same command continues from there"
        ) from None
    finally:
        view.close()
