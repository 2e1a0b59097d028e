"""The request format shared by the service and its clients."""

import random
from collections.abc import Mapping
from typing import Any

from cobalt.errors import BadRequest
from cobalt.records import TestCases

APPLICATION = "evaluator"
DEPLOYMENT = "Evaluator"
ROUTE = "/evaluator"

# A right program and its test. A service may know the verdict by heart: `canary` makes one that is run.
CANARY: dict[str, Any] = {
    "code": "print(int(input()) + 1)",
    "test_cases": {"inputs": ["41\n"], "outputs": ["42\n"]},
}


def canary() -> dict[str, Any]:
    """A request that a working evaluator passes: a right program, new each time so that it is really run."""
    number = random.getrandbits(64)
    return {
        "code": f"print(int(input()) + {number})",
        "test_cases": {"inputs": ["1\n"], "outputs": [f"{number + 1}\n"]},
    }


def parse_request(value: Any, *, where: str = "request") -> tuple[str | None, TestCases]:
    """Read `{code, test_cases}`. `code` may be null (no program was found). Unknown keys are ignored.

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
    return code, TestCases.parse(value["test_cases"], where=f"{where}: 'test_cases'")


def make_request(code: str | None, test_cases: Any) -> dict[str, Any]:
    """The request for a program. Raises BadRequest for tests of the wrong shape, before anything is sent."""
    return {"code": code, "test_cases": TestCases.parse(test_cases).to_mapping()}
