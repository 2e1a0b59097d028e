"""Feedback texts: labels, order, cuts."""

import pytest

from cobalt.evaluator import feedback


def test_the_program_ran():
    text = feedback.wrong_answer_feedback(" 1 2\n", "3\n", "4\n")
    assert text == "Input:\n1 2\nProgram's Output:\n3\nExpected Output:\n4"


def test_the_program_failed():
    text = feedback.stderr_feedback("1\n", "partial\n", "Traceback\nValueError: x\n")
    assert text == "Input:\n1\nProgram's Output:\npartial\nStderr:\nTraceback\nValueError: x"


def test_the_program_ran_out_of_time():
    text = feedback.timeout_feedback("1\n", 4.0)
    assert text == "Input:\n1\nTimeoutError: Program timed out after 4 seconds."


def test_something_else():
    assert feedback.exception_feedback("1\n", "too much") == "Input:\n1\nException: too much"


def test_long_values_lose_their_middle():
    value = "a" * 200 + "b" * 500 + "c" * 200
    cut = "a" * 200 + "...(truncated) ..." + "c" * 200
    text = feedback.wrong_answer_feedback(value, value, value)
    assert text == f"Input:\n{cut}\nProgram's Output:\n{cut}\nExpected Output:\n{cut}"
    assert feedback.show("x" * 400) == "x" * 400


def test_values_of_function_tasks_are_shown_as_json():
    assert feedback.show([1, ["a", None]]) == '[1, ["a", null]]'


@pytest.mark.parametrize(
    ("passing", "expected"),
    [([True, True], None), ([], None), ([True, False, False], "second"), ([False], "first")],
)
def test_first_failure(passing, expected):
    texts = ["first", "second", "third"][: len(passing)]
    assert feedback.first_failure({"passing": passing, "feedback": texts}) == expected
