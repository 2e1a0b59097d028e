"""How a program's output is held against a test: the published rule, and named alternatives."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from cobalt.errors import BadRequest
from cobalt.evaluator.compare import lines_equal, output_of, parts_of, stripped_equal, tokens_equal, words
from cobalt.evaluator.output import Output

_FLOAT = re.compile(r"float(?:\(\s*([^,()]+?)\s*(?:,\s*([^,()]+?)\s*)?\))?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 400  # longer ones are compared as text
_DEFAULT_TOLERANCE = 1e-6


class Tolerance(NamedTuple):
    """Numbers are equal within `absolute`, or within `relative` times the expected one."""

    relative: float
    absolute: float


@dataclass(frozen=True)
class Rule:
    """How to judge stdin tests, and when to stop. Function tests always compare values.

    `compare`: `strip` (the published rule: equal once whitespace at both ends is gone), `lines` (whitespace
    at the ends of lines and empty lines at the end do not count), `tokens` (no whitespace counts), or
    `float(REL, ABS)` (as `tokens`, and numbers are equal within either tolerance; `float`: 1e-6 for both).
    `stop_on_first_failure`: tests after the first failed one are not run and are `skipped`.

    Raises BadRequest for another `compare`.
    """

    compare: str = "strip"
    stop_on_first_failure: bool = False

    def __post_init__(self) -> None:
        if self.compare not in ("strip", "lines", "tokens"):
            tolerance(self.compare)

    def accepts(self, stdout: Output | str, expected: str) -> bool:
        """Whether `stdout` answers a test that expects `expected`.

        Time is linear in both, and memory a small multiple of both, whatever the program wrote.
        """
        stdout = output_of(stdout)
        if stripped_equal(stdout, expected):
            return True
        if self.compare == "strip":
            return False
        if self.compare == "lines":
            return lines_equal(stdout, expected)
        if self.compare == "tokens":
            return tokens_equal(stdout, expected)
        longest = max(_LONGEST_NUMBER, len(expected))  # a longer word equals none of the expected ones
        given, wanted = words(stdout.pieces(), longest), words(parts_of(expected), longest)
        return _all_close(given, wanted, tolerance(self.compare))


PUBLISHED = Rule()


def rule_of(values: Any, default: Rule, *, where: str) -> Rule:
    """The rule that a request's keys `compare` and `stop_on_first_failure` ask for; `default` where absent.

    Raises BadRequest that names the field.
    """
    name = values.get("compare", default.compare)
    stop = values.get("stop_on_first_failure", default.stop_on_first_failure)
    if not isinstance(name, str):
        raise BadRequest(f"{where}: 'compare' must be a string, got {type(name).__name__}")
    if not isinstance(stop, bool):
        raise BadRequest(f"{where}: 'stop_on_first_failure' must be true or false, got {type(stop).__name__}")
    try:
        return Rule(name, stop)
    except BadRequest as error:
        raise BadRequest(f"{where}: {error}") from None


@cache
def tolerance(name: str) -> Tolerance:
    """The tolerances in `float(REL, ABS)`. Raises BadRequest for anything else."""
    found = _FLOAT.fullmatch(name)
    try:
        relative, absolute = (
            float(text) if text else default
            for text, default in zip(
                found.groups() if found else (), (_DEFAULT_TOLERANCE, _DEFAULT_TOLERANCE), strict=True
            )
        )
    except ValueError:
        relative = absolute = -1.0
    if not (0 <= relative < math.inf and 0 <= absolute < math.inf):
        raise BadRequest(f"'compare' must be strip, lines, tokens or float(REL, ABS), got {name[:80]!r}")
    return Tolerance(relative, absolute)


def _all_close(given: Iterator[str], wanted: Iterator[str], within: Tolerance) -> bool:
    return all(
        one is not None and other is not None and _close(one, other, within)
        for one, other in zip_longest(given, wanted)
    )


def _close(given: str, wanted: str, within: Tolerance) -> bool:
    if given == wanted:
        return True
    if not (_is_number(given) and _is_number(wanted)):
        return False
    return math.isclose(float(given), float(wanted), rel_tol=0.0, abs_tol=_allowed(float(wanted), within))


def _allowed(wanted: float, within: Tolerance) -> float:
    return max(within.absolute, within.relative * abs(wanted))


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None
