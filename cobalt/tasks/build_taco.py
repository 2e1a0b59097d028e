"""The door from TACO-verified to tasks (``preproc/preproc_taco.py``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath, replacing
from cobalt.inputs import Input, Rejects, UniqueIds, checked, open_input
from cobalt.pipeline import Progress, run_rows
from cobalt.prompts import Prompts, function_statement, load
from cobalt.records import Row
from cobalt.store import encode_row, read_jsonl, write_jsonl, write_manifest
from cobalt.tasks.overlap import Overlap
from cobalt.tasks.reference import ReferenceCheck
from cobalt.tasks.splits import DEV_RULE, PUBLIC_RULE, choose_dev, divide_tests, statement_key
from cobalt.tasks.taco import FUNCTIONAL, MIN_TESTS, RULES, Functional, TacoTask, filter_row

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

SPLITS = ("train", "dev")


@dataclass(frozen=True)
class TacoSettings:
    """What determines the tasks, beside the input. Raises InputError for values that cannot be used.

    `max_solutions`: reference programs tried per task, 0 for none. `require_verified`: drop tasks of which
    none passes. `num_public`, `dev_size`, `seed`: see `cobalt.tasks.splits`. `functional`: see
    `filter_row`.
    """

    seed: int = 42
    max_solutions: int = 16
    require_verified: bool = False
    num_public: int = 4
    dev_size: int = 250
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
        if self.functional not in FUNCTIONAL:
            raise InputError(f"--functional must be one of {', '.join(FUNCTIONAL)}, got {self.functional!r}")


@dataclass
class TacoSummary:
    """What came out: rows read and dropped by rule, tasks by verdict and split, overlaps, notes."""

    rows_in: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    rows_out: int = 0
    verified: dict[str, int] = field(default_factory=lambda: {"true": 0, "false": 0, "null": 0})
    functional: int = 0
    splits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    duplicates: int = 0
    bad_rows: int = 0
    overlapping: int | None = None
    warnings: list[str] = field(default_factory=list)

    def funnel(self) -> list[str]:
        """The report for a terminal: rows in, dropped by each rule, out."""
        lines = [f"{'rows in':<12}{self.rows_in:>9}"]
        if self.bad_rows:
            lines.append(f"{'  bad':<12}{-self.bad_rows:>9}  see the list of rejects")
        lines += [f"{'  ' + rule:<12}{-self.dropped[rule]:>9}  {why}" for rule, why in RULES.items()]
        lines.append(f"{'rows out':<12}{self.rows_out:>9}  ({self.functional} ask for a function)")
        verdicts = ", ".join(f"{count} {name}" for name, count in self.verified.items())
        lines.append(f"verified: {verdicts}")
        sizes = ", ".join(f"{count} {name}" for name, count in self.splits.items())
        lines.append(f"splits: {sizes} ({self.duplicates} statements occur more than once)")
        if self.overlapping is not None:
            lines.append(f"overlap: {self.overlapping} tasks share word sequences with the problems given")
        return lines


def split_path(output: StrPath, split: str) -> Path:
    """``data/x.jsonl`` -> ``data/x_train.jsonl``."""
    path = Path(output)
    return path.with_name(f"{path.stem}_{split}{path.suffix}")


def verdicts_path(output: StrPath) -> Path:
    """Where the verdicts on reference programs are kept: a killed run continues there."""
    return Path(os.fspath(output) + ".verdicts.jsonl")


def overlap_path(output: StrPath) -> Path:
    """Where the shared word sequences are listed."""
    return Path(os.fspath(output) + ".overlap.jsonl")


def build_taco(
    source: Input | StrPath,
    output: StrPath,
    settings: TacoSettings | None = None,
    *,
    evaluator: Evaluator | None = None,
    problems: Input | None = None,
    on_bad_row: str = "fail",
    concurrency: int = 8,
    progress: Progress | None = None,
) -> TacoSummary:
    """Filter, verify, wrap and split; replaces ``output`` and its ``_train`` and ``_dev`` files atomically.

    The input is read three times (filters, reference programs, writing) and never held: memory grows by some
    hundred bytes a task. Verdicts are appended to `verdicts_path(output)` as they come and are used again.

    Args:
        evaluator: judges reference programs; needed unless ``settings.max_solutions`` is 0.
        problems: evaluation problems; tasks that share word sequences with them are listed in
            `overlap_path(output)`.
        concurrency: tasks being verified at once.

    Raises:
        InputError: an input that cannot be used (``file:line``, field); the outputs have not been changed.
        SettingsChanged: verdicts of other settings or another input are there.
        InfraError: programs got no verdict after retries; run again.
    """
    source = source if isinstance(source, Input) else open_input(source)
    settings = settings or TacoSettings()
    targets = {"all": Path(output)} | {split: split_path(output, split) for split in SPLITS}
    for target in targets.values():
        if any(target.exists() and target.samefile(path) for path in source.paths):
            raise InputError(f"{target} is the input file; give another --output_file")
    rejects = Rejects(output, on_bad_row)
    summary = TacoSummary()
    build = _Build(source, settings, rejects, summary)
    build.scan(progress)
    if settings.max_solutions:
        assert evaluator is not None
        asyncio.run(build.verify(Path(output), evaluator, concurrency, progress))
    build.split()
    overlap = None if problems is None else Overlap(problems)
    shared: list[Row] = []
    with ExitStack() as stack:
        handles = {name: stack.enter_context(replacing(path)) for name, path in targets.items()}
        for split, row in build.rows():
            line = encode_row(row)
            handles["all"].write(line)
            handles[split].write(line)
            if overlap is not None:
                shared += overlap.compare(row["id"], row["question"])
    rejects.close()
    if overlap is not None:
        summary.overlapping = len({row["id"] for row in shared})
        write_jsonl(overlap_path(output), shared)
    _write_manifests(targets, source, settings, summary, problems, on_bad_row)
    return summary


class _Build:
    def __init__(self, source: Input, settings: TacoSettings, rejects: Rejects, summary: TacoSummary) -> None:
        self._source, self._settings, self._rejects, self._summary = source, settings, rejects, summary
        self._statements: dict[str | int, bytes] = {}  # of the tasks that are kept
        self._verdicts: dict[str | int, bool | None] = {}
        self._dev: set[bytes] = set()

    def scan(self, progress: Progress | None) -> None:
        """Apply the filters, count, and note the statements."""
        summary, ids = self._summary, UniqueIds()

        def convert(row: Row, where: str) -> TacoTask | str:
            found = filter_row(row, where, self._settings.functional)
            ids(row, where)
            return found

        for _, found in checked(self._source, self._rejects, convert):
            summary.rows_in += 1
            if isinstance(found, str):
                summary.dropped[found] += 1
            else:
                self._statements[found.task_id] = statement_key(found.question)
            if progress is not None and summary.rows_in % 100 == 0:
                progress.advance("filter", summary.rows_in, None, kept=len(self._statements))
        summary.bad_rows = len(self._rejects)
        summary.rows_in += summary.bad_rows
        if not summary.rows_in:
            raise InputError(f"{self._source.name} holds no rows")
        if summary.rows_in == summary.bad_rows:
            raise InputError(f"{self._source.name} holds no row that can be used; the first: {self._first()}")

    def _first(self) -> str:
        return str(next(iter(self._rejects.rows.values()))["error"])

    def tasks(self) -> Iterator[tuple[Row, TacoTask]]:
        """(input row, task) for the tasks kept, in the order of the input."""

        def convert(row: Row, where: str) -> tuple[Row, TacoTask | str]:
            return row, filter_row(row, where, self._settings.functional)

        for _, (row, found) in checked(self._source, self._rejects, convert):
            if not isinstance(found, str):
                yield row, found

    async def verify(
        self, output: Path, evaluator: Evaluator, concurrency: int, progress: Progress | None
    ) -> None:
        """Verdicts on all tasks, those of an earlier run included."""
        check = ReferenceCheck(evaluator, self._settings.seed, self._settings.max_solutions)
        path = verdicts_path(output)

        async def work(row: Row) -> Row:
            return await check(row["task"])

        done = await run_rows(
            _Sized(self), work, output=path, concurrency=concurrency, label="reference solutions",
            progress=progress,
            settings={
                "stage": "reference solutions",
                "input_sha256": self._source.sha256,
                "seed": self._settings.seed,
                "max_solutions": self._settings.max_solutions,
                "functional": self._settings.functional,
            },
            extra=lambda: {"evaluator": {"name": evaluator.name, "isolation": evaluator.isolation}},
        )  # fmt: skip
        if done.failed:
            raise InfraError(
                f"{done.failed} tasks have no verdict on their reference solutions "
                f"(see {path}.failures.jsonl); run the same command again to try them again"
            )
        self._verdicts = {row["id"]: row["verified"] for _, row in read_jsonl(path)}

    def __len__(self) -> int:
        return len(self._statements)

    def _is_kept(self, task_id: str | int) -> bool:
        return not self._settings.require_verified or self._verdicts.get(task_id) is True

    def split(self) -> None:
        """Choose the development tasks among those that stay."""
        keys = [key for task_id, key in self._statements.items() if self._is_kept(task_id)]
        self._dev = choose_dev(keys, self._settings.dev_size, self._settings.seed)
        self._summary.duplicates = len(keys) - len(set(keys))

    def rows(self) -> Iterator[tuple[str, Row]]:
        """(split, row to write)."""
        summary, settings = self._summary, self._settings
        for source_row, task in self.tasks():
            if not self._is_kept(task.task_id):
                summary.dropped["unverified"] += 1
                continue
            split = "dev" if self._statements[task.task_id] in self._dev else "train"
            verified = self._verdicts.get(task.task_id)
            public, hidden = divide_tests(task.tests, settings.num_public)
            statement = task.question
            if task.tests.fn_name is not None:
                starter = source_row.get("starter_code")
                statement = function_statement(
                    statement, task.tests.fn_name, starter if isinstance(starter, str) else None
                )
            row: Row = {
                "id": task.task_id,
                "difficulty": task.difficulty,
                "question": task.question,
                "instruction": settings.prompts.wrap(statement),
                "test_cases": task.tests.to_json(),
                "public_test_cases": public.to_json(),
                "hidden_test_cases": hidden.to_json(),
                "verified": verified,
            }
            if task.fn_name is not None:
                row["fn_name"] = task.fn_name
            summary.rows_out += 1
            summary.splits[split] += 1
            summary.functional += task.fn_name is not None
            summary.verified["null" if verified is None else str(verified).lower()] += 1
            yield split, row
        if summary.splits["dev"] < settings.dev_size:
            summary.warnings.append(
                f"dev has {summary.splits['dev']} tasks instead of --dev_size {settings.dev_size}: "
                f"at most half of the {summary.rows_out} tasks are taken"
            )


class _Sized:
    """The rows to verify, as `run_rows` wants them: with an id and a number."""

    def __init__(self, build: _Build) -> None:
        self._build = build

    def __len__(self) -> int:
        return len(self._build)

    def __iter__(self) -> Iterator[Row]:
        return ({"id": task.task_id, "task": task} for _, task in self._build.tasks())


def _write_manifests(
    targets: dict[str, Path],
    source: Input,
    settings: TacoSettings,
    summary: TacoSummary,
    problems: Input | None,
    on_bad_row: str,
) -> None:
    recorded: dict[str, Any] = {
        "stage": "tasks from TACO",
        "input_sha256": source.sha256,
        "seed": settings.seed,
        "max_solutions": settings.max_solutions,
        "require_verified": settings.require_verified,
        "num_public": settings.num_public,
        "public_rule": PUBLIC_RULE,
        "dev_size": settings.dev_size,
        "dev_rule": DEV_RULE,
        "functional": settings.functional,
        "prompts": settings.prompts.sha256,
        "decontaminate": None if problems is None else problems.sha256,
        "on_bad_row": on_bad_row,
    }
    counts = {
        "funnel": {
            "rows_in": summary.rows_in,
            "bad": summary.bad_rows,
            **summary.dropped,
            "rows_out": summary.rows_out,
        },
        "verified": summary.verified,
        "functional": summary.functional,
        "splits": summary.splits,
        "duplicates": summary.duplicates,
        "overlapping": summary.overlapping,
    }
    for name, path in targets.items():
        write_manifest(
            path,
            settings=recorded | {"split": name},
            inputs={"input_file": source.path} if source.path is not None else {},
            counts=counts,
            extra={"input": source.facts(), "warnings": summary.warnings},
        )
