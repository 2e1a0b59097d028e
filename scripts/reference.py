"""The reference pages in docs/reference, made from the code: `python scripts/reference.py` writes them.

Every key of a run configuration (cobalt/config), the settings `cobalt.*` of verl/config, the keys of a
prompts file (cobalt/prompts.py) and every flag of every command, door and tool (their argparse parsers).
What a page says besides stands around the marks `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import runpy
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "docs" / "reference"
SETTINGS = ROOT / "verl" / "config" / "published.yaml"
_WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def meanings(kind: type) -> dict[str, str]:
    """What the fields of a dataclass mean: the texts under them in the source."""
    tree = ast.parse(inspect.getsource(importlib.import_module(kind.__module__)))
    (made,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
    found = {}
    for field, below in zip(made.body, made.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def section_of(hint: Any) -> Any:
    """The dataclass in a type, if there is one."""
    inside = [hint, *typing.get_args(hint)]
    return next((each for each in inside if isinstance(each, type) and dataclasses.is_dataclass(each)), None)


def type_words(hint: Any) -> str:
    """A type, its range or its values, in words."""
    if hint is types.NoneType:
        return "`null`"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(type_words, args))
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in args)
    if origin is list:
        return f"list of {'items, see below' if section_of(hint) else type_words(args[0])}"
    if origin is typing.Annotated:
        bounds = [bound for rule in args[1:] for bound in getattr(rule, "metadata", [])]
        return type_words(args[0]) + _range(bounds)
    return "section, see below" if section_of(hint) else _WORDS[hint]


def _range(rules: list[Any]) -> str:
    """What rules of pydantic say of a number."""
    ends = {"ge": "at least", "gt": "above", "le": "at most"}
    low = [float(each.ge) for each in rules if hasattr(each, "ge")]
    given = {"ge": [max(low)] if low else []}
    for end in ("gt", "le"):
        given[end] = [float(getattr(each, end)) for each in rules if hasattr(each, end)]
    return "".join(f", {word} {value:g}" for end, word in ends.items() for value in given[end])


def keys_of(kind: type, name: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(dotted key, type, default, meaning) of all keys of a section and those below it."""
    hints, said = typing.get_type_hints(kind, include_extras=True), meanings(kind)
    for field in dataclasses.fields(kind):
        inner, key = section_of(hints[field.name]), f"{name}{field.name}"
        default = field.default
        if default is dataclasses.MISSING:
            made = field.default_factory
            default = made() if made is not dataclasses.MISSING and inner is None else dataclasses.MISSING
        left_out = "the recipe's" if name in ("train.", "sampling.") else "needed"
        if field.default_factory is not dataclasses.MISSING and inner is not None:
            left_out = "[{name: heldout}]" if field.name == "sets" else ""
        left_out = "" if inner is not None and key in ("train", "sampling") else left_out
        shown = left_out if default is dataclasses.MISSING else f"`{_yaml(default)}`"
        is_list = typing.get_origin(hints[field.name]) is list
        yield key, type_words(hints[field.name]), shown, said.get(field.name) or inspect.getdoc(inner) or ""
        if inner is not None:
            yield from keys_of(inner, f"{key}.{'N.' if is_list else ''}")


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n").removesuffix("\n...")


