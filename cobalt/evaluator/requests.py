"""A request to the evaluator behind a wire: made by its clients, read by the service."""

import logging
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cobalt.errors import BadRequest
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.testcases import TestCases


def canary() -> dict[str, Any]:
    """A request that a working evaluator passes: a right program, new each time so that it is really run."""
    number = random.getrandbits(64)
    return {
        "code": f"print(int(input()) + {number})",
        "test_cases": {"inputs": ["1\n"], "outputs": [f"{number + 1}\n"]},
    }


def is_run(request: Any) -> bool:
    """Whether a request asks for a raw run (`cobalt.evaluator.runs`), not for a verdict."""
    return isinstance(request, Mapping) and "source" in request


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
    own = {"compare": rule.compare, "stop_on_first_failure": rule.stop_on_first_failure, **value}
    found = {}
    for name, (kind, what) in _FIELDS.items():
        if name not in own:
            raise BadRequest(f"{where}: '{name}' is missing")
        found[name] = own.pop(name)
        if not isinstance(found[name], kind):
            raise BadRequest(f"{where}: '{name}' must be {what}, got {type(found[name]).__name__}")
    if own:
        _warn_of(frozenset(map(str, own)))
    tests = TestCases.parse(found["test_cases"], where=f"{where}: 'test_cases'")
    try:
        return found["code"], tests, Rule(found["compare"], found["stop_on_first_failure"])
    except BadRequest as error:
        raise BadRequest(f"{where}: {error}") from None


_FIELDS: dict[str, tuple[Any, str]] = {
    "code": ((str, type(None)), "a string or null"),
    "test_cases": (object, "an object"),
    "compare": (str, "a string"),
    "stop_on_first_failure": (bool, "true or false"),
}


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
