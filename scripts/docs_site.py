"""Hooks of mkdocs: pages from files outside docs/, and the Python reference from the code.

Needs PyYAML and rich beside mkdocs (both come along), not the libraries of training.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import sys
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
    "project/tiny_reference_2.md": "models/tiny-reference-2/README.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
}
PUBLIC = (
    "cobalt.evaluator.local", "cobalt.evaluator.checker", "cobalt.tasks.own", "cobalt.engines.base",
    "cobalt.engines", "cobalt.rows", "cobalt.output", "cobalt.manifest", "cobalt.schema", "cobalt.testcases",
    "cobalt.stats", "cobalt.prompts",
    "cobalt.rewards.cobalt", "cobalt.contexts.select", "cobalt.contexts.slice", "cobalt.evaluation.compare",
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
        "reference/files.md": files(),
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


def files() -> str:
    """The shipped configurations, and the files of verl/config."""
    text = "# Configuration files\n\nThose of `cobalt run`, then those of a training, composed in the order "
    text += (
        "of `train.yaml`. Keys: [run configuration](configuration.md), [training settings](training.md).\n"
    )
    folders = ROOT / "configs", ROOT / "verl" / "config"
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml"), key=lambda path: (len(path.parts), path)):
            name, given = path.relative_to(ROOT), path.read_text(encoding="utf-8").rstrip()
            text += f"\n## {name}\n\n```yaml\n{given}\n```\n"
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
