"""The programs of a row: of dialogues, of completions, or as they are; and tests that are code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobalt.errors import InputError
from cobalt.kinds import kind_of
from cobalt.rows import Row, require
from cobalt.testcases import TestCases
from cobalt.text import extract_code

CODE_FROM = ("message", "raw")

# Tests that are code define one of these, and are run so. The globals are those that EvalPlus gives.
_HARNESSES = {
    "def check(": "    names['check'](names[{entry!r}])\n    return True\n",
    "class TestCases(": "    import unittest\n    result = unittest.TestResult()\n"
    "    unittest.defaultTestLoader.loadTestsFromTestCase(names['TestCases']).run(result)\n"
    "    return result.wasSuccessful() and result.testsRun > 0\n",
}
_PROGRAM = "def {name}():\n    names = {{}}\n    exec(compile({source!r}, 'solution.py', 'exec'), names)\n"
CODE_TESTS = TestCases([[]], [True], "passes_its_tests")


def with_tests(code: str | None, row: Row, where: str) -> str | None:
    """The program that is run: where the tests of a row are code (CODE_TESTS), one that runs them on `code`.

    Raises InputError for a field `test` that defines neither of what is known, or no `entry_point`.
    """
    if "test" not in row or CODE_TESTS.to_json() != row.get("test_cases") or code is None:
        return code
    test, entry = (require(row, name, str, where) for name in ("test", "entry_point"))
    harness = next((text for mark, text in _HARNESSES.items() if mark in test), None)
    if harness is None:
        raise InputError(f"{where}: field 'test' must define check(candidate) or a class TestCases(...)")
    return (_PROGRAM + harness).format(name=CODE_TESTS.fn_name, source=f"{code}\n{test}", entry=entry)


def programs_of(row: Row, where: str, code_from: str = "message") -> list[list[str | None]]:
    """The code of every program, [samples][turns]; None where there is no code block.

    `code_from`: `message` reads the dialogue as the model saw it, `raw` the uncut `raw_responses`. Rows of a
    single-turn run have one turn, their `responses`, or `exact_programs` as they are. Raises InputError,
    naming sample and message, where `conversations` is not system, user, assistant, user, ..., or saying what
    comes first where there is none.
    """
    if "conversations" not in row and row.get("exact_programs") is not None:
        return [[code] for code in _texts(row, "exact_programs", where)]
    if "conversations" not in row:
        return [[extract_code(text)] for text in _responses(row, where)]
    conversations = require(row, "conversations", list, where)
    if not conversations:
        raise InputError(f"{where}: field 'conversations' holds no samples")
    samples = []
    for s, messages in enumerate(conversations):
        _check_dialogue(messages, f"{where}: conversations[{s}]")
        texts = [message["content"] for message in messages[2::2]]
        if code_from == "raw":
            raw = require(row, "raw_responses", list, where)
            for t in range(len(texts)):
                try:
                    texts[t] = raw[t][s]
                except (IndexError, TypeError):
                    raise InputError(f"{where}: raw_responses[{t}][{s}] is missing") from None
        samples.append([extract_code(text) for text in texts])
    return samples


def _responses(row: Row, where: str) -> list[str | None]:
    """The completions of a single-turn row."""
    if "responses" not in row:
        kind = kind_of(row)
        raise InputError(
            f"{where}: field 'conversations' is missing: "
            + (f"these are {kind.name}" if kind else "these rows are of no known kind")
            + ", not programs; run_single_turn_vllm.py, or run_multi_turn_vllm.py --first_turn, comes first"
        )
    return _texts(row, "responses", where)


def _texts(row: Row, name: str, where: str) -> list[str | None]:
    texts = require(row, name, list, where)
    if not texts or not all(isinstance(text, str | None) for text in texts):
        raise InputError(f"{where}: field '{name}' must be a list of at least one text")
    return texts


def _check_dialogue(messages: Any, place: str) -> None:
    if not isinstance(messages, list) or len(messages) < 3:
        raise InputError(f"{place} must be a list of at least three messages")
    for m, message in enumerate(messages):
        role = ("system" if m == 0 else "user") if m < 2 or m % 2 else "assistant"
        if not isinstance(message, Mapping) or message.get("role") != role:
            raise InputError(f"{place}[{m}] must be a message of role '{role}'")
        if not isinstance(message.get("content"), str | None):
            raise InputError(f"{place}[{m}]: 'content' must be a text")
