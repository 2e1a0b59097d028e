"""The made parts of docs/planning.md: `python scripts/plan_page.py docs/planning.md` renews them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reference import renewed as renewed_parts

from cobalt.cli import parser, run_main
from cobalt.files import atomic_write
from cobalt.plan import cli
from cobalt.plan.assumptions import KNOWN, Assumptions
from cobalt.training.config import CONFIG_DIR, compose
from cobalt.training.fit import settings
from cobalt.training.memory import GIB, online

EXAMPLE = "configs/qwen3-8b.yaml"
FLAGS = ("--summary", "--scale", "1", "10", "100", "--table")


def _printed(*flags: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        cli.main([EXAMPLE, *flags])
    return said.getvalue().strip("\n")


def _collect() -> str:
    text = _printed()
    return text[text.index("\ncollect\n") + 1 : text.index("\n\nrepair\n")]


ONLINE = ("cobalt", "cobalt_ptb", "single_turn_grpo", "mt_grpo", "verpo")
MODELS = ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B")
CARDS = ((4, "h100-80"), (8, "h100-80"), (4, "h200"))


def _memory() -> str:
    a = Assumptions()
    heads = [f"{count} x {kind}" for count, kind in CARDS]
    lines = [f"| recipe, tokens | model | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
    for recipe in ONLINE:
        config = compose(recipe, "gpu", "published", {"cobalt.config_dir": str(CONFIG_DIR)})
        tokens = int(config.data.max_prompt_length) + int(config.data.max_response_length)
        for name in MODELS:
            cells = []
            for count, kind in CARDS:
                card = a[f"gpu.{kind}.memory_gb"] * 1e9 / GIB
                given = replace(settings(config, tokens, card), devices=count)
                phases = online(KNOWN[name], given)
                needed = [sum(parts.values()) / GIB for parts in phases.values()]
                said = ", ".join(f"{each:.1f}" for each in needed)
                cells.append(f"{said} of {card:.1f}{'' if max(needed) <= card else ': refused'}")
            lines.append(f"| `{recipe}`, {tokens:,} | {Path(name).name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def markdown() -> str:
    """The table of assumptions."""
    lines = ["| assumption | default | unit | reason |", "|---|---|---|---|"]
    for row in Assumptions().rows.values():
        lines.append(f"| `{row.name}` | {row.default:,g} | {row.unit} | {row.reason} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "example": lambda: f"```text\n{_printed(*FLAGS)}\n```",
    "collect": lambda: f"```text\n{_collect()}\n```",
    "memory": _memory,
    "assumptions": markdown,
}


def renewed(text: str) -> str:
    """The page with its made parts made again. Run from the project's folder.

    Raises ValueError for a page that lacks a part.
    """
    return renewed_parts(text, PARTS)


def main(argv: list[str] | None = None) -> int:
    """Renew a page; returns the exit code."""
    flags = parser("Renew the made parts of docs/planning.md, from the project's folder.")
    flags.add_argument("page", type=Path)
    args = flags.parse_args(argv)
    atomic_write(args.page, renewed(args.page.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    run_main(main)
