"""TACO-verified to tasks: filter, check with reference programs, split (`preproc/preproc_taco.py`).

Which tests are public and which tasks are for development was not published; these rules are ours.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Progress, make_progress, parser, tell
from cobalt.convert import Rejects, bad_row_flag, checked, record
from cobalt.errors import InputError
from cobalt.evaluator import Evaluator, connect
from cobalt.evaluator.client import evaluator_flags
from cobalt.files import StrPath, existing_parent, replacing
from cobalt.output import refuse_overwriting
from cobalt.prompts import Prompts, load, prompts_flag
from cobalt.rows import INPUT_HELP, Row, Rows, UniqueIds, as_rows, encode_row, open_rows
from cobalt.tasks.overlap import Overlap, list_overlaps
from cobalt.tasks.taco_rows import (
    FUNCTIONAL,
    MAX_SOLUTIONS,
    MIN_TESTS,
    RULES,
    Functional,
    TacoTask,
    TaskSpool,
    filter_row,
    verify,
)
from cobalt.testcases import NUM_PUBLIC

SPLITS = ("train", "dev")
PUBLIC_RULE = "the first tests are public, the others hidden"
DEV_RULE = (
    "statements in random order go to dev while they fit; statements that differ in letter case, spaces or "
    "punctuation only are one"
)
DEV_SIZE = 250
DEFAULT_INPUT = "likaixin/TACO-verified"
DEFAULT_OUTPUT = "verl/data/taco_verified_filtered.jsonl"  # as published


@dataclass(frozen=True)
class TacoSettings:
    """What determines the tasks, beside the input. Raises InputError for values that cannot be used.

    `max_solutions`: reference programs tried per task, 0 for none. `require_verified`: drop tasks of which
    none passes. `num_public`: tests shown to the model. `dev_size`: see `choose_dev`. `functional`: see
    `filter_row`.
    """

    seed: int = 42
    max_solutions: int = MAX_SOLUTIONS
    require_verified: bool = False
    num_public: int = NUM_PUBLIC
    dev_size: int = DEV_SIZE
    functional: Functional = "stdin"
    prompts: Prompts = field(default_factory=lambda: load("default"), repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.num_public < MIN_TESTS:
            raise InputError(
                f"--num_public must be from 1 to {MIN_TESTS - 1}, got {self.num_public}: every task has at "
                f"least {MIN_TESTS} tests, some of which must stay hidden"
            )
        if self.dev_size < 0 or self.max_solutions < 0:
            raise InputError("--dev_size and --max_solutions must not be negative")
        if self.require_verified and not self.max_solutions:
            raise InputError("--require_verified needs --max_solutions of at least 1")


@dataclass
class TacoSummary:
    """What came out: rows read and dropped by rule, tasks by verdict and split, notes."""

    rows_in: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    rows_out: int = 0
    verified: dict[str, int] = field(default_factory=lambda: {"true": 0, "false": 0, "null": 0})
    functional: int = 0
    splits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    duplicates: int = 0
    bad_rows: int = 0
    warnings: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """For the manifest."""
        rows = {"rows_in": self.rows_in, "bad": self.bad_rows, **self.dropped, "rows_out": self.rows_out}
        names = ("verified", "functional", "splits", "duplicates")
        return {"funnel": rows} | {name: getattr(self, name) for name in names}

    def funnel(self) -> list[str]:
        """The report for a terminal: rows in, dropped by each rule, out."""
        lines = [f"{'rows in':<12}{self.rows_in:>9}"]
        if self.bad_rows:
            lines.append(f"{'  bad':<12}{-self.bad_rows:>9}  see the list of rejects")
        lines += [f"{'  ' + rule:<12}{-self.dropped[rule]:>9}  {why}" for rule, why in RULES.items()]
        lines.append(f"{'rows out':<12}{self.rows_out:>9}  ({self.functional} ask for a function)")
        lines.append("verified: " + ", ".join(f"{count} {name}" for name, count in self.verified.items()))
        sizes = ", ".join(f"{count} {name}" for name, count in self.splits.items())
        lines.append(f"splits: {sizes} ({self.duplicates} statements occur more than once)")
        return lines


def split_path(output: StrPath, split: str) -> Path:
    """``data/x.jsonl`` -> ``data/x_train.jsonl``."""
    return Path(output).with_stem(f"{Path(output).stem}_{split}")


def build_taco(
    source: Rows | StrPath,
    output: StrPath,
    settings: TacoSettings | None = None,
    *,
    evaluator: Callable[[], Evaluator] | None = None,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> TacoSummary:
    """Filter, verify, wrap and split; replaces ``output`` and its ``_train`` and ``_dev`` files atomically.

    A row is read and parsed once; the tasks wait in an unnamed file beside the output, so memory grows by
    some hundred bytes a task. `evaluator` gives the judge of reference programs once the input has been found
    good (needed unless `settings.max_solutions` is 0); verdicts are kept in ``OUTPUT.verdicts.jsonl``.

    Raises InputError for an input that cannot be used (``file:line``, field), before the outputs have been
    changed; SettingsChanged if verdicts of other settings or another input are there; InfraError if programs
    got no verdict.
    """
    source = as_rows(source)
    settings, summary = settings or TacoSettings(), TacoSummary()
    output = Path(output)
    targets = {"all": output} | {split: split_path(output, split) for split in SPLITS}
    refuse_overwriting(source.paths, *targets.values())
    rejects = Rejects(output, on_bad_row)
    with TaskSpool(existing_parent(output)) as tasks:
        _filter(source, tasks, settings, rejects, summary, progress)
        verdicts: dict[str | int, bool | None] = {}
        if settings.max_solutions:
            assert evaluator is not None
            asked = ("seed", "max_solutions", "functional")
            determined = {name: getattr(settings, name) for name in asked} | {"input_sha256": source.sha256}
            verdicts = asyncio.run(verify(tasks, evaluator(), output, determined, progress))
        with ExitStack() as stack:
            handles = {name: stack.enter_context(replacing(path)) for name, path in targets.items()}
            for split, row in _rows(tasks, verdicts, settings, summary):
                for name in ("all", split):
                    handles[name].write(encode_row(row))
    rejects.close()
    names = ("seed", "max_solutions", "require_verified", "num_public", "dev_size", "functional")
    recorded = {name: getattr(settings, name) for name in names} | {
        "stage": "tasks from TACO",
        "public_rule": PUBLIC_RULE,
        "dev_rule": DEV_RULE,
        "prompts": settings.prompts.sha256,
        "on_bad_row": on_bad_row,
    }
    for name, path in targets.items():
        record(path, source, recorded | {"split": name}, summary.counts(), warnings=summary.warnings)
    return summary


def _filter(
    source: Rows,
    tasks: TaskSpool,
    settings: TacoSettings,
    rejects: Rejects,
    summary: TacoSummary,
    progress: Progress | None,
) -> None:
    """Apply the filters, count, and keep the tasks."""
    ids = UniqueIds()

    def convert(row: Row, where: str) -> TacoTask | str:
        found = filter_row(row, where, settings.functional)
        ids(row, where)
        return found

    for _, found in checked(source, rejects, convert):
        summary.rows_in += 1
        if isinstance(found, str):
            summary.dropped[found] += 1
        else:
            tasks.add(found)
        if progress is not None and summary.rows_in % 100 == 0:
            progress.advance("filter", summary.rows_in, None, kept=len(tasks))
    summary.bad_rows = len(rejects)
    summary.rows_in += summary.bad_rows
    if summary.rows_in == summary.bad_rows:
        used = [f" that can be used; the first: {row['error']}" for row in rejects.rows.values()]
        raise InputError(f"{source.name} holds no row{used[0] if used else 's'}")


def choose_dev(keys: Iterable[bytes], dev_size: int, seed: int) -> set[bytes]:
    """Statements of the development split: ``dev_size`` tasks, or as close below as whole groups allow.

    ``keys`` has one `statement_key` per task. At most half of the tasks are taken, however few there are.
    """
    sizes = Counter(keys)
    order = sorted(sizes)
    random.Random(f"dev {seed}").shuffle(order)
    room, chosen = min(dev_size, sizes.total() // 2), set[bytes]()
    for key in order:
        if sizes[key] <= room:
            chosen.add(key)
            room -= sizes[key]
    return chosen


def _rows(
    tasks: TaskSpool, verdicts: dict[str | int, bool | None], settings: TacoSettings, summary: TacoSummary
) -> Iterator[tuple[str, Row]]:
    """(split, row to write)."""
    kept = {
        task_id: key
        for task_id, key in tasks.statements.items()
        if not settings.require_verified or verdicts.get(task_id) is True
    }
    dev = choose_dev(kept.values(), settings.dev_size, settings.seed)
    summary.duplicates = len(kept) - len(set(kept.values()))
    for task in (row["task"] for row in tasks):
        if task.task_id not in kept:
            summary.dropped["unverified"] += 1
            continue
        split = "dev" if kept[task.task_id] in dev else "train"
        verified = verdicts.get(task.task_id)
        summary.rows_out += 1
        summary.splits[split] += 1
        summary.functional += task.fn_name is not None
        summary.verified["null" if verified is None else str(verified).lower()] += 1
        yield split, task.row(verified, settings.prompts, settings.num_public)
    if not summary.rows_out:
        summary.warnings.append("no task is left: the files are empty")
    elif summary.splits["dev"] < settings.dev_size:
        summary.warnings.append(
            f"dev has {summary.splits['dev']} tasks instead of --dev_size {settings.dev_size}: "
            f"at most half of the {summary.rows_out} tasks are taken"
        )


def main(argv: list[str] | None = None) -> int:
    flags = parser("Filter TACO-verified into tasks, check them with their reference solutions, split them.")
    flags.add_argument("-i", "--input_file", default=DEFAULT_INPUT, help=INPUT_HELP)
    flags.add_argument(
        "-o", "--output_file", default=DEFAULT_OUTPUT, help="JSONL of all tasks; _train and _dev beside it"
    )
    flags.add_argument(
        "--max_solutions", type=int, default=MAX_SOLUTIONS,
        help="reference solutions tried per task until one passes; 0 runs none (verified is null)",
    )  # fmt: skip
    flags.add_argument(
        "--require_verified", action="store_true", help="drop tasks of which no reference solution passes"
    )
    flags.add_argument(
        "--functional", choices=FUNCTIONAL, default="stdin",
        help="tasks that ask for a function: tests as texts (published), as real calls, or dropped",
    )  # fmt: skip
    flags.add_argument(
        "--num_public", type=int, default=NUM_PUBLIC, help="tests shown to the model: the first"
    )
    flags.add_argument("--dev_size", type=int, default=DEV_SIZE, help="tasks of the development split")
    flags.add_argument("--seed", type=int, default=42, help="of the split and of the order of solutions")
    flags.add_argument(
        "--decontaminate", metavar="FILE",
        help="LiveCodeBench file: list tasks that share sequences of 13 words with its problems",
    )  # fmt: skip
    prompts_flag(flags)
    evaluator_flags(flags)
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    settings = TacoSettings(
        seed=args.seed, max_solutions=args.max_solutions, require_verified=args.require_verified,
        num_public=args.num_public, dev_size=args.dev_size, functional=args.functional,
        prompts=load(args.prompts),
    )  # fmt: skip
    problems = None if args.decontaminate is None else Overlap(open_rows(args.decontaminate))
    with ExitStack() as stack:
        summary = build_taco(
            open_rows(args.input_file), args.output_file, settings, on_bad_row=args.on_bad_row,
            evaluator=lambda: stack.enter_context(connect(args.evaluator, workers=args.workers)),
            progress=stack.enter_context(make_progress()),
        )  # fmt: skip
    files = [args.output_file, *(split_path(args.output_file, split) for split in SPLITS)]
    told = [*summary.funnel(), f"wrote {', '.join(map(str, files))}"]
    if problems is not None:
        told.append(list_overlaps(args.output_file, problems))
    tell(told, summary.warnings)
    return 0
