"""Read the published wording out of a clone of the original repository, into a file for `--prompts`.

Nothing of that wording is part of this project. The script finds it by the markers that the published file
formats need anyway, in the string constants of the clone's Python files, without running any of them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.flags import parser
from cobalt.prompts import ALL_PASSED_MARKER, FEEDBACK_MARKER, PROBLEM_MARKER, Prompts

_HOLE = "\x00"  # where a text has a value filled in


@dataclass(frozen=True)
class Text:
    """A string of the clone: where it stands, and the name it is given (or the role of its message)."""

    where: str
    name: str
    value: str


def texts(folder: Path) -> Iterator[Text]:
    """Every string of the Python files, joined where it is put together, with a mark where values go in."""
    files = sorted(path for path in folder.rglob("*.py") if ".git" not in path.parts)
    if not files:
        raise InputError(f"{folder}: there are no Python files; give the folder of the clone")
    for path in files:
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue  # a file of another Python, or none of ours
        constants: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and (text := _text(node.value, {})) is not None:
                constants |= {target.id: text for target in node.targets if isinstance(target, ast.Name)}
        yield from _in_tree(tree, str(path.relative_to(folder)), constants)


def _in_tree(tree: ast.AST, file: str, constants: dict[str, str]) -> Iterator[Text]:
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (text := _text(node.value, constants)) is not None:
            inner.update(ast.walk(node.value))
            name = next((target.id for target in node.targets if isinstance(target, ast.Name)), "")
            yield Text(f"{file}:{node.lineno}", name, text)
        elif isinstance(node, ast.Dict):
            message = {
                key.value: _text(value, constants)
                for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
            }  # fmt: skip
            if message.get("role") and message.get("content"):
                yield Text(f"{file}:{node.lineno}", f"role:{message['role']}", str(message["content"]))
        elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant | ast.Call) and node not in inner:
            found = _text(node, constants)
            if found is not None:
                inner.update(ast.walk(node))
                yield Text(f"{file}:{getattr(node, 'lineno', 0)}", "", found)


def _text(node: ast.AST, constants: dict[str, str]) -> str | None:
    """The string an expression makes, with _HOLE for what is not known; None if it makes none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [
            each.value if isinstance(each, ast.Constant)
            else constants.get(each.value.id, _HOLE)
            if isinstance(each, ast.FormattedValue) and isinstance(each.value, ast.Name) else _HOLE
            for each in node.values
        ]  # fmt: skip
        return "".join(map(str, parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, constants), _text(node.right, constants)
        if left is None and right is None:
            return None
        return (_HOLE if left is None else left) + (_HOLE if right is None else right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        left = _text(node.left, constants)
        return None if left is None else left.replace("%s", _HOLE)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        base = _text(node.func.value, constants)
        if base is None:
            return None
        if node.func.attr == "format":
            return _with_holes(base)
        return (
            base.strip()
            if node.func.attr == "strip"
            else base
            if node.func.attr in ("lstrip", "rstrip")
            else None
        )
    return None


def _with_holes(text: str) -> str:
    """A `str.format` template with marks for its fields."""
    import string

    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        return text
    return "".join(literal + (_HOLE if field is not None else "") for literal, field, _, _ in pieces)


def find(folder: Path) -> Prompts:
    """The prompts of a clone. Raises InputError that lists what was not found, or found in two wordings."""
    found = list(texts(folder))
    chosen = {
        "system": _one("system", [t for t in found if t.name == "role:system"] or [
            t for t in found if "system" in t.name.lower() and len(t.value) > 60
        ]),
        "instruction": _one("instruction", _cut(found, PROBLEM_MARKER)),
        "feedback": _one("feedback", _cut(found, FEEDBACK_MARKER)),
        "all_passed": _one("all_passed", [t for t in found if ALL_PASSED_MARKER in t.value]),
        "no_code": _one("no_code", [
            t for t in found if "code block" in t.value.lower() and "extract" in t.value.lower()
        ]),
    }  # fmt: skip
    missing = [name for name, text in chosen.items() if text is None]
    if missing:
        raise InputError(
            f"{folder}: no text for {', '.join(missing)} was found; is this the original repository?"
        )
    given = {name: text or "" for name, text in chosen.items()}
    given["instruction"] += "\n{statement}"
    given["feedback"] += "\n{feedback}"
    holes = [name for name, text in given.items() if _HOLE in text]
    if holes:
        raise InputError(f"{folder}: {', '.join(holes)} has a value filled in where none is known")
    return Prompts(**given)


def _cut(found: list[Text], marker: str) -> list[Text]:
    """Texts with the marker, up to its end."""
    return [replace(t, value=t.value.partition(marker)[0] + marker) for t in found if marker in t.value]


def _one(name: str, candidates: list[Text]) -> str | None:
    """The one wording; the runners' own where others differ."""
    for preferred in ("run_multi_turn", "run_single_turn", ""):
        mine = [text for text in candidates if text.where.rpartition("/")[2].startswith(preferred)]
        longest = {text.value for text in mine}
        longest = {
            value for value in longest if not any(value != other and value in other for other in longest)
        }
        if len(longest) == 1:
            return longest.pop()
        if longest and preferred == "":
            places = ", ".join(sorted(text.where for text in mine if text.value in longest))
            raise InputError(
                f"prompt '{name}': several wordings, in {places}; remove the files that do not count"
            )
    return None


def main(argv: list[str] | None = None) -> int:
    """The command line of `scripts/import_prompts.py`; returns the exit code."""
    flags = parser(
        "Read the published prompts out of a clone of the original repository, for --prompts FILE."
    )
    flags.add_argument("path", type=Path, help="folder of the clone")
    flags.add_argument("-o", "--output_file", default="prompts.json", help="JSON file to write")
    args = flags.parse_args(argv)
    if not args.path.is_dir():
        raise InputError(
            f"{args.path} is not a folder; give the folder of a clone of the original repository"
        )
    prompts = find(args.path)
    atomic_write(args.output_file, json.dumps(asdict(prompts), indent=2, ensure_ascii=False) + "\n")
    print(f"{args.output_file}: {len(asdict(prompts))} prompts, sha256 {prompts.sha256}")
    return 0
