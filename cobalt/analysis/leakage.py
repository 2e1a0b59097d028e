"""Static check of tasks: what gives hidden tests away, and whether there is a solution."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from cobalt.rows import Row

STATED, REPEATED, CONTRADICTED, UNSOLVED = "stated", "repeated", "contradicted", "unsolved"
KINDS = {
    STATED: "the statement contains a hidden test's input and output, or a long hidden output",
    REPEATED: "a hidden test has the input of a public one (or of an earlier hidden one)",
    CONTRADICTED: "two tests have the same input and different outputs",
    UNSOLVED: "no reference solution passes",
}
_LONG_OUTPUT = 24  # characters: shorter outputs turn up in statements by chance
_SHORTEST_INPUT = 3


def leaks(row: Row) -> list[dict[str, Any]]:
    """What is wrong with a task: `kind` (a key of KINDS), `tests` (indices of hidden tests) and `detail`.

    Looks at `instruction` or `question`, `public_test_cases`, `hidden_test_cases` and `verified`; what a row
    lacks, or holds in a shape that cannot be read, is not checked. Outputs of fewer than 24 characters count
    as stated only together with their input, each on lines of its own.
    """
    public, hidden = _pairs(row.get("public_test_cases")), _pairs(row.get("hidden_test_cases"))
    statement = _lines(str(row.get("question") or row.get("instruction") or ""))
    shown = dict(public)
    found: list[dict[str, Any]] = []
    stated = [
        index
        for index, (given, wanted) in enumerate(hidden)
        if shown.get(given) != wanted and _is_stated(statement, given, wanted)
    ]
    if stated:
        found.append(_flag(STATED, stated, hidden))
    seen, repeated, contradicted = dict(shown), list[int](), list[int]()
    for index, (given, wanted) in enumerate(hidden):
        if given in seen:
            (repeated if seen[given] == wanted else contradicted).append(index)
        seen.setdefault(given, wanted)
    if repeated:
        found.append(_flag(REPEATED, repeated, hidden))
    if contradicted or len(shown) < len(set(public)):
        found.append(_flag(CONTRADICTED, contradicted, hidden))
    if row.get("verified") is False:
        found.append({"kind": UNSOLVED, "tests": [], "detail": KINDS[UNSOLVED]})
    return found


def summarize(flags: Iterable[list[dict[str, Any]]]) -> dict[str, int]:
    """Number of tasks with each kind of flag."""
    counts = dict.fromkeys(KINDS, 0)
    for each in flags:
        for kind in {flag["kind"] for flag in each}:
            counts[kind] += 1
    return counts


def _flag(kind: str, tests: list[int], hidden: list[tuple[str, str]]) -> dict[str, Any]:
    of = f"hidden test {tests[0] + 1}: {hidden[tests[0]][1][:80]!r}" if tests else "public tests"
    return {"kind": kind, "tests": tests, "detail": of}


def _pairs(tests: Any) -> list[tuple[str, str]]:
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except ValueError:
            return []
    if not isinstance(tests, dict):
        return []
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        return []
    return [(_text(i), _text(o)) for i, o in zip(inputs, outputs, strict=False)]


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value)).strip()


def _lines(text: str) -> str:
    """Text with each line stripped, framed by newlines, so that blocks of whole lines can be found."""
    return "\n" + re.sub(r"[ \t]*\n[ \t]*", "\n", text.strip()) + "\n"


def _is_stated(statement: str, given: str, wanted: str) -> bool:
    block = _lines(wanted)
    if len(wanted) >= _LONG_OUTPUT and block[1:-1] in statement and len(set(wanted)) > 2:
        return True
    return (
        len(given) >= _SHORTEST_INPUT and bool(wanted) and _lines(given) in statement and block in statement
    )
