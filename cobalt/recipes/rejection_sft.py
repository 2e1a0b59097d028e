"""Rejection sampling fine-tuning: maximum likelihood of the best stored completions of every prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def best(rows: Iterable[Mapping[str, Any]], keep: int) -> list[tuple[Any, list[str]]]:
    """Every prompt with its ``keep`` shortest right completions, over all its rows and without repeats.

    ``rows`` have ``prompt`` (messages) and ``completions`` (``text`` and ``pass_rate``); prompts without a
    right one are left out.
    """
    prompts: dict[str, tuple[Any, dict[str, None]]] = {}
    for row in rows:
        _, right = prompts.setdefault(json.dumps(row["prompt"]), (row["prompt"], {}))
        right |= dict.fromkeys(item["text"] for item in row["completions"] if item["pass_rate"] == 1.0)
    return [(prompt, sorted(right, key=len)[:keep]) for prompt, right in prompts.values() if right]
