"""Arithmetic that prints what it computes: one formula gives the words, the numbers and the result."""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from cobalt.errors import InputError

_STEP = re.compile(r"(.+) \[(.*?)\] = (.+)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# Phi is the standard normal distribution function.
FUNCTIONS: dict[str, Callable[..., float]] = {
    "max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "exp": math.exp, "ln": math.log,
    "Phi": NormalDist().cdf,
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
    """Lines in the order of their making.

    ``assumed``: the value of a dotted name (KeyError for others); ``kinds``: what may stand before its dot.
    """

    assumed: Callable[[str], float]
    kinds: tuple[str, ...] = ()
    lines: list[Line] = field(default_factory=list)
    section: str = ""

    def __getitem__(self, name: str) -> float:
        """The value of a line of this section; KeyError if there is none."""
        found = (each for each in reversed(self.lines) if (each.section, each.name) == (self.section, name))
        line = next(found, None)
        if line is None:
            raise KeyError(name)
        return line.value

    def put(self, steps: str, /, *of: object, **given: float) -> float:
        """Work out lines ``NAME [UNIT] = FORMULA`` and keep them; returns the value of the last.

        Formulas have ``+ - * /``, brackets and `FUNCTIONS`. A name in them is one of ``given``, an attribute
        of one of the objects ``of``, a line of this section (with ``_`` for blanks), or an assumption (of one
        of the `kinds` where it has no dot). Raises ValueError for any other, InputError for a division by
        zero, of which only an assumption can be the cause.
        """
        value = 0.0
        for step in filter(None, map(str.strip, steps.splitlines())):
            parts = _STEP.fullmatch(" ".join(step.split()))
            assert parts, step
            value = self._put(parts[1], parts[3], parts[2], of, given)
        return value

    def _put(
        self, name: str, formula: str, unit: str, of: tuple[object, ...], given: Mapping[str, float]
    ) -> float:
        names = dict.fromkeys(each for each in _NAME.findall(formula) if each not in FUNCTIONS)
        known = {each: self._find(each, of, given) for each in names}
        try:
            value = _value(ast.parse(formula, mode="eval").body, known)
        except ZeroDivisionError:
            zero = ", ".join(each for each, given in known.items() if given == 0)
            raise InputError(f"{self.section}: {name} = {formula} divides by zero ({zero})") from None
        words = _NAME.sub(lambda found: found[0].rpartition(".")[2].replace("_", " "), formula)
        numbers = _NAME.sub(lambda found: number(known[found[0]]) if found[0] in known else found[0], formula)
        line = Line(self.section, name, words.replace("*", "x"), numbers.replace("*", "x"), value, unit)
        self.lines.append(line)
        return value

    def _find(self, name: str, of: tuple[object, ...], given: Mapping[str, float]) -> float:
        if name in given:
            return float(given[name])
        for each in of:
            if hasattr(each, name):
                return float(getattr(each, name))
        with contextlib.suppress(KeyError):
            return self[name.replace("_", " ")]
        for each in (name, *(f"{kind}.{name}" for kind in self.kinds)):
            with contextlib.suppress(KeyError):
                return self.assumed(each)
        raise ValueError(f"{self.section}: there is no '{name}' here")


def _value(node: ast.expr, given: Mapping[str, float]) -> float:
    """The value of a formula. Raises ValueError for anything but arithmetic of the given names."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, given), _value(node.right, given))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return float(FUNCTIONS[node.func.id](*(_value(each, given) for each in node.args)))
    if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in given:
        return float(given[ast.unparse(node)])
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError(f"not arithmetic of {', '.join(given)}: {ast.unparse(node)}")


def number(value: Any) -> str:
    """Whole numbers in full, others to five significant digits, with commas; negative ones in brackets."""
    if value < 0:
        return f"(-{number(-value)})"
    if math.isinf(value) or float(value).is_integer():
        return f"{value:,.0f}"
    places = max(0, 4 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
