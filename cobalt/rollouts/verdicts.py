"""Programs and their verdicts, as runners and evaluation need them."""

from __future__ import annotations

from cobalt.errors import InfraError, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.rows import Row
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

TEST_SETS = ("auto", "public", "perturbed")


async def verdict(evaluator: Evaluator, code: str | None, tests: TestCases) -> ExecutionResult:
    """The evaluator's verdict on a program, one entry per test.

    Raises InfraError if it has none (`infra_error`, after its own retries): a fault of ours is never a score.
    """
    result = await evaluator.aevaluate(code, tests)
    if result["status"] == "infra_error":
        raise InfraError(f"the evaluator had no verdict: {' '.join(result.get('feedback', []))[:300]}")
    if len(result["passing"]) != len(tests):
        raise InfraError(f"the evaluator answered {len(result['passing'])} of {len(tests)} tests")
    return result


def pass_rate(result: ExecutionResult) -> float:
    """Share of tests passed, in [0, 1]."""
    return sum(result["passing"]) / len(result["passing"])


def tests_of(row: Row, field: str, where: str) -> TestCases:
    """The tests in `row[field]`. Raises InputError if they are missing, malformed or none at all."""
    if row.get(field) is None:
        raise InputError(f"{where}: field '{field}' is missing")
    tests = TestCases.parse(row[field], where=f"{where}: field '{field}'")
    if not len(tests):
        raise InputError(f"{where}: field '{field}' holds no tests")
    return tests


def shown_tests(row: Row, which: str, where: str) -> TestCases:
    """The tests whose outcome the model is shown: `public_test_cases` or `perturbed_public_test_cases`.

    `which` is one of TEST_SETS. `auto` takes the one set there is; if a row carries both and they differ,
    it is refused, since either choice would be a silent guess.
    """
    if which == "perturbed":
        return tests_of(row, "perturbed_public_test_cases", where)
    public = tests_of(row, "public_test_cases", where)
    undecided = which == "auto" and row.get("perturbed_public_test_cases") is not None
    if undecided and tests_of(row, "perturbed_public_test_cases", where) != public:
        raise InputError(
            f"{where}: 'public_test_cases' and 'perturbed_public_test_cases' differ; "
            "say which to run: --tests public or --tests perturbed"
        )
    return public
