"""The texts in the Python files of a folder, read without running any: constants and what is made of them.

A value that is not known leaves a hole, which has the name of what is filled in there (`row["question"]` and
`question` alike), or none.
"""

from __future__ import annotations

import ast
import inspect
import re
import string
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HOLE = re.compile("\0(.*?)\1")
_SKIPPED = ("site-packages", "node_modules")


@dataclass(frozen=True)
class Text:
    """A text, where it stands, and the name it is given there: of a variable, a key, or `role:system`."""

    file: str
    line: int
    name: str
    value: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def holes(self) -> list[str]:
        """Names of what is filled in."""
        return HOLE.findall(self.value)

    @property
    def wording(self) -> str:
        """The value with nameless holes."""
        return HOLE.sub("\0\1", self.value)


@dataclass
class _Module:
    file: str
    tree: ast.Module
    classes: set[str] = field(default_factory=set)
    names: dict[str, ast.expr | tuple[str, str | None]] = field(default_factory=dict)
    """What a name stands for, if it is bound once: an expression, or (module, name in it or None)."""

    def __post_init__(self) -> None:
        bound: Counter[str] = Counter()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] += 1
            elif isinstance(node, ast.arg):
                bound[node.arg] += 1
            elif isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.names |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
            elif isinstance(node, ast.Import | ast.ImportFrom):
                source = (node.module or "") if isinstance(node, ast.ImportFrom) else None
                for each in node.names:
                    bound[each.asname or each.name] += 1
                    self.names[each.asname or each.name] = (
                        (each.name, None) if source is None else (source, each.name)
                    )
        self.names = {name: value for name, value in self.names.items() if bound[name] == 1}


