"""Code blocks of Markdown files, with the mark that says how a test treats them.

A block of commands stands under a comment `<!-- run: WORD -->`: `quick` blocks of a page are run one after
the other in one folder by `make test`, `slow` ones too in `make test-full`; `gpu`, `key`, `cluster` and
`long` ones need what a test machine lacks, so their scripts and flags are checked. What is marked with the
name of an integration, Python too, is run by its test in an environment of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
INTEGRATIONS = ("fusion", "trl", "verifiers", "verifiers03")
RUN, CHECKED = ("quick", "slow"), ("gpu", "key", "cluster", "long", *INTEGRATIONS)
NO_COMMANDS = ("json", "jsonl", "yaml", "toml", "text", "python", "diff", "mermaid")
_MARK = re.compile(r"<!--\s*run:\s*(\w+)\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """A code block: `place` is file:line, `language` the info string, `mark` its comment's word or None."""

    place: str
    language: str
    mark: str | None
    text: str

    @property
    def is_command(self) -> bool:
        return self.language not in NO_COMMANDS

    @property
    def is_python(self) -> bool:
        """Whether it is Python that runs in this project's environment."""
        return self.language == "python" and self.mark not in INTEGRATIONS

    def commands(self) -> list[list[str]]:
        """The commands, as words; assignments before a command and what follows a pipe or a sign apart."""
        found = []
        for line in self.text.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            words: list[str] = []
            goal = False  # the next word is where output goes
            for word in [*lexer, ";"]:
                if goal or (set(word) <= set("<>&") and set(word) & set("<>")):
                    goal = not goal
                elif set(word) <= set("|;&"):
                    if words:
                        found.append(words)
                    words = []
                elif words or not re.fullmatch(r"\w+=.*", word):
                    words.append(word)
        return found


def pages() -> list[Path]:
    """Every Markdown page that a reader of the project is led to."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    more = [ROOT / "verl" / "README.md", *sorted((ROOT / "models").glob("*/README.md"))]
    return [*top, *more, ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> Iterator[Block]:
    """The code blocks of a page, fenced and indented ones."""
    mark: str | None = None
    for token in MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8")):
        if token.type == "html_block":
            found = _MARK.search(token.content)
            mark = found[1] if found else None
        elif token.type in ("fence", "code_block"):
            line = (token.map or [0])[0] + 1
            language = token.info.split()[0] if token.info.strip() else ""
            yield Block(f"{path.relative_to(ROOT)}:{line}", language, mark, token.content)
            mark = None
        elif token.type == "inline":
            mark = None