def table(heads: str, rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    names = heads.split(", ")
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in rows:
        lines.append("| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """One line, in which what is no code is no HTML either."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts))


def configuration() -> str:
    """The keys of `cobalt run`, a table for each section."""
    from cobalt.config.config import Config

    parts: dict[str, list[tuple[str, ...]]] = {}
    about = {"": "The file"}
    for key, kind, default, meaning in keys_of(Config):
        above = key.rpartition(".")[0]
        parts.setdefault(above, []).append((f"`{key}`", kind, default, meaning))
        about.setdefault(key, f"`{key}`")
    heads = "key, type, default, meaning"
    return "\n\n".join(
        f"## {about.get(above, f'`{above}`')}\n\n{table(heads, rows)}" for above, rows in parts.items()
    )


def settings() -> Iterator[tuple[str, str, str]]:
    """(dotted key, default, meaning) of section `cobalt` of the shared training settings, by its comments."""
    text = SETTINGS.read_text(encoding="utf-8")
    lines = text.splitlines()

    def said(line: int) -> str:
        words = [lines[line].partition("# ")[2]]
        for more in lines[line + 1 :]:
            if not more.lstrip().startswith("#"):
                break
            words.append(more.strip().removeprefix("# "))
        return " ".join(words)

    def walk(node: yaml.MappingNode, before: str) -> Iterator[tuple[str, str, str]]:
        for key, value in node.value:
            name = f"{before}.{key.value}"
            if isinstance(value, yaml.MappingNode) and value.value:
                yield name, "", said(key.start_mark.line)
                yield from walk(value, name)
            else:
                given = text[value.start_mark.index : value.end_mark.index]
                yield name, f"`{given}`", said(key.start_mark.line)

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    (ours,) = (value for key, value in root.value if key.value == "cobalt")
    yield from walk(ours, "cobalt")


def training() -> str:
    """The settings `cobalt.*`."""
    return table("setting, default, meaning", [(f"`{key}`", *rest) for key, *rest in settings()])


def prompt_keys() -> str:
    """The keys of a prompts file."""
    from cobalt.prompts import Prompts

    rows = []
    said, hints = meanings(Prompts), typing.get_type_hints(Prompts)
    for field in dataclasses.fields(Prompts):
        left_out = "needed"
        if field.default is not dataclasses.MISSING:
            left_out = "the default wording" if isinstance(field.default, str) else f"`{field.default}`"
        rows.append((f"`{field.name}`", _WORDS[hints[field.name]], left_out, said.get(field.name, "")))
    return table("key, type, default, what it must hold", rows)


class _Found(BaseException):
    """The parser of a command, at the moment when it would read its arguments."""


def parser_of(call: Callable[[], Any]) -> argparse.ArgumentParser:
    """The argument parser that a call builds; nothing behind it is done."""
    from cobalt.cli import Parser

    def stop(self: Parser, *_: Any, **__: Any) -> Any:
        raise _Found(self)

    before, Parser.parse_known_args = Parser.parse_known_args, stop  # type: ignore[method-assign]
    try:
        call()
    except _Found as found:
        parser: argparse.ArgumentParser = found.args[0]
        return parser
    finally:
        Parser.parse_known_args = before  # type: ignore[method-assign]
    raise ValueError("a command that reads no arguments")


def doors() -> dict[str, list[Path]]:
    """Scripts that take flags, by what they are."""
    places = {
        "Doors": [*ROOT.glob("*.py"), *ROOT.glob("preproc/*.py")],
        "Benchmarks": ROOT.glob("benchmarks/*.py"),
        "Tools": [*ROOT.glob("scripts/*.py"), *ROOT.glob("scripts/*/*.py")],
    }
    return {
        title: sorted(path for path in paths if "    run_main(" in path.read_text(encoding="utf-8"))
        for title, paths in places.items()
    }


def parsers() -> dict[str, dict[str, argparse.ArgumentParser]]:
    """Every parser there is: by title, by command."""
    from cobalt import __main__ as cli

    argv, path = sys.argv, list(sys.path)
    found: dict[str, dict[str, argparse.ArgumentParser]] = {"cobalt": {}}
    try:
        for word in cli.COMMANDS:
            found["cobalt"][f"cobalt {word}"] = parser_of(lambda word=word: cli.main([word]))  # type: ignore[misc]
        for title, scripts in doors().items():
            found[title] = {}
            for script in scripts:
                name = str(script.relative_to(ROOT))
                sys.argv, sys.path = [name], [str(script.parent), *path]
                found[title][name] = parser_of(
                    lambda script=script: runpy.run_path(str(script), run_name="__main__")  # type: ignore[misc]
                )
    finally:
        sys.argv, sys.path = argv, path
    return found


def flags_of(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """(command, rows of its table), subcommands one after the other."""
    rows: list[tuple[str, ...]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from flags_of(below, f"{name} {word}")
        elif not isinstance(action, argparse._HelpAction):
            rows.append(_flag(action))
    if rows:
        yield name, rows


def _flag(action: argparse.Action) -> tuple[str, ...]:
    names = ", ".join(f"`{each}`" for each in action.option_strings)
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if action.choices is not None and action.metavar is None:
        value = ", ".join(map(str, action.choices))
    elif isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    default = action.default
    if (action.required or not action.option_strings) and action.nargs not in ("?", "*"):
        shown = "needed"
    elif default is None or default is False or default in ("", [], argparse.SUPPRESS):
        shown = ""
    else:
        shown = f"`{' '.join(map(str, default)) if isinstance(default, list | tuple) else default}`"
    several = " ..." if action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction) else ""
    words = (action.help or "") % {**vars(action), "prog": ""} if action.help else ""
    return names or f"`{value}`", f"{value if names else ''}{several}".strip(), shown, words


def applications() -> Iterator[str]:
    """What `serve run` takes after the name of an application."""
    from cobalt.engines import vllm_server
    from cobalt.evaluator import service

    yield "## Serve applications"
    for name, settings in (("vllm_engine_actor:app", vllm_server), ("remote_reward_server:app", service)):
        yield f"### serve run {name}"
        yield _plain(f"{inspect.getdoc(settings.Settings)} Arguments are `name=value`.")
        rows = []
        for key, field in settings.Settings.model_fields.items():
            kind = type_words(field.annotation) + _range(field.metadata)
            rows.append((f"`{key}`", kind, f"`{_yaml(field.default)}`", field.description or ""))
        yield table("argument, type, default, meaning", rows)


def commands() -> str:
    """Every command with its flags."""
    text = []
    for title, named in parsers().items():
        text.append(f"## {title}")
        for name, parser in named.items():
            text.append(f"### {name}")
            text.append(_plain(parser.description or ""))
            for command, rows in flags_of(parser, name):
                text += [] if command == name else [f"**{command}**"]
                text.append(table("flag, value, default, meaning", rows))
            if parser.epilog:
                text.append(f"```text\n{parser.epilog.rstrip()}\n```")
    return "\n\n".join(each for each in [*text, *applications()] if each)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "configuration.md": {"keys": configuration},
    "training.md": {"settings": training},
    "prompts.md": {"keys": prompt_keys},
    "commands.md": {"flags": commands},
}


def renewed(text: str, parts: dict[str, Callable[[], str]]) -> str:
    """A page with its made parts, between ``<!-- NAME -->`` and ``<!-- end -->``, made again.

    Raises ValueError for a page that lacks a part.
    """
    for name, make in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page must hold <!-- {name} --> ... <!-- end --> once")
        made = make()
        text = pattern.sub(lambda found, made=made: f"{found[1]}{made}{found[2]}", text)  # type: ignore[misc]
    return text


def main(argv: list[str] | None = None) -> int:
    """Renew all pages; returns the exit code."""
    from cobalt.cli import parser
    from cobalt.files import atomic_write

    parser("Renew the made parts of the pages in docs/reference.").parse_args(argv)
    for name, parts in PAGES.items():
        atomic_write(FOLDER / name, renewed((FOLDER / name).read_text(encoding="utf-8"), parts))
    return 0


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(main)
