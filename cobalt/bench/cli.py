"""`cobalt bench methods`: train and compare methods on tiny tasks. `cobalt bench table`: what is there."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cobalt.bench.page import page, tables, write_page
from cobalt.bench.record import take_over, write_record
from cobalt.bench.schedule import Bench, Plan, name_of
from cobalt.bench.table import Results, draw
from cobalt.bench.trial import measured
from cobalt.cli import Parser, parser, positive_int
from cobalt.errors import InputError, SettingsChanged
from cobalt.files import atomic_write, file_sha256, plain
from cobalt.rows import read_rows
from cobalt.run.folder import Folder
from cobalt.run.job import Job
from cobalt.run.task_files import set_path, write_tasks
from cobalt.training.config import choices, is_own

OUT = Path("outputs/bench")
REFERENCE_DIALOGUES = 4  # per task, of the one evaluation of the reference that all gains are over


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _flags() -> Parser:
    flags = parser("Methods compared at equal samples and at equal seconds (docs/leaderboard.md).")
    words = flags.add_subparsers(dest="word", required=True, metavar="methods|table", parser_class=Parser)
    what = "train every method, again to continue; ends with the tables"
    add = words.add_parser("methods", help=what, description=what, formatter_class=flags.formatter_class)
    known = "recipes, or YAML files of your own (default: all recipes)"
    add.add_argument("names", nargs="*", metavar="NAME", help=known)
    add.add_argument("--config", type=Path, default=Path("configs/tiny.yaml"), help="tasks, data, sampling")
    add.add_argument("--out", type=Path, default=OUT, help="folder of this bench")
    add.add_argument("--seeds", type=positive_int, default=5, help="trainings of a method")
    add.add_argument(
        "--steps", type=positive_int, default=30,
        help="samples of a training, in steps of the configuration's contexts x completions",
    )  # fmt: skip
    add.add_argument("--rates", type=_positive, nargs="+", default=[1e-4, 4e-4], help="learning rates tried")
    add.add_argument(
        "--choice", type=_positive, default=0.33, help="share of the samples after which rates are compared"
    )
    add.add_argument(
        "--seconds", type=_positive, help="CPU seconds of a training (default: what cobalt takes at seed 0)"
    )
    add.add_argument(
        "--samples_only", action="store_true", help="compare at equal samples, not also at equal seconds"
    )
    add.add_argument("--dialogues", type=positive_int, default=1, help="per held-out task and training")
    add.add_argument("--jobs", type=positive_int, default=2, help="trainings at a time")
    add.add_argument("--max_hours", type=_positive, help="begin no training after so many hours")
    add.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings",
        help="change the configuration (not its training, which is the recipe's); may be repeated",
    )  # fmt: skip
    add.add_argument(
        "--record", type=Path, metavar="FILE", help="take over what `table --write` recorded (PAGE.json.gz)"
    )
    add.add_argument("--dry_run", action="store_true", help="check everything, print the plan, stop")
    what = "the tables and the picture of what is there"
    add = words.add_parser("table", help=what, description=what, formatter_class=flags.formatter_class)
    add.add_argument("--out", type=Path, default=OUT, help="folder of the bench")
    add.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="put them into a page, its picture and a record of all results beside it",
    )
    return flags


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt bench`; exit code 1 where a training failed or is left to be made."""
    args = _flags().parse_args(argv)
    return _table(args.out, args.write) if args.word == "table" else _methods(args)


def _methods(args: argparse.Namespace) -> int:
    names = tuple(dict.fromkeys(_method(name) for name in args.names or choices("recipe")))
    twice = [name_of(name) for name in names]
    if len({*twice}) < len(twice):
        raise InputError(f"two methods would have one name: {', '.join(sorted(twice))}")
    plan = Plan(
        args.out.resolve(), names, args.config, args.seeds, args.steps, min(1.0, args.choice),
        tuple(args.rates), args.seconds, args.dialogues, tuple(args.settings), not args.samples_only,
    )  # fmt: skip
    bench = Bench(plan, args.jobs, args.max_hours, say=lambda line: print(line, flush=True))
    jobs = {name: plan.request(name, plan.rates[0], 0, None, False).job() for name in names}
    for name, job in jobs.items():
        _check(name, job)
    first = jobs[plan.anchor]
    # What may differ between two calls in one folder is not in it: methods, seeds, how fast.
    identity = {
        "bench": {"steps": args.steps, "choice": args.choice, "rates": args.rates, "seconds": args.seconds},
        "dialogues": args.dialogues,
        "config": {key: value for key, value in first.identity()["config"].items() if key != "train"},
        "family_hash": first.family_hash, "model_sha256": first.model_sha256,
    }  # fmt: skip
    folder = Folder(plan.out, identity, {"bench": sorted(twice)})
    try:
        folder.check(fresh=False)
    except SettingsChanged as error:
        differ = str(error).partition("Nothing was changed")[0]
        raise SettingsChanged(f"{differ}Nothing was changed. Give another --out for another bench.") from None
    if args.dry_run:
        print("\n".join(_plan_lines(bench)))
        return 0
    with folder.opened(fresh=False):
        if args.record:
            print(f"{take_over(args.record, plan.out)} results of {args.record}", flush=True)
        print("\n".join(_plan_lines(bench)), flush=True)
        atomic_write(plan.out / "bench.json", json.dumps(_about(plan, first), indent=1) + "\n")
        _reference(plan, first)
        done = bench.run()
    for line in bench.failed.values():
        print(f"failed: {line}", file=sys.stderr)
    if not done:
        print("not all of it is there; the same command goes on", file=sys.stderr)
    _table(args.out, None)
    return 0 if done else 1


