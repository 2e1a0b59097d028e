"""The door from TACO-verified to tasks (``preproc/preproc_taco.py``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from cobalt.cli import Progress
from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath, replacing
from cobalt.output import write_jsonl
from cobalt.pipeline import run_rows
from cobalt.prompts import function_statement
from cobalt.rejects import Rejects, checked
from cobalt.rows import Row, Rows, UniqueIds, encode_row, open_rows, read_rows
from cobalt.tasks.overlap import Overlap
from cobalt.tasks.reference import Judge, ReferenceCheck
from cobalt.tasks.splits import choose_dev, divide_tests, statement_key
from cobalt.tasks.taco import TacoTask, filter_row
from cobalt.tasks.taco_files import (
    SPLITS,
    TacoSettings,
    TacoSummary,
    overlap_path,
    split_path,
    verdicts_path,
    write_manifests,
)

_REMOTE_WORKERS = 16  # of a service, which does not tell


def build_taco(
    source: Rows | StrPath,
    output: StrPath,
    settings: TacoSettings | None = None,
    *,
    evaluator: Judge | Callable[[], Judge] | None = None,
    problems: Rows | None = None,
    on_bad_row: str = "fail",
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> TacoSummary:
    """Filter, verify, wrap and split; replaces ``output`` and its ``_train`` and ``_dev`` files atomically.

    The input is read three times (filters, reference programs, writing) and never held: memory grows by some
    hundred bytes a task. Verdicts are appended to `verdicts_path(output)` as they come and are used again.

    Args:
        evaluator: judges reference programs, or gives who does when the input has been found good; needed
            unless ``settings.max_solutions`` is 0.
        problems: evaluation problems; tasks that share word sequences with them are listed in
            `overlap_path(output)`.
        concurrency: tasks being verified at once (default: two per worker of the evaluator).

    Raises:
        InputError: an input that cannot be used (``file:line``, field); the outputs have not been changed.
        SettingsChanged: verdicts of other settings or another input are there.
        InfraError: programs got no verdict after retries; run again.
    """
    source = source if isinstance(source, Rows) else open_rows(source)
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
        judge = evaluator() if callable(evaluator) else evaluator
        at_once = concurrency or 2 * getattr(judge, "workers", _REMOTE_WORKERS)
        asyncio.run(build.verify(Path(output), judge, at_once, progress))
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
    write_manifests(targets, source, settings, summary, problems, on_bad_row)
    return summary


class _Build:
    def __init__(self, source: Rows, settings: TacoSettings, rejects: Rejects, summary: TacoSummary) -> None:
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
        self, output: Path, evaluator: Judge, concurrency: int, progress: Progress | None
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
        self._verdicts = {row["id"]: row["verified"] for _, row in read_rows(path)}

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
        if not summary.rows_out:
            summary.warnings.append("no task is left: the files are empty")
        elif summary.splits["dev"] < settings.dev_size:
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
