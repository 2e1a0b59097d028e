"""The rows that travel between stages, and checks on them.

Rows stay plain dictionaries so that keys nobody here knows pass through every stage unchanged. Their
fields are documented in `cobalt.rowtypes`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from cobalt.errors import BadRequest, InputError
from cobalt.rowtypes import (
    ContextRow,
    EvalRow,
    ExecutionResult,
    Message,
    ParquetRow,
    SingleTurnRow,
    TaskRow,
    TestResult,
    TrajectoryRow,
)

__all__ = [
    "SKIPPED",
    "SUITE_STATUSES",
    "TEST_STATUSES",
    "ContextRow",
    "EvalRow",
    "ExecutionResult",
    "Message",
    "ParquetRow",
    "Row",
    "SingleTurnRow",
    "TaskRow",
    "TestCases",
    "TestResult",
    "TrajectoryRow",
    "require",
    "row_id",
]

Row = dict[str, Any]

SUITE_STATUSES = ("ok", "no_code", "compile_error", "infra_error")
TEST_STATUSES = ("passed", "wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit")
SKIPPED = "skipped"  # a test's status only where judging was asked to stop at the first failure

_T = TypeVar("_T")


@dataclass(frozen=True)
class TestCases:
    """Tests of one task: stdin texts and expected stdout, or, with `fn_name`, argument lists and values."""

    __test__: ClassVar[bool] = False  # not a test class, whatever pytest thinks of the name

    inputs: list[Any]
    outputs: list[Any]
    fn_name: str | None = None

    @classmethod
    def parse(cls, value: "str | Mapping[str, Any] | TestCases", *, where: str = "test_cases") -> "TestCases":
        """Read `{inputs, outputs[, fn_name]}` given as a mapping or as JSON text.

        `where` opens the error message (a field, or `file:line: field`).
        Raises BadRequest if a list is missing, the lengths differ, or an entry of a stdin test is no string.
        """
        if isinstance(value, TestCases):
            return value
        if isinstance(value, str | bytes):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise BadRequest(f"{where}: not valid JSON ({error})") from None
        if not isinstance(value, Mapping):
            raise BadRequest(f"{where}: expected an object with 'inputs' and 'outputs', got {_kind(value)}")
        fn_name = value.get("fn_name") or None
        if fn_name is not None and not isinstance(fn_name, str):
            raise BadRequest(f"{where}: 'fn_name' must be a string, got {_kind(fn_name)}")
        inputs, outputs = (_test_list(value, name, fn_name, where) for name in ("inputs", "outputs"))
        if len(inputs) != len(outputs):
            raise BadRequest(f"{where}: {len(inputs)} inputs but {len(outputs)} outputs")
        return cls(inputs, outputs, fn_name)

    def to_mapping(self) -> dict[str, Any]:
        """The published shape; `fn_name` only where there is one."""
        tests: dict[str, Any] = {"inputs": self.inputs, "outputs": self.outputs}
        return tests if self.fn_name is None else tests | {"fn_name": self.fn_name}

    def to_json(self) -> str:
        return json.dumps(self.to_mapping())

    def __len__(self) -> int:
        return len(self.inputs)

    def __add__(self, other: "TestCases") -> "TestCases":
        if self.fn_name != other.fn_name:
            raise ValueError(f"cannot join tests of {self.fn_name!r} and {other.fn_name!r}")
        return TestCases(self.inputs + other.inputs, self.outputs + other.outputs, self.fn_name)


def _test_list(value: Mapping[str, Any], name: str, fn_name: str | None, where: str) -> list[Any]:
    if name not in value:
        raise BadRequest(f"{where}: '{name}' is missing")
    items = value[name]
    if not isinstance(items, list | tuple):
        raise BadRequest(f"{where}: '{name}' must be a list, got {_kind(items)}")
    if fn_name is None:
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise BadRequest(
                    f"{where}: {name}[{index}] must be a string, got {_kind(item)} "
                    "(only tests with 'fn_name' may hold other values)"
                )
    return list(items)


def row_id(row: Mapping[str, Any], where: str, field: str = "id") -> str | int:
    """The key of a row: a non-empty string or an integer (0 is one; 0 and "0" differ). Raises InputError."""
    value = row.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value:
        return value
    given = f"got {value!r}" if field in row else "it is missing"
    raise InputError(f"{where}: '{field}' must be a non-empty string or a whole number, {given}")


@overload
def require(row: Mapping[str, Any], field: str, kind: type[_T], where: str) -> _T: ...
@overload
def require(row: Mapping[str, Any], field: str, kind: tuple[type[Any], ...], where: str) -> Any: ...
def require(row: Mapping[str, Any], field: str, kind: Any, where: str) -> Any:
    """`row[field]`, checked to be of `kind` (a type or a tuple of types; true and false are not numbers).

    Raises InputError that names `where` (`file:line`) and the field.
    """
    kinds: tuple[type[Any], ...] = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join(_NAMES.get(each, each.__name__) for each in kinds)
    if field not in row:
        raise InputError(f"{where}: field '{field}' is missing (expected {names})")
    value = row[field]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"{where}: field '{field}' must be {names}, got {_kind(value)}")
    return value


_NAMES: dict[type[Any], str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), type(value).__name__)
