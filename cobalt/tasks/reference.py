"""Which tasks are solved by one of their reference programs, judged by the evaluator, and how."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from cobalt.cli import Progress
from cobalt.errors import InfraError
from cobalt.evaluator.rule import Rule
from cobalt.pipeline import run_rows
from cobalt.rows import Row, read_rows
from cobalt.schema import ExecutionResult
from cobalt.tasks.taco_filters import TacoTask, TaskSpool
from cobalt.testcases import TestCases

MAX_SOLUTIONS = 16
_REMOTE_WORKERS = 16  # of a service, which does not tell
_UNTIL_WRONG = Rule(stop_on_first_failure=True)


class Judge(Protocol):
    """An evaluator whose rule can be given with each request, as those of `cobalt.evaluator.connect`."""

    name: str
    isolation: str

    async def aevaluate(
        self, code: str | None, test_cases: Any, *, rule: Rule | None = None
    ) -> ExecutionResult: ...


class ReferenceCheck:
    """Tries the reference programs of a task, one after another, until one passes all tests.

    At most `limit` are tried, in an order drawn for each task from `seed` and its id. A function is right if
    it gives the expected values when it is called with the arguments, or else in the published way, with the
    words of the flattened input.
    """

    def __init__(self, evaluator: Judge, seed: int, limit: int = MAX_SOLUTIONS) -> None:
        self.evaluator = evaluator
        self.seed = seed
        self.limit = limit

    async def __call__(self, task: TacoTask) -> Row:
        """`{id, verified, tried, solution, way}`: `verified` is null if there is nothing to try, `solution`
        the index of the program that passed. Raises InfraError if a program gets no verdict.
        """
        order = list(range(len(task.solutions)))
        random.Random(f"solutions {self.seed} {task.task_id!r}").shuffle(order)
        order = order[: self.limit]
        found: dict[str, Any] = {"id": task.task_id, "verified": False if order else None, "tried": 0}
        for tried, index in enumerate(order, start=1):
            found["tried"] = tried
            for way, code, tests in _attempts(task, task.solutions[index]):
                result = await self.evaluator.aevaluate(code, tests, rule=_UNTIL_WRONG)
                if result["status"] == "infra_error":
                    raise InfraError(f"task {task.task_id!r}: {result['feedback'][0]}")
                if all(result["passing"]):
                    return found | {"verified": True, "solution": index, "way": way}
        return found


async def verify(
    tasks: TaskSpool,
    check: ReferenceCheck,
    output: Path,
    settings: dict[str, Any],
    concurrency: int | None,
    progress: Progress | None,
) -> dict[str | int, bool | None]:
    """Verdicts on all tasks by key, kept in `OUTPUT.verdicts.jsonl`; those of an earlier run are used again.

    Raises SettingsChanged if that was under other settings, InfraError if a task got no verdict.
    """
    path = Path(f"{output}.verdicts.jsonl")
    determined = {"stage": "reference solutions", "seed": check.seed, "max_solutions": check.limit}

    async def work(row: Row) -> Row:
        return await check(row["task"])

    done = await run_rows(
        tasks, work, output=path, label="reference solutions", progress=progress,
        concurrency=concurrency or 2 * getattr(check.evaluator, "workers", _REMOTE_WORKERS),
        settings=determined | settings,
        extra={"evaluator": {"name": check.evaluator.name, "isolation": check.evaluator.isolation}},
    )  # fmt: skip
    if done.failed:
        raise InfraError(
            f"{done.failed} tasks have no verdict on their reference solutions "
            f"(see {path}.failures.jsonl); run the same command again to try them again"
        )
    return {row["id"]: row["verified"] for _, row in read_rows(path)}


def _attempts(task: TacoTask, code: str) -> Iterator[tuple[str, str, TestCases]]:
    """(way, program, tests) in the order in which they are tried."""
    if task.fn_name is None:
        yield "stdin", code, task.tests
        return
    if task.calls is not None:
        yield "call", code, task.calls
    if task.texts is not None:
        # The published way: call it with the words of one line, and print.
        yield "split", f"{code}\nprint({task.prefix}{task.fn_name}(*input().split()))", task.texts
