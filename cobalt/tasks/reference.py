"""Which tasks are solved by one of their reference programs, judged by the evaluator, and how."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

from cobalt.errors import InfraError
from cobalt.evaluator.rule import Rule
from cobalt.rows import Row
from cobalt.schema import ExecutionResult
from cobalt.tasks.taco import TacoTask, split_harness
from cobalt.testcases import TestCases

MAX_SOLUTIONS = 16
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

    At most `limit` are tried, in an order drawn for each task from `seed` and its id. A function is right
    if it gives the expected values when it is called with the arguments, or else in the published way, with
    the words
    of the flattened input.
    """

    def __init__(self, evaluator: Judge, seed: int, limit: int = MAX_SOLUTIONS) -> None:
        self._evaluator = evaluator
        self._seed = seed
        self._limit = limit

    async def __call__(self, task: TacoTask) -> Row:
        """`{id, verified, tried, solution, way}`: `verified` is null if there is nothing to try, `solution`
        the index of the program that passed. Raises InfraError if a program gets no verdict.
        """
        order = list(range(len(task.solutions)))
        random.Random(f"solutions {self._seed} {task.task_id!r}").shuffle(order)
        order = order[: self._limit]
        found: dict[str, Any] = {"id": task.task_id, "verified": False if order else None, "tried": 0}
        for tried, index in enumerate(order, start=1):
            found["tried"] = tried
            for way, code, tests in attempts(task, task.solutions[index]):
                result = await self._evaluator.aevaluate(code, tests, rule=_UNTIL_WRONG)
                if result["status"] == "infra_error":
                    raise InfraError(f"task {task.task_id!r}: {result['feedback'][0]}")
                if all(result["passing"]):
                    return found | {"verified": True, "solution": index, "way": way}
        return found


def attempts(task: TacoTask, code: str) -> Iterator[tuple[str, str, TestCases]]:
    """(way, program, tests) in the order in which they are tried."""
    if task.fn_name is None:
        yield "stdin", code, task.tests
        return
    if task.calls is not None:
        yield "call", code, task.calls
    if task.texts is not None:
        yield "split", split_harness(code, task.fn_name, task.prefix), task.texts
