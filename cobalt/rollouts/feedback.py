"""The user message after a program: the built-in text, or a function of the user's own in its place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.evaluator.feedback import first_failure, stderr_feedback, wrong_answer_feedback
from cobalt.own import Own, absolute, fault_in, load
from cobalt.prompts import Prompts
from cobalt.schema import ExecutionResult, TestResult

OFFERED = ("result", "code", "prompts", "turn")


def built_in(result: ExecutionResult | None, prompts: Prompts) -> str:
    """The first public tests that failed (`prompts.failing_tests` of them), that all passed, or, where
    ``result`` is None, that the response held no program.
    """
    failed = prompts.no_code if result is None else first_failure(result, prompts.failing_tests)
    return prompts.feedback_message(failed)


def message(
    own: Own | None, *, result: ExecutionResult, code: str | None, prompts: Prompts, turn: int
) -> str:
    """The message after program ``turn`` (from 0), by ``own`` or built in.

    ``result``: of the public tests; the function gets a copy, and None without ``code``. Raises InfraError,
    with the function's ``file:line``, if it raises or gives no text.
    """
    if own is None:
        return built_in(None if code is None else result, prompts)
    shown = None if code is None else copy.deepcopy(result)
    try:
        text = own(result=shown, code=code, prompts=prompts, turn=turn)
    except Exception as error:
        raise InfraError(fault_in(own, error)) from error
    if not isinstance(text, str) or not text.strip():
        raise InfraError(f"{own.where}: {own.setting}={own.spec}: must return text, got {text!r:.80}")
    return text


def open_feedback(
    spec: str | None, setting: str, prompts: Prompts, constants: Mapping[str, Any] | None = None
) -> Own | None:
    """The function that a ``setting`` names, tried on made-up results; None where ``spec`` is None.

    Raises InputError, with ``file:line``, where it cannot be loaded or fails on one of them: a program that
    passes, one with a wrong answer, one that ends with an error, none at all.
    """
    if spec is None:
        return None
    own = load(absolute(spec, Path.cwd()), setting, OFFERED, constants=constants)
    for case, result in _made_up().items():
        code = "print(1)" if case != "without a program" else None
        try:
            message(own, result=result, code=code, prompts=prompts, turn=0)
        except InfraError as error:
            raise InputError(f"{error} (tried on a response {case})") from error
    return own


def _made_up() -> dict[str, ExecutionResult]:
    """Results on two tests, of which the second decides, by what the response held."""
    right = wrong_answer_feedback("1\n", "1\n", "1\n")

    def result(status: str, told: str, suite: str = "ok") -> ExecutionResult:
        code = int(status == "runtime_error")
        each: list[TestResult] = [
            {"status": name, "cpu_s": 0.01, "wall_s": 0.02, "returncode": ended, "peak_bytes": 1 << 23}
            for name, ended in (("passed", 0), (status, code))
        ]
        return {
            "passing": [suite == "ok", status == "passed"], "feedback": [right, told], "status": suite,
            "per_test": each, "suite_limit": False, "shared": False,
        }  # fmt: skip

    return {
        "whose program passes": result("passed", right),
        "with a wrong answer": result("wrong_answer", wrong_answer_feedback("2\n", "1\n", "2\n")),
        "whose program crashes": result(
            "runtime_error", stderr_feedback("2\n", "", "Traceback (most recent call last):\nValueError: 2")
        ),
        "without a program": result("runtime_error", "Exception: No code block.", "no_code"),
    }
