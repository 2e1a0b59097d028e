"""Tasks that come ready: from a source of your own (`make_task`), or released by others, with what the stages
read filled in; and when two statements are one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, PROBLEM_MARKER, Prompts, function_statement
from cobalt.rows import Row, require, row_id
from cobalt.testcases import FIELDS, NUM_PUBLIC, TestCases

PERTURBED = ("modified_test_cases", "perturbed_public_test_cases")
NO_LABEL = "UNKNOWN"

_NOT_WORDS = re.compile(r"[\W_]+")
_STATEMENTS = ("question_content", "question", "instruction")


def make_task(
    id: str | int,
    statement: str,
    tests: Sequence[tuple[Any, Any]],
    *,
    public: int = 2,
    fn_name: str | None = None,
    starter_code: str | None = None,
    difficulty: str = NO_LABEL,
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


def statement_of(row: Row, where: str) -> str:
    """The statement in a row of LiveCodeBench's layout or of ours, without the wrapper."""
    for field in _STATEMENTS:
        value = row.get(field)
        if isinstance(value, str):
            return value.partition(PROBLEM_MARKER)[2] if PROBLEM_MARKER in value else value
    raise InputError(f"{where}: none of the fields {', '.join(_STATEMENTS)} holds a statement")


def statement_key(statement: str) -> bytes:
    """Equal for statements that differ in letter case, spaces or punctuation only."""
    normal = _NOT_WORDS.sub(" ", statement.lower()).strip()
    # Digits and signs of pure formulas would all vanish: those are compared as they are.
    return blake2b((normal or statement).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def is_perturbed(row: Row) -> bool:
    """Whether two public tests of a task have exchanged their outputs already."""
    return any(row.get(name) is not None for name in PERTURBED)


def complete(row: Row, where: str, prompts: Prompts, num_public: int = NUM_PUBLIC) -> Row:
    """A task with all that the stages read; unknown keys stay.

    Needed: `id`; `instruction`, or `question` to wrap; `test_cases`, or both of its parts. Of
    `public_test_cases` and `hidden_test_cases` a missing one is what the other leaves of `test_cases`; if
    both are missing, the first `num_public` tests are public. Raises InputError, beginning with `where`.
    """
    if is_perturbed(row):
        name = next(each for each in PERTURBED if row.get(each) is not None)
        raise InputError(f"{where}: field '{name}': a perturbed task, where plain ones are needed")
    refuse_contradictions(row, where)
    both, public, hidden = (_tests(row, f"{part}test_cases", where) for part in ("", "public_", "hidden_"))
    if both is None:
        if public is None or hidden is None:
            raise InputError(
                f"{where}: field 'test_cases' is missing (it follows from 'public_test_cases' and "
                "'hidden_test_cases' where both are there)"
            )
        both = public + hidden
    if public is None:
        public = both.divided(num_public)[0] if hidden is None else _without(both, hidden, "hidden", where)
    if hidden is None:
        hidden = _without(both, public, "public", where)
    if not len(public) or not len(hidden):
        raise InputError(f"{where}: field 'test_cases': none of its {len(both)} is left as public or hidden")
    tests = {"test_cases": both, "public_test_cases": public, "hidden_test_cases": hidden}
    return _told(row, where, prompts, both.fn_name) | _texts(row, tests)


def complete_perturbed(row: Row, where: str, prompts: Prompts) -> Row:
    """A perturbed task with all that dialogues on it and their analysis read; unknown keys stay.

    The perturbed tests are `perturbed_public_test_cases`, or, as released, the `public_test_cases`; they must
    hold the `modified_test_cases`. Raises InputError, beginning with `where`.
    """
    if not is_perturbed(row):
        raise InputError(
            f"{where}: fields '{PERTURBED[0]}' and '{PERTURBED[1]}' are missing: a plain task among "
            "perturbed ones"
        )
    swapped, shown, public, hidden = (
        _tests(row, name, where) for name in (*PERTURBED, "public_test_cases", "hidden_test_cases")
    )
    shown = shown or public
    found = {PERTURBED[0]: swapped, "public_test_cases": shown, "hidden_test_cases": hidden}
    for name, each in found.items():
        if not each:
            raise InputError(f"{where}: field '{name}' is missing or empty, which a perturbed task needs")
    assert swapped and shown and hidden
    if any(pair not in shown.pairs() for pair in swapped.pairs()):
        raise InputError(f"{where}: field '{PERTURBED[0]}' holds tests that are not among the perturbed ones")
    tests = {PERTURBED[0]: swapped, PERTURBED[1]: shown, "public_test_cases": public or shown}
    return _told(row, where, prompts, shown.fn_name) | _texts(row, tests | {"hidden_test_cases": hidden})


def refuse_contradictions(row: Row, where: str) -> None:
    """Raises InputError, beginning with `where`, for tests that are malformed (inputs and outputs of unequal
    number, too), and for public tests that contradict the others; those of perturbed tasks are meant to.
    """
    found = {name: tests for name in FIELDS if (tests := _tests(row, name, where)) is not None}
    public = found.get("public_test_cases")
    if public is None or is_perturbed(row):
        return
    for name in ("test_cases", "hidden_test_cases"):
        said = public.contradicts(found[name]) if name in found else None
        if said is not None:
            raise InputError(f"{where}: field 'public_test_cases' contradicts '{name}': {said}")


def whole_trajectories(row: Row, where: str) -> Row:
    """Evaluated trajectories with `difficulty`, and with `test_cases` where both of its parts are there."""
    row = row | {"difficulty": NO_LABEL} if row.get("difficulty") is None else row
    if row.get("test_cases") is None and not is_perturbed(row):
        public, hidden = (_tests(row, f"{part}_test_cases", where) for part in ("public", "hidden"))
        if public is not None and hidden is not None:
            row = row | {"test_cases": (public + hidden).to_json()}
    return row


def _told(row: Row, where: str, prompts: Prompts, fn_name: str | None) -> Row:
    """The row with its key checked, the statement wrapped and a label."""
    row_id(row, where)
    if row.get("instruction") is None and row.get("question") is not None:
        asked = require(row, "question", str, where)
        if fn_name is not None:
            asked = function_statement(asked, fn_name, row.get("starter_code"))
        row = row | {"instruction": prompts.wrap(asked)}
    require(row, "instruction", str, where)
    row = row | {"difficulty": NO_LABEL} if row.get("difficulty") is None else row
    require(row, "difficulty", str, where)
    return row


def _tests(row: Row, name: str, where: str) -> TestCases | None:
    if row.get(name) is None:
        return None
    return TestCases.parse(row[name], where=f"{where}: field '{name}'")


def _texts(row: Row, tests: Mapping[str, TestCases]) -> Row:
    """The tests as JSON text, as the row has it where it does."""
    return {
        name: row[name] if isinstance(row.get(name), str) else each.to_json() for name, each in tests.items()
    }


def _without(tests: TestCases, taken: TestCases, kind: str, where: str) -> TestCases:
    """`tests` without those `taken`, once each. Raises InputError for one that is missing."""
    left = tests.pairs()
    for pair in taken.pairs():
        if pair not in left:
            raise InputError(f"{where}: field '{kind}_test_cases' holds a test that 'test_cases' does not")
        left.remove(pair)
    return TestCases.of(left, tests.fn_name)