class Clone:
    """The Python files of a folder. `unreadable`: (file, why) of those that this Python cannot read."""

    def __init__(self, folder: Path) -> None:
        self.modules: list[_Module] = []
        self.unreadable: list[tuple[str, str]] = []
        self._parts: set[tuple[str, str]] = set()  # (file, name) of texts that others are put together of
        for path in sorted(folder.rglob("*.py")):
            file = path.relative_to(folder)
            if any(part.startswith(".") or part in _SKIPPED for part in file.parts):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.modules.append(_Module(file.as_posix(), ast.parse(path.read_bytes())))
            except SyntaxError as error:
                self.unreadable.append((file.as_posix(), f"line {error.lineno or 1}: {error.msg}"))
            except (ValueError, OSError, RecursionError) as error:
                self.unreadable.append((file.as_posix(), str(error)))

    def texts(self) -> list[Text]:
        """Every text but docstrings and those that are only parts of others."""
        found = [text for module in self.modules for text in self._visit(module, module.tree, "")]
        return [text for text in found if (text.file, text.name) not in self._parts]

    def _visit(self, module: _Module, node: ast.AST, name: str) -> Iterator[Text]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = next((_named(each) for each in targets if isinstance(each, ast.Name | ast.Subscript)), "")
        elif isinstance(node, ast.keyword):
            name = node.arg or ""
        if isinstance(node, ast.Dict):
            given = {
                key.value: value
                for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
            }  # fmt: skip
            role = self._text(module, given["role"]) if "role" in given else None
            said = self._text(module, given["content"]) if role and "content" in given else None
            if said is not None:
                yield Text(module.file, given["content"].lineno, f"role:{role}", said)
            for key, value in given.items():
                if key != "content" or said is None:
                    yield from self._visit(module, value, str(key))
            return
        if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Attribute):
            text = self._text(module, node)
            if text is not None:
                yield Text(module.file, node.lineno, name, text)
                return
        if isinstance(node, ast.AugAssign) and (text := self._part(module, node.value)) is not None:
            yield Text(module.file, node.lineno, name, _hole(name) + text)
            return
        for child in ast.iter_child_nodes(node):
            yield from self._visit(module, child, name)

    def _text(self, module: _Module, node: ast.AST, depth: int = 0) -> str | None:
        """The text an expression makes; None if it makes none that is known."""
        if depth > 40:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name | ast.Attribute):
            home, value, _ = self._meaning(module, node)
            return None if value is None else self._text(home, value, depth + 1)
        if isinstance(node, ast.JoinedStr):
            return "".join(
                self._filled(module, each.value) if isinstance(each, ast.FormattedValue)
                else str(getattr(each, "value", "")) for each in node.values
            )  # fmt: skip
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if self._text(module, node.left, depth + 1) is None and (
                self._text(module, node.right, depth + 1) is None
            ):
                return None
            return self._filled(module, node.left) + self._filled(module, node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            left = self._part(module, node.left, depth + 1)
            values = iter(node.right.elts if isinstance(node.right, ast.Tuple) else [node.right])
            return None if left is None else re.sub(
                r"%(?:(%)|\((\w+)\)s|[sd])",
                lambda m: m[1] or (_hole(m[2]) if m[2] else self._filled(module, next(values, None))), left,
            )  # fmt: skip
        return self._called(module, node, depth) if isinstance(node, ast.Call) else None

    def _called(self, module: _Module, node: ast.Call, depth: int) -> str | None:
        function, first = node.func, node.args[0] if node.args else None
        called = getattr(function, "attr", getattr(function, "id", ""))
        if called in ("dedent", "cleandoc") and first is not None:
            inner = self._text(module, first, depth + 1)
            clean = textwrap.dedent if called == "dedent" else inspect.cleandoc
            return None if inner is None else clean(inner)
        if not isinstance(function, ast.Attribute):
            return None
        base = self._part(module, function.value, depth + 1)
        if base is None:
            return None
        if called == "format":
            named = {each.arg: each.value for each in node.keywords if each.arg}
            return _formatted(base, lambda key, at: self._filled(
                module, named.get(key, node.args[at] if at < len(node.args) else None), key))  # fmt: skip
        if called in ("strip", "lstrip", "rstrip") and first is None:
            return str(getattr(base, called)())
        if called == "join" and isinstance(first, ast.List | ast.Tuple):
            return base.join(self._filled(module, each) for each in first.elts)
        if called == "replace" and len(node.args) == 2 and first is not None:
            old = self._text(module, first, depth + 1)
            return base.replace(old, self._filled(module, node.args[1], old.strip("{}<>"))) if old else None
        return None

    def _part(self, module: _Module, node: ast.AST, depth: int = 0) -> str | None:
        """The text of an expression that is a part of another text."""
        if isinstance(node, ast.Name | ast.Attribute):
            home, value, name = self._meaning(module, node)
            if value is not None:
                self._parts.add((home.file, name))
        return self._text(module, node, depth)

    def _filled(self, module: _Module, node: ast.AST | None, name: str = "") -> str:
        """A part's text, or a hole."""
        text = None if node is None else self._part(module, node)
        return _hole(name if node is None else _named(node) or name) if text is None else text

    def _meaning(self, module: _Module, node: ast.expr) -> tuple[_Module, ast.expr | None, str]:
        """Where and as what a constant's name is given, also in another file that is imported."""
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            source = module.names.get(node.value.id)
            if isinstance(source, tuple):
                dotted = ".".join(part for part in source if part)
                return self._imported(module, dotted, name)
        if isinstance(node, ast.Attribute) and (
            getattr(node.value, "id", "") not in {"self", "cls", *module.classes}
        ):
            return module, None, name
        found = module.names.get(name)
        if isinstance(found, tuple):
            return self._imported(module, found[0], found[1] or "")
        return module, found, name

    def _imported(self, module: _Module, dotted: str, name: str) -> tuple[_Module, ast.expr | None, str]:
        """A name of another file: of those that fit the import the one in the same folder, or the highest."""
        path = "/" + dotted.replace(".", "/")
        homes = [
            each for each in self.modules
            if dotted and f"/{each.file}".endswith((f"{path}.py", f"{path}/__init__.py"))
        ]  # fmt: skip
        folder = module.file.rpartition("/")[0]
        homes.sort(key=lambda each: (each.file.rpartition("/")[0] != folder, len(each.file)))
        for home in homes:
            value = home.names.get(name)
            if isinstance(value, ast.expr):
                return home, value, name
        return module, None, name


def _hole(name: str) -> str:
    return f"\0{name}\1"


def _named(node: ast.AST) -> str:
    """What an expression that is filled in is called: the key or name in it."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant):
            return str(each.slice.value)
        if isinstance(each, ast.Name):
            return each.id
    return ""


def _formatted(text: str, value: Callable[[str, int], str]) -> str:
    """A `str.format` template with its fields filled in by `value(key, place)`."""
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        return text
    made, place = "", 0
    for literal, key, _, _ in pieces:
        made += literal
        if key is not None:
            made += value(key, int(key) if key.isdecimal() else place)
            place += not key
    return made


def template(text: Text) -> Text:
    """A text whose `{}` and `{name}` are holes: of a template, where it is filled in is not always seen."""
    if text.holes or "{" not in text.value:
        return text
    return Text(text.file, text.line, text.name, _formatted(text.value, lambda key, _: _hole(key)))
