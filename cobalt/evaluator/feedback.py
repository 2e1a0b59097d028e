"""The text that tells a model how its program did on a test. Labels and cuts are the published ones."""

import json
import re
from typing import Any

from cobalt.schema import ExecutionResult
from cobalt.text import middle_truncate

# Input and expected output of each test in texts of `wrong_answer_feedback`, one behind another.
WRONG_ANSWER = re.compile(
    r"Input:\n(.*?)\nProgram's Output:\n.*?\nExpected Output:\n(.*?)(?=\n\nInput:\n|\Z)", re.S
)


def show(value: Any) -> str:
    """A test value as feedback shows it: text as it is, other values as JSON; cut in the middle."""
    return middle_truncate(value if isinstance(value, str) else json.dumps(value))


def wrong_answer_feedback(test_input: Any, output: Any, expected: Any) -> str:
    """The program ran; also used where it passed."""
    return (
        f"Input:\n{show(test_input)}\nProgram's Output:\n{show(output)}\nExpected Output:\n{show(expected)}"
    )


def stderr_feedback(test_input: Any, output: Any, stderr: str) -> str:
    """The program ended with an error and said so on stderr."""
    return f"Input:\n{show(test_input)}\nProgram's Output:\n{show(output)}\nStderr:\n{show(stderr)}"


def timeout_feedback(test_input: Any, seconds: float) -> str:
    return f"Input:\n{show(test_input)}\nTimeoutError: Program timed out after {seconds:g} seconds."


def exception_feedback(test_input: Any, text: str) -> str:
    return f"Input:\n{show(test_input)}\nException: {text}"


def first_failure(result: ExecutionResult, tests: int = 1) -> str | None:
    """Feedback on the first so many tests that did not pass; None if all passed (or there was none)."""
    pairs = zip(result["passing"], result["feedback"], strict=True)
    failed = [text for passed, text in pairs if not passed]
    return "\n\n".join(failed[:tests]) if failed else None
