"""Hooks of mkdocs: pages from files outside docs/, and the reference from the code.

Needs PyYAML and rich beside mkdocs (both come along), not the libraries of training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import os
import re
import runpy
import sys
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# Pages made from files that stand elsewhere.
OUTSIDE = {
    "index.md": "README.md",
    "project/verl.md": "verl/README.md",
    "project/examples.md": "examples/README.md",
    "project/tiny_reference.md": "models/tiny-reference/README.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
}
PUBLIC = (
    "cobalt.evaluator.local", "cobalt.evaluator.rule", "cobalt.tasks.own", "cobalt.engines.base",
    "cobalt.engines", "cobalt.rows", "cobalt.output", "cobalt.manifest", "cobalt.schema", "cobalt.testcases",
    "cobalt.stats", "cobalt.prompts",
    "cobalt.rewards.cobalt", "cobalt.contexts.select", "cobalt.contexts.slice", "cobalt.analysis.compare",
    "cobalt.errors",
)  # fmt: skip
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand elsewhere and those made from the code."""
    from mkdocs.structure.files import File

    for page, text in generated().items():
        files.append(File.generated(config, page, content=text))
    return files


def generated() -> dict[str, str]:
    """Text by page, of all pages that are no files in docs/."""
    return {page: _moved(page, source) for page, source in OUTSIDE.items()} | {
        "project/threats.md": threats(),
        "reference/commands.md": commands(),
        "reference/configuration.md": configuration(),
        "reference/training.md": training(),
        "reference/python.md": python(),
    }


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that lead out of docs/ lead to the page made from that file, or become plain text."""
    if page.file.generated_by and page.file.src_uri in OUTSIDE:
        return markdown
    return _links(markdown, ROOT / "docs" / page.file.src_uri, page.file.src_uri)


def _moved(page: str, source: str) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    if text.startswith("---\n"):
        text = text[4:].partition("\n---\n")[2]
    text = re.sub(r'src="docs/([^"]+)"', r'src="\1"', text)
    return _links(text, ROOT / source, page)


def _links(text: str, source: Path, page: str) -> str:
    """Rewrite the links of `source`, whose text becomes the page `page`."""
    pages = {(ROOT / target).resolve(): name for name, target in OUTSIDE.items()}

    def moved(found: re.Match[str]) -> str:
        picture, words, address = found.groups()
        path, hash_, anchor = address.partition("#")
        if re.match(r"[a-z]+:", address) or not path:
            return found[0]
        target = (source.parent / path).resolve()
        if target in pages:
            goal = pages[target]
        elif target.is_relative_to(ROOT / "docs"):
            goal = str(target.relative_to(ROOT / "docs"))
        else:
            return str(words)
        return f"{picture}[{words}]({os.path.relpath(goal, Path(page).parent)}{hash_}{anchor})"

    return _LINK.sub(moved, text)


def threats() -> str:
    """The sections of docs/execution.md that say what is stopped and what is not."""
    text = (ROOT / "docs" / "execution.md").read_text(encoding="utf-8")
    wanted = ("How it works", "Levels", "What stops what", "What is not covered")
    parts = [part for part in re.split(r"^(?=## )", text, flags=re.M) if part[3:].startswith(wanted)]
    head = "# Threat model\n\nPrograms that models wrote are not trusted: they run, and reach nothing.\n\n"
    return head + _links("".join(parts), ROOT / "docs" / "execution.md", "project/threats.md")


def commands() -> str:
    """The help of every command and door."""
    from cobalt import __main__ as cli

    text = "# Commands and flags\n\nMade from the code: what `--help` says.\n\n## cobalt\n\n"
    text += f"```text\n{cli.usage()}\n```\n"
    os.environ["COLUMNS"] = "110"
    for words in cli.COMMANDS:
        given = words.split()
        for more in (["check"], ["fields"]) if words == "data" else ([],):
            text += f"\n### cobalt {' '.join([*given, *more])}\n\n"
            text += _help(lambda given=given, more=more: cli.main([*given, *more, "--help"]), "cobalt")
    doors = [
        *sorted(ROOT.glob("*.py")),
        *sorted((ROOT / "preproc").glob("*.py")),
        ROOT / "scripts/import_prompts.py",
    ]
    text += "\n## Doors\n"
    for door in doors:
        source = door.read_text(encoding="utf-8")
        if "run_main" in source:
            text += f"\n### {door.relative_to(ROOT)}\n\n"
            text += _help(lambda door=door: runpy.run_path(str(door), run_name="__main__"), door.name)
    return text


def _help(call: Any, name: str) -> str:
    out, before = io.StringIO(), sys.argv
    sys.argv = [name, "--help"]
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            call()
    except ModuleNotFoundError as error:
        return f"Needs {error.name}, which is not installed where this page was made.\n"
    finally:
        sys.argv = before
    return f"```text\n{out.getvalue().rstrip()}\n```\n"


def configuration() -> str:
    """Every key that `cobalt run` knows, from the dataclasses that check it, and the shipped files."""
    from cobalt.run.config import Config

    text = "# Run configuration\n\nThe keys of `cobalt run CONFIG.yaml`, from the code that checks them.\n"
    text += _section(Config, "")
    text += "\n## Shipped configurations\n"
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        text += (
            f"\n### {path.relative_to(ROOT)}\n\n```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
        )
    return text


def _section(kind: Any, name: str) -> str:
    hints = typing.get_type_hints(kind, include_extras=True)
    about = inspect.getdoc(kind) or ""
    text = f"\n## {name or 'The file'}\n\n{about}\n\n| key | type | default |\n|---|---|---|\n"
    below = ""
    for field in dataclasses.fields(kind):
        inner = _dataclass_in(hints[field.name])
        if inner is not None:
            below += _section(inner, f"{name}.{field.name}".lstrip("."))
        default = field.default
        if default is dataclasses.MISSING:
            default = "required" if field.default_factory is dataclasses.MISSING else ""
        shown = "" if default == "" else f"`{default!r}`" if default != "required" else "required"
        text += f"| `{field.name}` | {_type(hints[field.name])} | {shown} |\n"
    return text + below


def _dataclass_in(hint: Any) -> Any:
    inside = [hint, *typing.get_args(hint)]
    return next((each for each in inside if dataclasses.is_dataclass(each) and isinstance(each, type)), None)


def _type(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        base, *bounds = typing.get_args(hint)
        ends = [f"{each.low if each.low is not None else ''} to {each.high if each.high is not None else ''}"
                for each in bounds if hasattr(each, "low")]  # fmt: skip
        return f"{_type(base)}, {ends[0].strip()}" if ends else _type(base)
    text = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
    text = re.sub(r"typing\.|cobalt\.[\w.]*\.", "", text)
    return "`" + text.replace("|", "or") + "`"


def training() -> str:
    """The files of verl/config."""
    text = "# Training configuration\n\nThe files of `verl/config`, composed in the order of `train.yaml`. "
    text += "Any key can be overridden on the command line of `cobalt train` (`key=value`).\n"
    for path in sorted((ROOT / "verl" / "config").rglob("*.yaml"), key=lambda path: (len(path.parts), path)):
        name = path.relative_to(ROOT / "verl" / "config")
        text += f"\n## {name}\n\n```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
    return text


def python() -> str:
    """Public functions and classes of the modules that others build on, with their docstrings."""
    text = "# Python\n\nWhat programs of your own may import; made from the docstrings.\n"
    for name in PUBLIC:
        module = importlib.import_module(name)
        text += f"\n## {name}\n\n{_doc(module)}\n"
        for key, value in vars(module).items():
            if key.startswith("_") or getattr(value, "__module__", None) != name or not callable(value):
                continue
            with contextlib.suppress(ValueError, TypeError):
                signature = f"{key}{inspect.signature(value)}"
                text += f"\n### {name}.{key}\n\n```python\n{signature}\n```\n\n{_doc(value)}\n"
    return text


def _doc(value: Any) -> str:
    return (inspect.getdoc(value) or "").replace("``", "`").replace("<", "&lt;")
