"""Stored submissions of the tiny family, in CodeNet's layout: what existing code data are, small.

Nothing is sampled or run: a guess redraws the slots that the statement leaves vague (and, rarely, a stated
one), and its verdict is that of the family's own arithmetic on the task's tests.
"""

from __future__ import annotations

import csv
import html
import random
from collections.abc import Iterator
from pathlib import Path

from cobalt.tasks import tiny
from cobalt.tasks.codenet import ACCEPTED, COLUMNS

_LIMIT_MS = 2000
_KINDS = {"right": 6, "guess": 9, "no bracket": 2, "no input": 2, "endless": 1}
_CARELESS = 0.08  # of guesses: a stated slot too


def write_tree(root: Path, *, tasks: int, submissions: int, seed: int) -> int:
    """A CodeNet tree with ``submissions`` to each of the family's training ``tasks``; returns how many are
    right. The first of every task is.
    """
    for name in ("metadata", "problem_descriptions", "data"):
        (root / name).mkdir(parents=True, exist_ok=True)
    right, number = 0, 0
    for place, (spec, vague, tests) in enumerate(tiny.draw_specs("train", tasks, seed)):
        problem = f"p{place:05d}"
        text = html.escape(tiny.statement(spec, vague))
        (root / "problem_descriptions" / f"{problem}.html").write_text(
            f"<html><body><p>{text}</p></body></html>\n"
        )
        folder = root / "data" / problem / "Python"
        folder.mkdir(parents=True, exist_ok=True)
        rng = random.Random(f"submissions {seed} {place}")
        rows = []
        for code, status, ms in _submissions(rng, spec, vague, tests, submissions):
            number += 1
            name = f"s{number:09d}"
            (folder / f"{name}.py").write_text(code + "\n")
            rows.append([name, problem, "Python", "py", status, ms])
            right += status == ACCEPTED
        with open(root / "metadata" / f"{problem}.csv", "w", encoding="utf-8", newline="") as handle:
            csv.writer(handle).writerows([COLUMNS, *rows])
    return right


def _submissions(
    rng: random.Random, spec: tiny.Spec, vague: frozenset[str], tests: list[tuple[str, str]], count: int
) -> Iterator[tuple[str, str, int]]:
    """(program, status, milliseconds)."""
    for number in range(count):
        kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0] if number else "right"
        guess = spec if kind == "right" else tiny.redraw(rng, spec, _slots(rng, spec, vague))
        lines, ms = tiny.program(guess).split("\n"), 10 * rng.randint(1, 3)
        wrong = any(tiny.output_of(guess, list(map(int, given.split()))) != out for given, out in tests)
        status = "Wrong Answer" if wrong else ACCEPTED
        if kind == "no bracket":
            lines[1], status = lines[1].removesuffix("]"), "Compile Error"
        elif kind == "no input":
            lines, status = lines[1:], "Runtime Error"
        elif kind == "endless":
            lines, status, ms = [*lines[:-1], "while xs: pass"], "Time Limit Exceeded", _LIMIT_MS
        yield "\n".join(lines), status, 0 if status == "Compile Error" else ms


def _slots(rng: random.Random, spec: tiny.Spec, vague: frozenset[str]) -> frozenset[str]:
    stated = [slot for slot in tiny.SLOTS if slot not in vague]
    return vague | {rng.choice(stated)} if stated and rng.random() < _CARELESS else vague
