"""Tasks from a source of your own: the row that every door reads, from a statement and its tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, Prompts, function_statement
from cobalt.rows import Row, row_id
from cobalt.testcases import TestCases


def make_task(
    id: str | int,
    statement: str,
    tests: Sequence[tuple[Any, Any]],
    *,
    public: int = 2,
    fn_name: str | None = None,
    starter_code: str | None = None,
    difficulty: str = "UNKNOWN",
    prompts: Prompts = DEFAULT,
    **more: Any,
) -> Row:
    """A task row (`cobalt.schema.TaskRow`).

    Args: ``id`` a key that no other task has; ``statement`` what is asked; ``tests`` pairs (stdin, stdout),
    or with ``fn_name`` (list of arguments, value); the first ``public`` of them are shown to the model, the
    others stay hidden (of ``public`` tests or fewer, the last is hidden all the same). ``starter_code`` is
    shown for functions. ``more``: fields of your own, kept by every stage.
    Raises InputError for a wrong id, for fewer than two tests, or for tests of the wrong kind.
    """
    where = f"task {id!r}"
    row_id({"id": id}, where)
    if len(tests) < 2 or public < 1:
        raise InputError(f"{where}: at least one public and one hidden test are needed")
    both = TestCases.parse(TestCases.of(tests, fn_name).to_mapping(), where=where)
    shown, hidden = both.divided(min(public, len(tests) - 1))
    asked = statement if fn_name is None else function_statement(statement, fn_name, starter_code)
    return {
        "id": id,
        "difficulty": difficulty,
        "question": statement,
        "instruction": prompts.wrap(asked),
        "test_cases": both.to_json(),
        "public_test_cases": shown.to_json(),
        "hidden_test_cases": hidden.to_json(),
        **({} if fn_name is None else {"fn_name": fn_name}),
        **more,
    }
