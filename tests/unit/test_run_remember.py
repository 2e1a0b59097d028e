"""Verdicts remembered test by test: the same answers, fewer runs."""

import asyncio
from typing import Any

import pytest

from cobalt.run.remember import Remember
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases


class Echo:
    """An evaluator that passes a test whose input equals its output, and notes what it ran."""

    name, isolation = "echo", "none"

    def __init__(self, **more: Any) -> None:
        self.counters = {"tests": 0, "shared": 0, "infra_errors": 0}
        self.ran: list[tuple[str | None, list[str]]] = []
        self.more = more
        self.closed = False

    def evaluate(self, code: str | None, tests: TestCases) -> ExecutionResult:
        self.ran.append((code, tests.inputs))
        self.counters["tests"] += len(tests)
        passing = [a == b for a, b in zip(tests.inputs, tests.outputs, strict=True)]
        fact = {"status": "passed", "cpu_s": float(len(self.ran)), "wall_s": 0.0, "returncode": 0}
        return {
            "passing": passing,
            "feedback": [f"{code} on {given}" for given in tests.inputs],
            "status": "no_code" if code is None else "ok",
            "per_test": [dict(fact) for _ in passing],
            "suite_limit": False,
            "shared": False,
        } | self.more  # type: ignore[return-value]

    async def aevaluate(self, code: str | None, tests: TestCases) -> ExecutionResult:
        await asyncio.sleep(0)
        return self.evaluate(code, tests)

    def close(self) -> None:
        self.closed = True


ALL = TestCases(["1", "2", "3", "4"], ["1", "x", "3", "4"])
PUBLIC, HIDDEN = TestCases(["1", "2"], ["1", "x"]), TestCases(["3", "4"], ["3", "4"])


def plain(result: ExecutionResult) -> tuple[Any, ...]:
    facts = [each["status"] for each in result["per_test"]]
    return result["passing"], result["feedback"], result["status"], facts


def test_parts_of_a_known_suite_are_not_run_again():
    inner = Echo()
    evaluator = Remember(inner)
    evaluator.evaluate("p", ALL)
    for part in (PUBLIC, HIDDEN, TestCases(["4", "1"], ["4", "1"])):
        found = evaluator.evaluate("p", part)
        assert plain(found) == plain(Echo().evaluate("p", part)) and found["shared"]
    assert len(inner.ran) == 1 and inner.counters["tests"] == 4
    assert evaluator.counters["remembered"] == 3


def test_only_missing_tests_run_and_the_answer_is_in_the_order_asked():
    inner = Echo()
    evaluator = Remember(inner)
    evaluator.evaluate("p", TestCases(["3"], ["3"]))
    found = asyncio.run(evaluator.aevaluate("p", ALL))
    assert inner.ran[1] == ("p", ["1", "2", "4"])
    assert plain(found) == plain(Echo().evaluate("p", ALL)) and not found["shared"]
    assert [each["cpu_s"] for each in found["per_test"]] == [2.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("q", ALL),
        ("p", TestCases(["1"], ["other"])),
        ("p", TestCases([["1"]], ["1"], "f")),
    ],
)
def test_another_program_output_or_function_is_another_question(code, tests):
    inner = Echo()
    evaluator = Remember(inner)
    evaluator.evaluate("p", ALL)
    evaluator.evaluate(code, tests)
    assert len(inner.ran) == 2


@pytest.mark.parametrize(
    "more", [{"status": "infra_error"}, {"status": "compile_error"}, {"suite_limit": True}]
)
def test_unclear_verdicts_are_neither_remembered_nor_mixed(more):
    inner = Echo(**more)
    evaluator = Remember(inner)
    assert evaluator.evaluate("p", ALL) == Echo(**more).evaluate("p", ALL)
    evaluator.evaluate("p", ALL)
    assert len(inner.ran) == 2
    inner.more = {}
    evaluator.evaluate("p", PUBLIC)
    inner.more = more
    found = evaluator.evaluate("p", ALL)
    assert len(found["passing"]) == 4 and inner.ran[-1] == ("p", ALL.inputs)


def test_parts_that_together_are_over_the_time_of_a_suite_are_run_as_one():
    """Each test of Echo's n-th request takes n CPU seconds."""
    inner = Echo()
    evaluator = Remember(inner, suite_s=5.0)
    evaluator.evaluate("p", PUBLIC)  # 2 x 1 s
    evaluator.evaluate("p", HIDDEN)  # 2 x 2 s
    evaluator.evaluate("p", ALL)
    assert [inputs for _, inputs in inner.ran] == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]
    inner = Echo()
    evaluator = Remember(inner, suite_s=2.5)
    evaluator.evaluate("p", PUBLIC)
    evaluator.evaluate("p", ALL)
    assert [inputs for _, inputs in inner.ran] == [PUBLIC.inputs, HIDDEN.inputs, ALL.inputs]


def test_no_code_is_asked_every_time():
    inner = Echo()
    evaluator = Remember(inner)
    assert [evaluator.evaluate(None, ALL)["status"] for _ in range(2)] == ["no_code"] * 2
    assert len(inner.ran) == 2


def test_memory_is_bounded_and_old_verdicts_are_forgotten_first():
    inner = Echo()
    evaluator = Remember(inner, limit=4)
    evaluator.evaluate("old", ALL)
    assert plain(evaluator.evaluate("new", ALL)) == plain(Echo().evaluate("new", ALL))
    evaluator.evaluate("new", ALL)
    assert len(inner.ran) == 2
    evaluator.evaluate("old", PUBLIC)
    assert len(inner.ran) == 3


def test_answers_do_not_share_their_parts():
    evaluator = Remember(Echo())
    first = evaluator.evaluate("p", ALL)
    first["per_test"][0]["status"] = "spoilt"
    first["passing"][0] = False
    second = evaluator.evaluate("p", ALL)
    second["per_test"][1]["status"] = "spoilt"
    assert plain(evaluator.evaluate("p", ALL)) == plain(Echo().evaluate("p", ALL))


def test_closing_closes_the_other():
    with Remember(Echo()) as evaluator:
        inner = evaluator.inner
    assert inner.closed
