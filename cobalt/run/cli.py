"""The command line of a run: check everything, then do what is left, then show the result."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console

from cobalt.cli import Parser, parser
from cobalt.config.load import check_stored, load, model_at
from cobalt.errors import InputError
from cobalt.report.results import read_results
from cobalt.report.tables import show
from cobalt.run.data_stages import data_stages
from cobalt.run.eval_stages import control_stages, evaluate_stage, hacking_stages
from cobalt.run.folder import Folder
from cobalt.run.given import check_given
from cobalt.run.job import Job
from cobalt.run.report_stage import report_stage
from cobalt.run.runner import Runner, View, duration
from cobalt.run.stage_cache import Records, Shared, Stage
from cobalt.run.trainings import check_composed, training_stages


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
    flags.add_argument("--until", metavar="STAGE", help="end with this stage")
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
        Job(config, model, args.out, file=args.config, shared=shared, smoke=args.smoke, **seeds) as job,
        assembled(job) as runner,
    ):
        runner.stages = _until(runner.stages, args.until)
        folder = Folder(args.out, job.identity())
        to_do = [stage.name for stage in runner.stages if args.fresh or runner.kept.why(stage)]
        notes = check_given(job, to_do, local_only=args.dry_run)
        if args.dry_run:
            folder.check(fresh=args.fresh, changed=args.changed)
            _dry_run(job, runner, notes)
            return 0
        check_stored(config, args.config)
        with folder.opened(fresh=args.fresh, changed=args.changed):
            return _run(job, runner)


def assembled(job: Job) -> Runner:
    """A runner with all stages of a job."""
    runner = Runner(job.out, [], job.counters, job.shared)
    runner.stages = [
        *data_stages(job),
        *training_stages(job),
        evaluate_stage(job),
        *hacking_stages(job),
        *control_stages(job),
        report_stage(job, runner),
    ]
    return runner


def _dry_run(job: Job, runner: Runner, notes: Sequence[str]) -> None:
    from cobalt.plan.estimate import estimate
    from cobalt.plan.from_config import workload

    try:
        check_stored(job.config, job.file)
    except InputError as error:
        notes = [*notes, str(error)]
    try:
        metadata.version("verl")
    except metadata.PackageNotFoundError:
        notes = [*notes, "verl is not installed here: train.overrides were not checked"]
    else:
        check_composed(job)
    print(f"{job.file} is sound; the run in {job.out} would have these stages:")
    for name, why in job.config.skipped:
        print(f"  {name}  skipped: {why}")
    print("\n".join(stage_lines(runner.stages, runner.kept, job.shared)))
    print(f"\ncost plan (`cobalt plan {job.file}` shows the arithmetic):")
    for line in estimate(workload(job.config, job.file)).summary():
        print(f"  {line}".rstrip())
    for note in notes:
        print(f"\nnot yet: {note}")


def _run(job: Job, runner: Runner) -> int:
    out = Console()
    if not out.is_terminal:
        out.width = 110
    finished, last = runner.finished(), runner.stages[-1].name
    if finished:
        until = "" if last == "report" else f" until {last}"
        said = f"The run in {job.out} is finished{until} and nothing has changed."
        out.print(said, style="green", soft_wrap=True)
    else:
        if any(stage.name.startswith("train") and runner.kept.why(stage) for stage in runner.stages):
            check_composed(job)
        _work(job, runner)
    if last == "report":
        show(read_results(job.path("results.json")), job.out, out)
        if job.smoke:
            out.print("A smoke run: that every stage works is all it shows.", style="yellow")
    elif not finished:
        out.print(f"Done until {last}. The same command without --until goes on.")
    return 0


def _work(job: Job, runner: Runner) -> None:
    job.view = View(runner.stages)
    try:
        # What libraries print goes to a file; warnings and errors go to stderr as ever.
        with open(job.path("run.log"), "a") as log, contextlib.redirect_stdout(log):
            runner.run(job.view)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"after {duration(runner.wall_s())}. What is done is kept in {job.out}; "
            "the same command continues from there"
        ) from None


def _until(stages: Sequence[Stage], last: str | None) -> Sequence[Stage]:
    """The stages until one. Raises InputError for a name that is no stage of this run."""
    names = [stage.name for stage in stages]
    name = (last or names[-1]).replace("-", "_")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"this run has no stage '{last}'; {advice}There are: {', '.join(names)}")
    return stages[: names.index(name) + 1]


def stage_lines(stages: Sequence[Stage], records: Records, shared: Shared) -> list[str]:
    """A line for each stage: runs, is kept, or is taken over, and why."""
    width = max(len(stage.name) for stage in stages)
    lines, changing = [], list[Stage]()
    for stage in stages:
        before = next((other.name for other in changing if stage.needs(other)), None)
        why = f"after {before}" if before else records.why(stage)
        said = "kept, nothing has changed"
        if why is not None:
            taken = before is None and records.has_shared(stage, shared)
            said = "taken over from another run" if taken else f"runs ({why})"
            changing.append(stage)
        lines.append(f"  {stage.name:<{width}}  {said}")
    return lines
