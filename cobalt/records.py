"""The rows that travel between stages, and checks on them.

Rows stay plain dictionaries so that keys nobody here knows pass through every stage unchanged. The
`TypedDict`s below document the published field names and array axes (S samples, T turns); "J" marks a
string that holds JSON text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NotRequired, TypedDict, TypeVar, overload

from cobalt.errors import BadRequest, InputError

Row = dict[str, Any]

SUITE_STATUSES = ("ok", "no_code", "compile_error", "infra_error")
TEST_STATUSES = ("passed", "wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit")
SKIPPED = "skipped"  # a test's status only where judging was asked to stop at the first failure

_T = TypeVar("_T")


class Message(TypedDict):
    """One chat message; `role` is system, user or assistant."""

    role: str
    content: str


class TestResult(TypedDict):
    """Outcome of one test: `status` from TEST_STATUSES (or SKIPPED), times in seconds, `returncode` None if
    killed, `peak_bytes` of resident memory of its largest process.
    """

    status: str
    cpu_s: float
    wall_s: float
    returncode: int | None
    peak_bytes: NotRequired[int]


class ExecutionResult(TypedDict, total=False):
    """Verdict on one program. `passing`, `feedback` and `per_test` have one entry per test.

    `status` is one of SUITE_STATUSES; `suite_limit` says that the time for the whole suite ran out (the
    tests not run are `time_limit`); `shared` that the verdict was taken from an identical request.
    """

    passing: list[bool]
    feedback: list[str]
    status: str
    per_test: list[TestResult]
    suite_limit: bool
    shared: bool


class TaskRow(TypedDict, total=False):
    """A task. `test_cases` (J) holds all tests, public ones first; the other two hold its parts."""

    id: str | int
    difficulty: str
    question: str
    instruction: str
    test_cases: str
    public_test_cases: str
    hidden_test_cases: str


class SingleTurnRow(TaskRow, total=False):
    """A task with S sampled completions and their verdicts on all tests."""

    responses: list[str]  # [S]
    exec_results: list[ExecutionResult]  # [S]
    usage: list[Any]  # [S] here, [T][S] in multi-turn rows


class TrajectoryRow(SingleTurnRow, total=False):
    """S dialogues of T programs. Turn comes first in the last three, sample first in `conversations`."""

    conversations: list[list[Message]]  # [S][2 + 2T]
    raw_responses: list[list[str]]  # [T][S]
    public_pass_rates: list[list[float]]  # [T][S], shares in [0, 1]
    public_exec_results: list[list[ExecutionResult]]  # [T][S]


class EvalRow(TrajectoryRow, total=False):
    """A trajectory row with the share of hidden tests passed. Axes are sample, then turn."""

    all_pass_rates: list[list[float]]  # [S][T], shares in [0, 1]


class ContextRow(TypedDict, total=False):
    """One bandit context: a dialogue of 2, 4, 6 or 8 messages that ends with a user message."""

    example_id: str | int
    conversation: list[Message]
    test_cases: str
    difficulty: str
    prev_best_pass_rate: float


class ParquetRow(TypedDict, total=False):
    """A training example as verl reads it; `reward_model.ground_truth` (J) holds all tests."""

    data_source: str
    prompt: list[Message]
    ability: str
    reward_model: dict[str, str]
    extra_info: dict[str, Any]


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
