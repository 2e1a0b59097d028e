"""YAML files checked against dataclasses, before anything starts.

A field's annotation is its rule: int, float, str, bool, `Literal`, `X | None`, `list[X]`, a nested dataclass,
and `Annotated[..., Bounds(low, high)]` for a range. Every error names file, line and field and says what
would do.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cobalt.errors import InputError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The range of a number, both ends allowed; None is open."""

    low: float | None = None
    high: float | None = None

    def broken_by(self, value: float) -> str | None:
        """What is wrong with `value`, None if nothing."""
        if self.low is not None and value < self.low:
            return f"must be at least {self.low:g}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high:g}"
        return None


def load(path: Path, kind: type[T], settings: Sequence[str] = ()) -> T:
    """Read the YAML file `path` as a `kind` (a dataclass), changed by `settings` (`a.b.0.c=VALUE`, in YAML).

    Raises InputError (`file:line: field ...`, or naming the setting) for a file that cannot be read, is no
    YAML, has unknown, doubled or missing keys, or a value of the wrong type or range.
    """
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError(f"{where}: not valid YAML ({getattr(error, 'problem', None) or error})") from None
    if node is None:
        raise InputError(f"{path}: the file is empty")
    for setting in settings:
        _change(node, setting)
    made: T = _dataclass(node, kind, (), path)
    return made


def _change(node: yaml.Node, setting: str) -> None:
    """Put the value of a setting into the tree; where mappings are missing, they are made."""
    key, equals, text = setting.partition("=")
    names = key.strip().split(".")
    try:
        value = yaml.compose(text, Loader=yaml.SafeLoader) if equals else None
    except yaml.YAMLError as error:
        raise InputError(f"--set {setting}: not valid YAML ({getattr(error, 'problem', error)})") from None
    if not equals or not all(names):
        raise InputError(f"--set {setting}: must be section.key=value")
    new = value or yaml.ScalarNode("tag:yaml.org,2002:null", "")
    for place, name in enumerate(names):
        last = place == len(names) - 1
        below = new if last else yaml.MappingNode("tag:yaml.org,2002:map", [])
        if isinstance(node, yaml.SequenceNode):
            if not name.isdigit() or int(name) >= len(node.value):
                at = ".".join(names[: place + 1])
                raise InputError(f"--set {setting}: '{at}': the list has {len(node.value)} items, from 0")
            if last:
                node.value[int(name)] = below
            node = node.value[int(name)]
        elif isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if str(pair[0].value) == name), None)
            if found is None or last:
                made = (yaml.ScalarNode("tag:yaml.org,2002:str", name), below)
                _origin(made[0], setting)
                _origin(below, setting)
                node.value = [pair for pair in node.value if pair is not found] + [made]
                found = made
            node = found[1]
        else:
            raise InputError(f"--set {setting}: '{'.'.join(names[:place])}' is a value, not a section")
    _origin(new, setting)


def _origin(node: yaml.Node, setting: str) -> None:
    """Remember that a node and those below it come from a setting."""
    node.start_mark = f"--set {setting}"
    below = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else []
    for each in below:
        for inner in each if isinstance(each, tuple) else (each,):
            _origin(inner, setting)


def _dataclass(node: yaml.Node, kind: type[T], at: tuple[str, ...], path: Path) -> T:
    if not isinstance(node, yaml.MappingNode):
        raise _error(node, path, at, f"must be a mapping of {', '.join(_names(kind))}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(_names(kind))}"
            raise _error(key_node, path, (*at, key), f"is unknown; {advice}")
        if key in values:
            raise _error(key_node, path, (*at, key), "is given twice")
        values[key] = _value(value_node, hints[key], (*at, key), path)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise _error(node, path, (*at, name), "is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise _error(_mentioned(node, str(error)), path, at, str(error)) from None


def _mentioned(node: yaml.Node, message: str) -> yaml.Node:
    """The node of the field that a message names first, as far as it is in the file."""
    named = re.search(r"'([\w.]+)'", message)
    for name in named[1].split(".") if named else ():
        if isinstance(node, yaml.MappingNode):
            below = {str(key.value): value for key, value in node.value}
        else:
            below = (
                {str(i): each for i, each in enumerate(node.value)} if isinstance(node.value, list) else {}
            )
        if name not in below:
            break
        node = below[name]
    return node


def _value(node: yaml.Node, hint: Any, at: tuple[str, ...], path: Path) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        value = _value(node, arguments[0], at, path)
        for bounds in arguments[1:]:
            wrong = bounds.broken_by(value) if value is not None else None
            if wrong:
                raise _error(node, path, at, f"{wrong}, got {value}")
        return value
    if origin in (typing.Union, types.UnionType):
        if node.tag == "tag:yaml.org,2002:null":
            return None
        return _value(node, next(each for each in arguments if each is not type(None)), at, path)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(node, hint, at, path)
    if origin is list:
        if not isinstance(node, yaml.SequenceNode):
            raise _error(node, path, at, "must be a list")
        return [_value(item, arguments[0], (*at, str(i)), path) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.ScalarNode):
        raise _error(node, path, at, "must be a single value")
    if origin is typing.Literal:
        if node.value not in arguments:
            near = difflib.get_close_matches(node.value, arguments, n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            raise _error(node, path, at, f"must be one of {', '.join(arguments)}, got '{node.value}'{advice}")
        return node.value
    return _scalar(node, hint, at, path)


def _scalar(node: yaml.ScalarNode, hint: type[Any], at: tuple[str, ...], path: Path) -> Any:
    kind = node.tag.rpartition(":")[2]
    plain = node.style is None
    try:
        if hint is str and kind != "null":
            return node.value
        if hint is bool and kind == "bool":
            return node.value.lower() in ("true", "yes", "on")
        if hint is int and kind == "int" and plain:
            return int(node.value.replace("_", ""), 0)
        # YAML 1.1 reads 4e-4 as text; here it is the number that was meant.
        if hint is float and plain and kind in ("int", "float", "str"):
            return float(node.value)
    except ValueError:
        pass
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise _error(node, path, at, f"must be {names[hint]}, got '{node.value}'")


def _names(kind: type[Any]) -> Sequence[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _error(node: yaml.Node, path: Path, at: tuple[str, ...], message: str) -> InputError:
    field = f"'{'.'.join(at)}' " if at else ""
    mark = node.start_mark
    where = mark if isinstance(mark, str) else f"{path}:{mark.line + 1}"
    return InputError(f"{where}: {field}{message}")
