"""The request format shared by the service and its clients."""

import logging
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cobalt.errors import BadRequest
from cobalt.evaluator.rule import PUBLISHED, Rule, rule_of
from cobalt.testcases import TestCases

APPLICATION = "evaluator"
DEPLOYMENT = "Evaluator"
ROUTE = "/evaluator"
TOKEN_VARIABLE = "COBALT_EVALUATOR_TOKEN"  # for HTTP; without it the service asks for none

_KEYS = ("code", "test_cases", "compare", "stop_on_first_failure")


def canary() -> dict[str, Any]:
    """A request that a working evaluator passes: a right program, new each time so that it is really run."""
    number = random.getrandbits(64)
    return {
        "code": f"print(int(input()) + {number})",
        "test_cases": {"inputs": ["1\n"], "outputs": [f"{number + 1}\n"]},
    }


def parse_request(
    value: Any, *, where: str = "request", rule: Rule = PUBLISHED
) -> tuple[str | None, TestCases, Rule]:
    """Read `{code, test_cases[, compare, stop_on_first_failure]}`; `rule` gives what is absent.

    `code` may be null (no program was found). Unknown keys are ignored, with one warning per set of them.
    Raises BadRequest that names the field.
    """
    if not isinstance(value, Mapping):
        raise BadRequest(
            f"{where}: expected an object with 'code' and 'test_cases', got {type(value).__name__}"
        )
    if "code" not in value:
        raise BadRequest(f"{where}: 'code' is missing")
    code = value["code"]
    if code is not None and not isinstance(code, str):
        raise BadRequest(f"{where}: 'code' must be a string or null, got {type(code).__name__}")
    if "test_cases" not in value:
        raise BadRequest(f"{where}: 'test_cases' is missing")
    unknown = frozenset(map(str, value)) - frozenset(_KEYS)
    if unknown:
        _warn_of(unknown)
    tests = TestCases.parse(value["test_cases"], where=f"{where}: 'test_cases'")
    return code, tests, rule_of(value, rule, where=where)


@lru_cache(256)  # once for each set of names
def _warn_of(unknown: frozenset[str]) -> None:
    names = ", ".join(repr(name[:40]) for name in sorted(unknown)[:8])
    logging.getLogger(__name__).warning("ignoring unknown keys of a request: %s", names)


def make_request(code: str | None, test_cases: Any, rule: Rule | None = None) -> dict[str, Any]:
    """The request for a program; without a `rule` the service's own holds.

    Raises BadRequest for tests of the wrong shape, before anything is sent.
    """
    request: dict[str, Any] = {"code": code, "test_cases": TestCases.parse(test_cases).to_mapping()}
    if rule is not None:
        request |= {"compare": rule.compare, "stop_on_first_failure": rule.stop_on_first_failure}
    return request
