"""A row of TACO to a task: the published filters, in the published order (arXiv 2602.03806), and whether one
of its reference programs solves it.
"""

from __future__ import annotations

import json
import pickle
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from cobalt.cli import Progress
from cobalt.errors import InfraError, InputError
from cobalt.evaluator import Evaluator
from cobalt.evaluator.checker import Rule
from cobalt.pipeline import run_rows
from cobalt.prompts import Prompts
from cobalt.rows import Row, read_rows, require, row_id
from cobalt.tasks.own import make_task, statement_key
from cobalt.testcases import TestCases

MIN_TESTS = 8
MIN_LETTERS = 100
MAX_TESTS, SHORTEST = 20, 5
MAX_DIGITS = 4000  # of a number that Python may turn to text and back without asking
MAX_SOLUTIONS = 16

Functional = Literal["stdin", "call", "drop"]
FUNCTIONAL: tuple[Functional, ...] = get_args(Functional)

# name of each rule that drops rows, in order -> what it drops
RULES = {
    "count": f"fewer than {MIN_TESTS} inputs",
    "shape": "inputs and outputs are not lists of one length",
    "type": "an input or output is no text, even with lists flattened",
    "images": "the statement shows or mentions an image",
    "length": f"the statement has fewer than {MIN_LETTERS} letters and digits",
    "functional": "asks for a function (--functional drop)",
    "unverified": "no reference solution passes (--require_verified)",
}

_REMOTE_WORKERS = 16  # of a service, which does not tell
_UNTIL_WRONG = Rule(stop_on_first_failure=True)


@dataclass(frozen=True)
class TacoTask:
    """A task that passed the filters.

    `tests` are what is stored: texts, or with `functional="call"` the arguments and values of a function;
    `calls` the same tests as calls (None for a program), `texts` as texts (None if they have none);
    `solutions` reference programs; `prefix` what the published check puts before the function's name.
    """

    task_id: str | int
    difficulty: str
    question: str
    tests: TestCases
    solutions: list[str] = field(repr=False)
    fn_name: str | None = None
    calls: TestCases | None = None
    texts: TestCases | None = None
    prefix: str = ""
    starter_code: str | None = None

    def row(self, verified: bool | None, prompts: Prompts, num_public: int) -> Row:
        """The row of the task (`cobalt.schema.TaskRow`)."""
        row = make_task(
            self.task_id, self.question, self.tests.pairs(), public=num_public, fn_name=self.tests.fn_name,
            starter_code=self.starter_code, difficulty=self.difficulty, prompts=prompts, verified=verified,
        )  # fmt: skip
        return row if self.fn_name is None else row | {"fn_name": self.fn_name}


class LongNumber:
    """A whole number of so many digits that Python would refuse to write it; kept as its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def filter_row(row: Row, where: str, functional: Functional = "stdin") -> TacoTask | str:
    """The task of a row of TACO's layout, or the name of the rule (see `RULES`) that drops it.

    `functional` says what becomes of tasks that ask for a function: `stdin` keeps their tests as texts, as
    published; `call` keeps arguments and values; `drop` leaves them out. Raises InputError, beginning with
    `where` and the field, for a row that has not the layout.
    """
    task_id = row_id(row, where)
    question = require(row, "question", str, where)
    difficulty = require(row, "difficulty", str, where)
    solutions = _json_field(row, "solutions", list, where)
    if not isinstance(solutions, list) or not all(isinstance(each, str) for each in solutions):
        raise InputError(f"{where}: field 'solutions' must be a list of programs")
    given = _json_field(row, "input_output", dict, where)
    for name in ("inputs", "outputs"):
        if not isinstance(given, dict) or name not in given:
            raise InputError(f"{where}: field 'input_output': '{name}' is missing")
    fn_name = given.get("fn_name") or None
    if fn_name is not None and (not isinstance(fn_name, str) or not fn_name.isidentifier()):
        raise InputError(f"{where}: field 'input_output': 'fn_name' must be a name, got {fn_name!r}")
    inputs, outputs = given["inputs"], given["outputs"]

    if isinstance(inputs, list | str | dict) and len(inputs) < MIN_TESTS:
        return "count"
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        return "shape"
    flat_inputs, flat_outputs = [flatten(each) for each in inputs], [flatten(each) for each in outputs]
    are_texts = all(isinstance(each, str) for each in flat_inputs + flat_outputs)
    are_calls = fn_name is not None and _plain_json(inputs) and _plain_json(outputs)
    if not are_texts and not (functional == "call" and are_calls):
        return "type"
    if "image" in question.lower() or "\n![" in question:
        return "images"
    if sum(map(str.isalnum, question)) < MIN_LETTERS:
        return "length"
    if fn_name is not None and functional == "drop":
        return "functional"

    kept = capped([len(each if isinstance(each, str) else str(each)) for each in flat_inputs])
    texts = calls = None
    if are_texts:
        texts = TestCases([flat_inputs[i] for i in kept], [flat_outputs[i] for i in kept])
    if are_calls:
        arguments = [inputs[i] if isinstance(inputs[i], list) else [inputs[i]] for i in kept]
        calls = TestCases(arguments, [outputs[i] for i in kept], fn_name)
    tests = calls if functional == "call" and fn_name is not None else texts
    assert tests is not None
    prefix = "Solution()." if row.get("source") == "leetcode" else ""
    starter = row.get("starter_code")
    return TacoTask(
        task_id, difficulty, question, tests, solutions, fn_name, calls, texts, prefix,
        starter if isinstance(starter, str) else None,
    )  # fmt: skip


def flatten(value: Any) -> Any:
    """A list as its items' `str()` joined by one space; anything else as it is."""
    return " ".join(map(str, value)) if isinstance(value, list) else value


