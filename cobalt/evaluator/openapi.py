"""The HTTP interface of the evaluator service in OpenAPI 3.1, served at `/evaluator/openapi.json`."""

from typing import Any

from cobalt import __version__
from cobalt.evaluator.request import ROUTE, TOKEN_VARIABLE
from cobalt.schema import SKIPPED, SUITE_STATUSES, TEST_STATUSES


def _array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _object(required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_or_many(name: str) -> dict[str, Any]:
    return {"oneOf": [_ref(name), _array(_ref(name))]}


def _answer(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


_TESTS = _object(
    ["inputs", "outputs"],
    inputs=_array({}, description="stdin of each test as text; with fn_name the list of arguments"),
    outputs=_array({}, description="expected stdout of each test; with fn_name the value"),
    fn_name={"type": ["string", "null"], "description": "call this function instead of the program"},
)

_SCHEMAS = {
    "Request": _object(
        ["code", "test_cases"],
        code={"type": ["string", "null"], "description": "the program; null if an answer held none"},
        test_cases={"oneOf": [_TESTS, {"type": "string", "description": "the same as JSON text"}]},
        compare={
            "type": "string",
            "default": "strip",
            "description": "strip, lines, tokens or float(REL, ABS)",
        },
        stop_on_first_failure={"type": "boolean", "default": False},
    ),
    "TestResult": _object(
        ["status", "cpu_s", "wall_s", "returncode"],
        status={"enum": [*TEST_STATUSES, SKIPPED]},
        cpu_s={"type": "number"},
        wall_s={"type": "number"},
        returncode={"type": ["integer", "null"], "description": "null: ended by a limit"},
        peak_bytes={"type": "integer"},
    ),
    "Verdict": _object(
        ["passing", "feedback", "status", "per_test", "suite_limit", "shared"],
        passing=_array({"type": "boolean"}, description="one per test"),
        feedback=_array({"type": "string"}, description="one per test"),
        status={"enum": list(SUITE_STATUSES)},
        per_test=_array(_ref("TestResult")),
        suite_limit={"type": "boolean"},
        shared={"type": "boolean"},
    ),
    "Error": _object(["error"], error={"type": "string"}),
}


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    error = _ref("Error")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cobalt evaluator", "version": __version__},
        "paths": {
            ROUTE: {
                "post": {
                    "summary": "Run programs on their tests",
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": _one_or_many("Request")}},
                    },
                    "responses": {
                        "200": _answer("verdicts, in the order of the requests", _one_or_many("Verdict")),
                        "401": _answer(f"the service asks for the token in its {TOKEN_VARIABLE}", error),
                        "422": _answer("the request has the wrong shape; the field is named", error),
                        "503": {"description": "the queue is full: send the request again later"},
                    },
                },
                "get": {
                    "summary": "How the replica is",
                    "responses": {"200": _answer("isolation, counters, queue", {"type": "object"})},
                },
            }
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
