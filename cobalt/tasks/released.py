"""Ready tasks in the published columns (arXiv 2602.03806): what is there stays, what follows is added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import Prompts, function_statement
from cobalt.rows import Row, require, row_id
from cobalt.testcases import NUM_PUBLIC, TestCases

PERTURBED = ("modified_test_cases", "perturbed_public_test_cases")
NO_LABEL = "UNKNOWN"


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
    both, public, hidden = (_tests(row, f"{part}test_cases", where) for part in ("", "public_", "hidden_"))
    if both is None:
        if public is None or hidden is None:
            raise InputError(
                f"{where}: field 'test_cases' is missing (it follows from 'public_test_cases' and "
                "'hidden_test_cases' where both are there)"
            )
        both = public + hidden
    if public is None and hidden is None:
        public, hidden = both.divided(num_public)
    elif public is None and hidden is not None:
        public = _without(both, hidden.pairs(), both.pairs(), f"{where}: field 'hidden_test_cases'")
    elif hidden is None and public is not None:
        hidden = _without(both, public.pairs(), both.pairs(), f"{where}: field 'public_test_cases'")
    assert public is not None and hidden is not None
    for name, tests in (("public", public), ("hidden", hidden)):
        if not len(tests):
            raise InputError(f"{where}: field 'test_cases': of its {len(both)} tests none is left as {name}")
    return _told(row, where, prompts, both.fn_name) | _texts(
        row, test_cases=both, public_test_cases=public, hidden_test_cases=hidden
    )


def complete_perturbed(row: Row, where: str, prompts: Prompts) -> Row:
    """A perturbed task with all that dialogues on it and their analysis read; unknown keys stay.

    The perturbed tests are `perturbed_public_test_cases`, or, where `modified_test_cases` stands alone, the
    `public_test_cases`, which must hold these. `hidden_test_cases` may be missing if `test_cases` are there.
    Raises InputError, beginning with `where`.
    """
    if not is_perturbed(row):
        raise InputError(
            f"{where}: fields '{PERTURBED[0]}' and '{PERTURBED[1]}' are missing: a plain task among "
            "perturbed ones"
        )
    swapped, shown = (_tests(row, name, where) for name in PERTURBED)
    public = _tests(row, "public_test_cases", where)
    if shown is None:
        if public is None:
            raise InputError(f"{where}: field 'public_test_cases' is missing")
        shown = public
    if swapped is None:
        known = (public or shown).pairs()
        changed = [pair for pair in shown.pairs() if pair not in known]
        if not changed:
            raise InputError(
                f"{where}: field 'modified_test_cases' is missing, and 'public_test_cases' do not tell which "
                "tests were exchanged"
            )
        swapped = TestCases.of(changed, shown.fn_name)
    if any(pair not in shown.pairs() for pair in swapped.pairs()):
        raise InputError(
            f"{where}: field 'modified_test_cases': these tests are not among the perturbed ones "
            f"('{PERTURBED[1] if row.get(PERTURBED[1]) is not None else 'public_test_cases'}')"
        )
    hidden, both = (_tests(row, name, where) for name in ("hidden_test_cases", "test_cases"))
    if hidden is None:
        if both is None:
            raise InputError(
                f"{where}: field 'hidden_test_cases' is missing, and 'test_cases', which hold them"
            )
        # The outputs of some were exchanged, so public tests are known by their inputs.
        hidden = _without(both, shown.inputs, both.inputs, f"{where}: field 'public_test_cases'")
    if not len(hidden):
        raise InputError(f"{where}: field 'hidden_test_cases' holds no tests")
    tests = {"public_test_cases": public or shown, "hidden_test_cases": hidden}
    tests |= dict(zip(PERTURBED, (swapped, shown), strict=True))
    return _told(row, where, prompts, shown.fn_name) | _texts(row, **tests)


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
    if row.get("instruction") is None:
        if row.get("question") is None:
            raise InputError(
                f"{where}: field 'instruction' is missing (and 'question', which would be wrapped)"
            )
        asked = require(row, "question", str, where)
        if fn_name is not None:
            asked = function_statement(asked, fn_name, row.get("starter_code"))
        row = row | {"instruction": prompts.wrap(asked)}
    require(row, "instruction", str, where)
    label = row.get("difficulty")
    return row | {"difficulty": NO_LABEL if label is None else require(row, "difficulty", str, where)}


def _tests(row: Row, name: str, where: str) -> TestCases | None:
    if row.get(name) is None:
        return None
    return TestCases.parse(row[name], where=f"{where}: field '{name}'")


def _texts(row: Row, **tests: TestCases) -> Row:
    """The tests as JSON text, as the row has it where it does."""
    return {
        name: row[name] if isinstance(row.get(name), str) else each.to_json() for name, each in tests.items()
    }


def _without(tests: TestCases, taken: Sequence[Any], keys: Sequence[Any], place: str) -> TestCases:
    """`tests` without those whose keys are `taken`, once each. Raises InputError for one that is missing."""
    left = list(zip(keys, tests.pairs(), strict=True))
    for each in taken:
        found = next((position for position, (key, _) in enumerate(left) if key == each), None)
        if found is None:
            raise InputError(f"{place} holds a test that 'test_cases' does not")
        del left[found]
    return TestCases.of((pair for _, pair in left), tests.fn_name)