def capped(lengths: list[int]) -> list[int]:
    """Indices of the tests to keep, in order, from the lengths of their inputs.

    All, if there are at most 20; else of a stable descending sort the last 5, then the first 15.
    """
    if len(lengths) <= MAX_TESTS:
        return list(range(len(lengths)))
    longest_first = sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
    return longest_first[-SHORTEST:] + longest_first[: MAX_TESTS - SHORTEST]


def _plain_json(values: list[Any]) -> bool:
    try:
        json.dumps(values)
    except (TypeError, ValueError, RecursionError):  # a LongNumber inside
        return False
    return True


def _json_field(row: Row, name: str, kind: type, where: str) -> Any:
    """A field of some kind, or JSON text of it, with numbers of any length."""
    value = require(row, name, (str, dict) if kind is dict else (kind, str), where)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_int=lambda t: int(t) if len(t) <= MAX_DIGITS else LongNumber(t))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: field '{name}': not valid JSON ({error})") from None


class TaskSpool:
    """The tasks that passed the filters, in order, on disk; of each the key of its statement in memory."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by the with block
        self.statements: dict[str | int, bytes] = {}

    def add(self, task: TacoTask) -> None:
        pickle.dump(task, self._file, pickle.HIGHEST_PROTOCOL)
        self.statements[task.task_id] = statement_key(task.question)

    def __len__(self) -> int:
        return len(self.statements)

    def __iter__(self) -> Iterator[Row]:
        self._file.seek(0)
        for task_id in self.statements:
            yield {"id": task_id, "task": pickle.load(self._file)}

    def __enter__(self) -> TaskSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


async def try_references(task: TacoTask, evaluator: Evaluator, seed: int, limit: int = MAX_SOLUTIONS) -> Row:
    """Run the reference programs of a task, one after another, until one passes all tests.

    At most `limit` are tried, in an order drawn for each task from `seed` and its id. A function is right if
    it gives the expected values when it is called with the arguments, or else in the published way, with the
    words of the flattened input. Returns `{id, verified, tried, solution, way}`: `verified` is null if there
    is nothing to try, `solution` the index of the program that passed. Raises InfraError if one gets no
    verdict.
    """
    order = list(range(len(task.solutions)))
    random.Random(f"solutions {seed} {task.task_id!r}").shuffle(order)
    order = order[:limit]
    found: Row = {"id": task.task_id, "verified": False if order else None, "tried": 0}
    for tried, index in enumerate(order, start=1):
        found["tried"] = tried
        for way, code, tests in _attempts(task, task.solutions[index]):
            result = await evaluator.aevaluate(code, tests, rule=_UNTIL_WRONG)
            if result["status"] == "infra_error":
                raise InfraError(f"task {task.task_id!r}: {result['feedback'][0]}")
            if all(result["passing"]):
                return found | {"verified": True, "solution": index, "way": way}
    return found


async def verify(
    tasks: TaskSpool,
    evaluator: Evaluator,
    output: Path,
    settings: dict[str, Any],
    progress: Progress | None,
) -> dict[str | int, bool | None]:
    """Verdicts on all tasks by key, kept in `OUTPUT.verdicts.jsonl`; those of an earlier run are used again.
    `settings` have `seed` and `max_solutions`.

    Raises SettingsChanged if that was under other settings, InfraError if a task got no verdict.
    """
    path = Path(f"{output}.verdicts.jsonl")

    async def work(row: Row) -> Row:
        return await try_references(row["task"], evaluator, settings["seed"], settings["max_solutions"])

    done = await run_rows(
        tasks, work, output=path, label="reference solutions", progress=progress,
        concurrency=2 * getattr(evaluator, "workers", _REMOTE_WORKERS),
        settings={"stage": "reference solutions"} | settings,
        extra={"evaluator": {"name": evaluator.name, "isolation": evaluator.isolation}},
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
