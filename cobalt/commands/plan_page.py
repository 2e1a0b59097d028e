"""The made parts of docs/planning.md: `python -m cobalt.commands.plan_page docs/planning.md` renews them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

from cobalt.commands import plan
from cobalt.files import atomic_write
from cobalt.flags import parser, run_main
from cobalt.planning.assumptions import markdown

EXAMPLE = "configs/qwen3-8b.yaml"
FLAGS = ("--summary", "--scale", "1", "10", "100", "--table")


def _printed(*flags: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        plan.main([EXAMPLE, *flags])
    return said.getvalue().strip("\n")


def _collect() -> str:
    text = _printed()
    return text[text.index("\ncollect\n") + 1 : text.index("\n\nrepair\n")]


PARTS: dict[str, Callable[[], str]] = {
    "example": lambda: f"```text\n{_printed(*FLAGS)}\n```",
    "collect": lambda: f"```text\n{_collect()}\n```",
    "assumptions": markdown,
}


def renewed(text: str) -> str:
    """The page with its made parts, between ``<!-- NAME -->`` and ``<!-- end -->``, made again.

    Run from the project's folder. Raises ValueError for a page that lacks a part.
    """
    for name, make in PARTS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page must hold <!-- {name} --> ... <!-- end --> once")
        made = make()
        text = pattern.sub(lambda found, made=made: f"{found[1]}{made}{found[2]}", text)  # type: ignore[misc]
    return text


def main(argv: list[str] | None = None) -> int:
    """Renew a page; returns the exit code."""
    flags = parser("Renew the made parts of docs/planning.md, from the project's folder.")
    flags.add_argument("page", type=Path)
    args = flags.parse_args(argv)
    atomic_write(args.page, renewed(args.page.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    run_main(main)
