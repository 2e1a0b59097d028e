"""Example dialogues of two models on the same tasks, chosen by a stated rule and not by eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cobalt.prompts import feedback_of, is_all_passed
from cobalt.report.evidence import TaskId
from cobalt.rows import Row, read_rows
from cobalt.text import extract_code

Rates = list[float]


def _won(old: Rates, new: Rates) -> bool:
    return old[0] < 1 and new[0] < 1 and old[-1] < 1 and new[-1] == 1


def _stuck(old: Rates, new: Rates) -> bool:
    return new[-1] < 1


RULES: tuple[tuple[str, Callable[[Rates, Rates], bool]], ...] = (
    ("both start wrong; after training the feedback is used", _won),
    ("still wrong at the last turn after training", _stuck),
)


def examples(before: Path, after: Path, *, won: int = 2) -> list[dict[str, Any]]:
    """`won` tasks that only the trained model solves and one that it does not, first sample of each file.

    Among the tasks that fit a rule the first in the file is taken, then the first with other vague slots.
    Each example: `rule`, `fits` (how many tasks do), `tasks`, `id`, `instruction`, `slots`, and `before` and
    `after`, lists of turns with `code` (None: no code block), `feedback` (None: all public tests passed),
    `public` and `hidden` (shares of tests passed).
    """
    old, new = _rows(before), _rows(after)
    chosen: list[dict[str, Any]] = []
    for (rule, fits), wanted in zip(RULES, (won, 1), strict=True):
        ids = [key for key in old if key in new and fits(_rates(old[key]), _rates(new[key]))]
        taken = {each["id"] for each in chosen}
        for key in _varied(ids, old, wanted, taken):
            chosen.append(
                {
                    "rule": rule,
                    "fits": len(ids),
                    "tasks": len(old),
                    "id": key,
                    "instruction": old[key]["instruction"],
                    "slots": old[key].get("slots") or [],
                    "before": _turns(old[key]),
                    "after": _turns(new[key]),
                }
            )
    return chosen


def _varied(ids: Sequence[TaskId], rows: dict[TaskId, Row], wanted: int, taken: set[TaskId]) -> list[TaskId]:
    """The first id of each kind of vague slots, in order, then any, up to `wanted`."""
    picked: list[TaskId] = []
    kinds = set[frozenset[str]]()
    for again in (False, True):
        for key in ids:
            kind = frozenset(rows[key].get("slots") or ())
            free = key not in picked and key not in taken
            if free and len(picked) < wanted and (again or kind not in kinds):
                picked.append(key)
                kinds.add(kind)
    return picked


def _rows(path: Path) -> dict[TaskId, Row]:
    return {row["id"]: row for _, row in read_rows(path)}


def _rates(row: Row) -> Rates:
    rates: Rates = row["all_pass_rates"][0]
    return rates


def _turns(row: Row) -> list[dict[str, Any]]:
    messages = row["conversations"][0]
    public = row.get("public_pass_rates")
    turns = []
    for turn, hidden in enumerate(_rates(row)):
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
