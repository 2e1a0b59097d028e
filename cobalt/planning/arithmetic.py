"""Arithmetic that prints what it computes: one formula gives the words, the numbers and the result."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# Phi is the standard normal distribution function.
FUNCTIONS: dict[str, Callable[..., float]] = {
    "max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "exp": math.exp, "ln": math.log,
    "sqrt": math.sqrt, "Phi": NormalDist().cdf,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One step: ``formula`` in words, ``numbers`` the same with the values put in, ``value`` in ``unit``."""

    section: str
    name: str
    formula: str
    numbers: str
    value: float
    unit: str

    def __str__(self) -> str:
        result = f"{number(self.value)} {self.unit}".rstrip()
        if self.numbers == number(self.value):
            return f"  {self.name}: {result}  ({self.formula})"
        return f"  {self.name} = {self.formula} = {self.numbers} = {result}"


@dataclass
class Sheet:
    """Lines in the order of their making."""

    lines: list[Line] = field(default_factory=list)
    section: str = ""

    def put(self, name: str, formula: str, unit: str = "", **given: float) -> float:
        """Work out ``formula`` (``+ - * /``, brackets, `FUNCTIONS`) of ``given`` and keep the line."""
        value = evaluate(formula, given)
        words = _NAME.sub(lambda found: found[0].replace("_", " "), formula)
        numbers = _NAME.sub(lambda found: number(given[found[0]]) if found[0] in given else found[0], formula)
        self.lines.append(Line(self.section, name, _times(words), _times(numbers), value, unit))
        return value


def evaluate(formula: str, given: dict[str, float]) -> float:
    """The value of a formula. Raises ValueError for anything but arithmetic of the given names."""
    return _value(_parsed(formula), given)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, given: dict[str, float]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, given), _value(node.right, given))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return float(FUNCTIONS[node.func.id](*(_value(each, given) for each in node.args)))
    if isinstance(node, ast.Name) and node.id in given:
        return float(given[node.id])
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError(f"not arithmetic of {', '.join(given)}: {ast.unparse(node)}")


def _times(text: str) -> str:
    return text.replace("*", "x")


def number(value: float) -> str:
    """Whole numbers in full, others to five significant digits, with commas."""
    if value < 0:
        return f"({_number(value)})"
    return _number(value)


def _number(value: float) -> str:
    if math.isinf(value) or float(value).is_integer():
        return f"{value:,.0f}"
    places = max(0, 4 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
