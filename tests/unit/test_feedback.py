"""Feedback texts: labels, order, cuts."""

import pytest

from cobalt.evaluator import feedback

LONG = "a" * 200 + "b" * 500 + "c" * 200
CUT = "a" * 200 + "...(truncated) ..." + "c" * 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (feedback.wrong_answer_feedback(" 1 2\n", "3\n", "4\n"),
         "Input:\n1 2\nProgram's Output:\n3\nExpected Output:\n4"),
        (feedback.stderr_feedback("1\n", "partial\n", "Traceback\nValueError: x\n"),
         "Input:\n1\nProgram's Output:\npartial\nStderr:\nTraceback\nValueError: x"),
        (feedback.timeout_feedback("1\n", 4.0),
         "Input:\n1\nTimeoutError: Program timed out after 4 seconds."),
        (feedback.exception_feedback("1\n", "too much"), "Input:\n1\nException: too much"),
        (feedback.wrong_answer_feedback(LONG, LONG, LONG),
         f"Input:\n{CUT}\nProgram's Output:\n{CUT}\nExpected Output:\n{CUT}"),
        (feedback.show("x" * 400), "x" * 400),
        (feedback.show([1, ["a", None]]), '[1, ["a", null]]'),
    ],
)  # fmt: skip
def test_texts(text, expected):
    assert text == expected


@pytest.mark.parametrize(
    ("passing", "expected"),
    [([True, True], None), ([], None), ([True, False, False], "second"), ([False], "first")],
)
def test_first_failure(passing, expected):
    texts = ["first", "second", "third"][: len(passing)]
    assert feedback.first_failure({"passing": passing, "feedback": texts}) == expected


def test_a_prompt_set_may_tell_several_failures():
    result = {"passing": [False, True, False, False], "feedback": ["a", "b", "c", "d"]}
    found = [feedback.first_failure(result, tests) for tests in (1, 2, 9)]
    assert found == ["a", "a\n\nc", "a\n\nc\n\nd"]
