"""The tests of a task."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cobalt.errors import BadRequest
from cobalt.rows import type_name

FIELDS = ("test_cases", "public_test_cases", "hidden_test_cases", "modified_test_cases",
          "perturbed_public_test_cases")  # of a row, where tests stand  # fmt: skip
NUM_PUBLIC = 4  # tests of a task that are shown to the model, where nothing says otherwise


@dataclass(frozen=True)
class TestCases:
    """Tests of one task: stdin texts and expected stdout, or, with `fn_name`, argument lists and values."""

    __test__: ClassVar[bool] = False  # not a test class, whatever pytest thinks of the name

    inputs: list[Any]
    outputs: list[Any]
    fn_name: str | None = None

    @classmethod
    def parse(cls, value: str | Mapping[str, Any] | TestCases, *, where: str = "test_cases") -> TestCases:
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
            raise BadRequest(
                f"{where}: expected an object with 'inputs' and 'outputs', got {type_name(value)}"
            )
        fn_name = value.get("fn_name") or None
        if fn_name is not None and not isinstance(fn_name, str):
            raise BadRequest(f"{where}: 'fn_name' must be a string, got {type_name(fn_name)}")
        inputs, outputs = (_test_list(value, name, fn_name, where) for name in ("inputs", "outputs"))
        if len(inputs) != len(outputs):
            raise BadRequest(f"{where}: {len(inputs)} inputs but {len(outputs)} outputs")
        return cls(inputs, outputs, fn_name)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Any, Any]], fn_name: str | None = None) -> TestCases:
        """From (input, output) pairs."""
        listed = list(pairs)
        return cls([pair[0] for pair in listed], [pair[1] for pair in listed], fn_name)

    def pairs(self) -> list[tuple[Any, Any]]:
        """(input, output) of every test."""
        return list(zip(self.inputs, self.outputs, strict=True))

    def divided(self, public: int) -> tuple[TestCases, TestCases]:
        """The first `public` tests, which are shown to the model, and the others."""
        head, tail = slice(public), slice(public, None)
        return (
            TestCases(self.inputs[head], self.outputs[head], self.fn_name),
            TestCases(self.inputs[tail], self.outputs[tail], self.fn_name),
        )

    def contradicts(self, others: TestCases) -> str | None:
        """The first input to which `others` give another answer, in words; None if they give none.

        An input that others have with several answers is contradicted if ours is none of them.
        """
        answers: dict[str, list[str]] = {}
        for given, wanted in others.pairs():
            answers.setdefault(json.dumps(given), []).append(_answer(wanted))
        for given, wanted in self.pairs():
            found = answers.get(json.dumps(given))
            if found and _answer(wanted) not in found:
                return (
                    f"for {given!r:.60} it wants {wanted!r:.60}, where another suite wants {found[0]!r:.60}"
                )
        return None

    def to_mapping(self) -> dict[str, Any]:
        """The published shape; `fn_name` only where there is one."""
        tests: dict[str, Any] = {"inputs": self.inputs, "outputs": self.outputs}
        return tests if self.fn_name is None else tests | {"fn_name": self.fn_name}

    def to_json(self) -> str:
        return json.dumps(self.to_mapping())

    def __len__(self) -> int:
        return len(self.inputs)

    def __add__(self, other: TestCases) -> TestCases:
        if self.fn_name != other.fn_name:
            raise ValueError(f"cannot join tests of {self.fn_name!r} and {other.fn_name!r}")
        return TestCases(self.inputs + other.inputs, self.outputs + other.outputs, self.fn_name)


def _answer(wanted: Any) -> str:
    """What no rule of comparison tells apart is one: spaces and line ends of a printed answer."""
    return " ".join(wanted.split()) if isinstance(wanted, str) else json.dumps(wanted)


def _test_list(value: Mapping[str, Any], name: str, fn_name: str | None, where: str) -> list[Any]:
    if name not in value:
        raise BadRequest(f"{where}: '{name}' is missing")
    items = value[name]
    if not isinstance(items, list | tuple):
        raise BadRequest(f"{where}: '{name}' must be a list, got {type_name(items)}")
    if fn_name is None:
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise BadRequest(
                    f"{where}: {name}[{index}] must be a string, got {type_name(item)} "
                    "(only tests with 'fn_name' may hold other values)"
                )
    return list(items)
