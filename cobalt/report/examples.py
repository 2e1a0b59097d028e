"""Example dialogues of two models on the same tasks, chosen by a stated rule and not by eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cobalt.evaluation.evaluated_rows import TaskId
from cobalt.prompts import feedback_of, is_all_passed
from cobalt.rows import Row, read_rows
from cobalt.text import extract_code

Rates = list[float]


def _won(old: Rates, new: Rates) -> bool:
    return old[0] < 1 and new[0] < 1 and old[-1] < 1 and new[-1] == 1


def _stuck(old: Rates, new: Rates) -> bool:
    return new[-1] < 1


RULES: tuple[tuple[str, Callable[[Rates, Rates], bool], int], ...] = (  # rule, its test, how many
    ("both start wrong; after training the feedback is used", _won, 2),
    ("still wrong at the last turn after training", _stuck, 1),
)


def examples(before: Path, after: Path) -> list[dict[str, Any]]:
    """Two tasks that only the trained model solves and one that it does not, first sample of each file.

    Among the tasks that fit a rule the first in the file is taken, then the first with other vague slots.
    Each example: `rule`, `fits` (how many tasks do), `tasks`, `id`, `instruction`, `slots`, and `before` and
    `after`, lists of turns with `code` (None: no code block), `feedback` (None: all public tests passed),
    `public` and `hidden` (shares of tests passed).
    """
    old, new = ({row["id"]: row for _, row in read_rows(path)} for path in (before, after))
    chosen: dict[TaskId, dict[str, Any]] = {}
    for rule, fits, wanted in RULES:
        ids = [
            key for key in old
            if key in new and fits(old[key]["all_pass_rates"][0], new[key]["all_pass_rates"][0])
        ]  # fmt: skip
        for key in _varied([key for key in ids if key not in chosen], old, wanted):
            chosen[key] = {
                "rule": rule,
                "fits": len(ids),
                "tasks": len(old),
                "id": key,
                "instruction": old[key]["instruction"],
                "slots": old[key].get("slots") or [],
                "before": _turns(old[key]),
                "after": _turns(new[key]),
            }
    return list(chosen.values())


def _varied(ids: Sequence[TaskId], rows: dict[TaskId, Row], wanted: int) -> list[TaskId]:
    """The first id of each kind of vague slots, in order, then any, up to `wanted`."""
    first: dict[frozenset[str], TaskId] = {}
    for key in ids:
        first.setdefault(frozenset(rows[key].get("slots") or ()), key)
    return list(dict.fromkeys([*first.values(), *ids]))[:wanted]


def _turns(row: Row) -> list[dict[str, Any]]:
    messages, public = row["conversations"][0], row.get("public_pass_rates")
    turns = []
    for turn, hidden in enumerate(row["all_pass_rates"][0]):
        reply = messages[3 + 2 * turn]["content"] if len(messages) > 3 + 2 * turn else ""
        turns.append(
            {
                "code": extract_code(messages[2 + 2 * turn]["content"]),
                "feedback": None if is_all_passed(reply) else feedback_of(reply) or reply,
                "public": public[turn][0] if public else None,
                "hidden": hidden,
            }
        )
    return turns
