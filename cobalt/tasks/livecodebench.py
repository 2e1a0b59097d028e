"""LiveCodeBench release files to tasks (arXiv 2602.03806, released data scripts)."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cobalt.errors import InputError
from cobalt.prompts import Prompts, function_statement, load
from cobalt.rows import Row, require, row_id
from cobalt.tasks.pickled import MAX_BYTES, decode_tests
from cobalt.testcases import TestCases

Functional = Literal["stdin", "call"]
FUNCTIONAL: tuple[Functional, ...] = get_args(Functional)

CUTS = ("\nExample 1:\n\n", "\nSample Input 1\n\n")
_CONSUMED = ("question_id", "question_content", "public_test_cases", "private_test_cases")


@dataclass(frozen=True)
class LcbSettings:
    """Which problems, and how functional ones are put.

    ``start`` and ``end`` are the first and last day of the contest (None: open). ``functional``: ``stdin``
    has JSON arguments on the lines of the input, as published; ``call`` calls the function. Raises InputError
    for an empty window.
    """

    start: datetime.date | None = None
    end: datetime.date | None = None
    functional: Functional = "stdin"
    max_bytes: int = MAX_BYTES
    prompts: Prompts = field(default_factory=lambda: load("default"), repr=False)

    def __post_init__(self) -> None:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise InputError(f"--start {self.start} is after --end {self.end}")
        if self.functional not in FUNCTIONAL:
            raise InputError(f"--functional must be one of {', '.join(FUNCTIONAL)}, got {self.functional!r}")


def convert(row: Row, where: str, settings: LcbSettings) -> Row | None:
    """The task of a problem; None if it lies outside the window of dates.

    Raises InputError, beginning with ``where`` and the field, for a row that cannot be used.
    """
    task_id = row_id(row, where, "question_id")
    content = require(row, "question_content", str, where)
    difficulty = require(row, "difficulty", str, where)
    if not in_window(contest_date(row, where), settings):
        return None
    public = _tests(row, "public_test_cases", where, settings)
    hidden = _tests(row, "private_test_cases", where, settings)
    if not public + hidden:
        raise InputError(f"{where}: the problem has no tests")
    name = func_name(row, where)
    kinds = {test["testtype"] for test in public + hidden}
    functional = "functional" in kinds
    if functional and len(kinds) > 1:
        raise InputError(f"{where}: 'testtype' is both functional and stdin")
    statement = cut(content)
    fn_name = None
    if functional and settings.functional == "call":
        if name is None:
            raise InputError(f"{where}: field 'metadata' has no 'func_name', which --functional call needs")
        fn_name = name
        starter = row.get("starter_code")
        statement = function_statement(statement, name, starter if isinstance(starter, str) else None)
    parts = [_test_cases(tests, fn_name, where) for tests in (public, hidden)]
    return {
        "id": task_id,
        "difficulty": difficulty,
        "instruction": settings.prompts.wrap(statement),
        "test_cases": (parts[0] + parts[1]).to_json(),
        "public_test_cases": parts[0].to_json(),
        "hidden_test_cases": parts[1].to_json(),
        **{name: value for name, value in row.items() if name not in _CONSUMED and name != "difficulty"},
        "is_functional": functional,
    }


def cut(content: str) -> str:
    """The statement without its examples: up to the first of the two published headings."""
    for heading in CUTS:
        before, found, _ = content.partition(heading)
        if found:
            return before.strip()
    return content.strip()


def contest_date(row: Row, where: str) -> datetime.date:
    """The day of the contest. Raises InputError for a date that is not ISO 8601."""
    text = require(row, "contest_date", str, where)
    try:
        return datetime.datetime.fromisoformat(text).date()
    except ValueError:
        raise InputError(f"{where}: field 'contest_date' must be an ISO date, got {text!r}") from None


def in_window(day: datetime.date, settings: LcbSettings) -> bool:
    """Whether a day lies between ``start`` and ``end``, both included."""
    return (settings.start is None or settings.start <= day) and (settings.end is None or day <= settings.end)


def func_name(row: Row, where: str) -> str | None:
    """`metadata.func_name` (J or an object), None without one."""
    metadata = row.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata) if metadata.strip() else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: field 'metadata': not valid JSON ({error})") from None
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None


def _tests(row: Row, name: str, where: str, settings: LcbSettings) -> list[dict[str, Any]]:
    value = require(row, name, (str, list), where)
    place = f"{where}: field '{name}'"
    tests = decode_tests(value, place, settings.max_bytes) if isinstance(value, str) else value
    for index, test in enumerate(tests):
        if not isinstance(test, dict):
            raise InputError(f"{place}[{index}] must be an object with input, output and testtype")
        for key in ("input", "output"):
            if not isinstance(test.get(key), str):
                raise InputError(f"{place}[{index}]: '{key}' must be a string")
        if test.setdefault("testtype", "stdin") not in ("stdin", "functional"):
            raise InputError(f"{place}[{index}]: 'testtype' must be stdin or functional")
    return list(tests)


def _test_cases(tests: list[dict[str, Any]], fn_name: str | None, where: str) -> TestCases:
    if fn_name is None:
        return TestCases([test["input"] for test in tests], [test["output"] for test in tests])
    try:
        inputs = [[json.loads(line) for line in test["input"].split("\n") if line.strip()] for test in tests]
        outputs = [json.loads(test["output"]) for test in tests]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: arguments and value of {fn_name} must be JSON ({error})") from None
    return TestCases(inputs, outputs, fn_name)