def _method(name: str) -> str:
    if is_own(name):
        if not Path(name).is_file():
            raise InputError(f"{name}: there is no such file")
        return str(Path(name).resolve())
    if name not in choices("recipe"):
        raise InputError(
            f"there is no recipe '{name}'; there are: {', '.join(choices('recipe'))}, or YAML files"
        )
    return name


def _check(name: str, job: Job) -> None:
    """Compose the training of a method. Raises InputError naming it for what verl or our parts refuse."""
    from cobalt.run.trainings import check_composed

    try:
        with job:
            check_composed(job)
    except InputError as error:
        raise InputError(f"{name_of(name)}: {error}") from None


def _plan_lines(bench: Bench) -> list[str]:
    plan, (_, trainings, choices_left) = bench.plan, bench.left()
    budget = bench.seconds()
    known = f"{budget:.0f}" if budget else f"what {name_of(plan.anchor)} takes at seed 0, in"
    return [
        f"{len(plan.methods)} methods x {plan.seeds} seeds: {', '.join(map(name_of, plan.methods))}",
        f"to be made: {trainings} trainings and {choices_left} for the choice of rates "
        f"({', '.join(f'{rate:g}' for rate in plan.rates)}), {bench.jobs} at a time",
        f"equal samples: {plan.request(plan.anchor, 1.0, 0, None, False).samples:,} programs"
        + (f"; equal seconds: {known} CPU seconds" if plan.timed else ""),
        f"about {bench.hours():.1f} hours; {plan.out} keeps what is done",
    ]


def _about(plan: Plan, job: Job) -> dict[str, Any]:
    """What the page says of the bench."""
    hashes = {
        "family": job.family_hash or "none", "reference": job.model_sha256,
        "configuration": file_sha256(plan.config),
    }  # fmt: skip
    return {
        "methods": plan.methods, "seeds": plan.seeds,
        "samples": plan.request(plan.anchor, 1.0, 0, None, False).samples,
        "command": shlex.join(["cobalt", *sys.argv[1:]]),
        "hashes": {name: text[:12] for name, text in hashes.items()},
        "versions": {name: version(name) for name in ("cobalt", "verl", "torch", "transformers")},
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "rates": plan.rates, "settings": plain(plan.settings), "timed": plan.timed,
    }  # fmt: skip


def _reference(plan: Plan, job: Job) -> None:
    """Evaluate the reference, once for all."""
    target = plan.out / "reference.json"
    if target.exists():
        return
    out = plan.out / "work" / "reference"
    with Job(job.config, job.model, out, seed=0, task_seed=0, file=job.file, shared=job.shared) as own:
        write_tasks(own)
        sets = plan.request(plan.anchor, plan.rates[0], 0, None, False).chosen(own)
        found = measured(own, own.model, own.path("evaluate"), sets, REFERENCE_DIALOGUES)
        groups, slots = {}, {}
        for each in sets:
            rows = [row for _, row in read_rows(set_path(own, each))]
            groups[each.name] = {str(row["id"]): str(row["group"]) for row in rows if row.get("group")}
            slots[each.name] = {str(row["id"]): row["slots"] for row in rows if row.get("slots") is not None}
    made = {"dialogues": REFERENCE_DIALOGUES, **found, "groups": groups, "slots": slots}
    atomic_write(target, json.dumps(made, indent=1) + "\n")


def _table(out: Path, write: Path | None) -> int:
    results = Results.read(out)
    if write is None:
        for words, table in tables(results):
            print(f"\n{words}, in %:\n\n{table}")
        for line in results.errors:
            print(f"failed: {line}")
        return 0
    picture = write.with_suffix(".png")
    drawn = draw(results, picture)
    write_page(write, page(results, picture.name if drawn else None))
    write_record(out, record := write.with_suffix(".json.gz"))
    count = sum(map(len, results.found.values()))
    print(f"{write}{f', {picture}' if drawn else ''} and {record}: {count} trainings")
    return 0
