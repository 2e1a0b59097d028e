"""The command line of a run: check everything, then do what is left, then show the result."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cobalt.cli import Parser, TerminalProgress, make_progress, parser, tell
from cobalt.config.load import load, model_at
from cobalt.errors import InputError
from cobalt.report.results import read_results
from cobalt.report.terminal import ENDS, show
from cobalt.run.checks import check
from cobalt.run.data_stages import data_stages
from cobalt.run.eval_stages import control_stages, evaluate_stage, hacking_stages
from cobalt.run.folder import Folder
from cobalt.run.job import Job
from cobalt.run.live_page import LivePage
from cobalt.run.report_stage import report_stage
from cobalt.run.runner import Runner
from cobalt.run.stage_cache import Records, Shared, Stage
from cobalt.run.trainings import training_stages
from cobalt.run.view import View, duration


def _flags() -> Parser:
    flags = parser("Run the stages of a configuration, continuing where an earlier run stopped.")
    flags.add_argument("config", type=Path, help="YAML file, for instance configs/tiny.yaml")
    flags.add_argument("--out", type=Path, required=True, help="folder of this run; run again to continue")
    flags.add_argument("--seed", type=int, default=0, help="of sampling and training")
    flags.add_argument("--task_seed", type=int, default=0, help="of the tasks drawn")
    flags.add_argument("--fresh", action="store_true", help="delete the run in the folder and start again")
    flags.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings",
        help="change the configuration, checked as the file is; may be repeated",
    )  # fmt: skip
    flags.add_argument("--from", metavar="STAGE", dest="begin", help="begin with this stage")
    flags.add_argument("--until", metavar="STAGE", help="end with this stage")
    flags.add_argument("--only", metavar="STAGE", help="this stage alone")
    flags.add_argument(
        "--dry_run", action="store_true",
        help="check everything, say which stages would run and what the run costs, start nothing",
    )  # fmt: skip
    flags.add_argument(
        "--anyway", action="store_true",
        help="start although something that the run needs is lacking here; of a dry run: exit code 0",
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
    flags.add_argument(
        "--end", choices=ENDS, default="table",
        help="what a finished run prints: its finding in a line, one table with it, or all tables",
    )  # fmt: skip
    return flags


def main(argv: list[str] | None = None) -> int:
    """Run a configuration; returns the exit code."""
    args = _flags().parse_args(argv)
    config = load(args.config, args.settings, smoke=args.smoke)
    model, shared = model_at(config.model.path, args.config), Shared(args.share)
    how = {"smoke": args.smoke, "changed": args.settings, "seed": args.seed, "task_seed": args.task_seed}
    with (
        Job(config, model, args.out, file=args.config, shared=shared, **how) as job,
        assembled(job) as runner,
    ):
        runner.only = ask(runner, args.begin, args.until, args.only)
        folder = Folder(args.out, job.identity(), job.about)
        to_do = [stage.name for stage in runner.chosen if args.fresh or runner.kept.why(stage)]
        folder.check(fresh=args.fresh, changed=args.changed)
        if args.dry_run:
            return _dry_run(job, runner, to_do, anyway=args.anyway)
        if to_do:
            found = check(job, to_do, dry=False)
            tell([], found.doubts + (found.lacking if args.anyway else []))
            if found.lacking and not args.anyway:
                raise InputError(
                    "this run cannot end here (--anyway starts it all the same): " + "; ".join(found.lacking)
                )
        with folder.opened(fresh=args.fresh, changed=args.changed):
            return _run(job, runner, args.end)


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


def _dry_run(job: Job, runner: Runner, to_do: Sequence[str], *, anyway: bool) -> int:
    from cobalt.plan.estimate import estimate
    from cobalt.plan.from_config import workload

    found = check(job, to_do, dry=True)
    sound = "is sound" if not found.lacking else "cannot run here as it is (the last lines say why)"
    print(f"{job.file} {sound}; the run in {job.out} would have these stages:")
    for name, why in job.config.skipped:
        print(f"  {name}  skipped: {why}")
    print("\n".join(stage_lines(runner.chosen, runner.kept, job.shared)))
    print(f"\ncost plan (`cobalt plan {job.file}` shows the arithmetic):")
    for line in estimate(workload(job.config, job.file)).summary():
        print(f"  {line}".rstrip())
    print("", *found.lines(), sep="\n")
    return 1 if found.lacking and not anyway else 0


def _run(job: Job, runner: Runner, end: str) -> int:
    out = Console()
    if not out.is_terminal:
        out.width = 110
    finished, last = runner.finished(), runner.chosen[-1].name
    check_earlier(runner)
    if finished:
        what = f"The run in {job.out}" if runner.only is None else f"What was asked for in {job.out}"
        out.print(f"{what} is finished and nothing has changed.", style="green", soft_wrap=True)
    else:
        page = job.path("report.html")
        out.print(f"{page} shows how far it is; open it in a browser.", soft_wrap=True, highlight=False)
        _work(job, runner)
    if last == "report":
        show(read_results(job.path("results.json")), job.out, out, end)
    elif not finished:
        out.print("What was asked for is done. The same command without --from, --until and --only goes on.")
    return 0


def _work(job: Job, runner: Runner) -> None:
    stdout = sys.stdout
    try:
        # What libraries print goes to a file; warnings and errors go to stderr as ever.
        with (
            make_progress(stdout) as shown,
            open(job.path("run.log"), "a") as log,
            contextlib.redirect_stdout(log),
            _page(job, runner) as page,
        ):
            bars = shown if isinstance(shown, TerminalProgress) else None
            job.view = View(runner.stages, stdout, bars=bars, page=page)
            runner.run(job.view)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"after {duration(runner.wall_s())}. What is done is kept in {job.out}; "
            "the same command continues from there"
        ) from None


def _page(job: Job, runner: Runner) -> contextlib.AbstractContextManager[LivePage | None]:
    """The page of the run under way; None where a part runs that leaves the page of a finished run alone."""
    report = runner.stages[-1]
    if report not in runner.chosen and runner.kept.why(report) is None:
        return contextlib.nullcontext()
    facts = {
        "configuration": job.config.name,
        "recipe": job.config.train.recipe,
        "model": job.about["model"],
        "folder": job.out,
    }
    known = [
        each.name for each in runner.stages if each not in runner.chosen and runner.kept.why(each) is None
    ]
    return LivePage(
        job.path("report.html"), facts, runner.stages, smoke=job.smoke, known=known, last=report.name
    )


def ask(runner: Runner, begin: str | None, end: str | None, only: str | None) -> Sequence[Stage] | None:
    """The stages from one until another, None for all. Raises InputError for a name that is no stage here."""
    if begin is None and end is None and only is None:
        return None
    if only is not None and (begin or end):
        raise InputError("--only goes with neither --from nor --until")
    names = [stage.name for stage in runner.stages]
    first, last = (_place(name, names) for name in (only or begin or names[0], only or end or names[-1]))
    if first > last:
        raise InputError(f"--from {begin} --until {end}: {names[first]} comes after {names[last]}")
    return runner.stages[first : last + 1]


def _place(given: str, names: Sequence[str]) -> int:
    name = given.replace("-", "_")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"this run has no stage '{given}'; {advice}There are: {', '.join(names)}")
    return names.index(name)


def check_earlier(runner: Runner) -> None:
    """Raises InputError unless the stages that those asked for build on are done and unchanged."""
    needed = list(runner.chosen)
    for stage in reversed(runner.stages):  # a stage reads only what stands before it
        if stage in needed:
            continue
        if any(each.needs(stage) for each in needed):
            needed.append(stage)
            why = runner.kept.why(stage)
            if why is not None:
                raise InputError(
                    f"{runner.chosen[0].name} builds on stage {stage.name}, which must run first ({why}); "
                    f"run it with --from {stage.name}, or leave --from and --only out"
                )


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
