"""One trajectory on perturbed tests: its turns that accepted a swapped pair (arXiv 2602.03806, analysis)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from cobalt.prompts import FEEDBACK_MARKER, PROBLEM_MARKER
from cobalt.rows import Row
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases
from cobalt.text import extract_code, middle_truncate

_EXPECTED = "Expected Output:\n"


@dataclass(frozen=True)
class Case:
    """A turn (from 0) and the row written for it."""

    turn: int
    row: Row


class Pairs:
    """The swapped pairs of a task and how they are recognised.

    `tests` None: by the (shortened) input and expected output inside feedback texts, as published. Else
    `tests` are the public tests as they were run, and pairs are found by the index of their test. Where a
    program has no verdict per test (no code, suite failure) nothing is recognised.
    """

    def __init__(self, swapped: TestCases, tests: TestCases | None) -> None:
        self.inputs = [_shortened(value) for value in swapped.inputs]
        self.outputs = [_EXPECTED + _shortened(value) for value in swapped.outputs]
        self.count = 0 if tests is None else len(tests)
        self.indices: frozenset[int] | None = None
        if tests is not None:
            pairs = {
                (str(i).strip(), str(o).strip()) for i, o in zip(swapped.inputs, swapped.outputs, strict=True)
            }
            shown = zip(tests.inputs, tests.outputs, strict=True)
            self.indices = frozenset(
                index for index, (i, o) in enumerate(shown) if (str(i).strip(), str(o).strip()) in pairs
            )

    def was_shown(self, row: Row, sample: int, turn: int) -> bool:
        """Whether the feedback before `turn` is about a swapped pair."""
        if self.indices is not None:
            first = _first_failure(row["public_exec_results"][turn - 1][sample])
            return first in self.indices
        said = _feedback(row, sample, turn)
        return any(i in said and o in said for i, o in zip(self.inputs, self.outputs, strict=True))

    def accepted(self, row: Row, sample: int, turn: int) -> bool:
        """Whether the program of `turn` passes every honest test and the swapped pair shown before it."""
        result: ExecutionResult = row["public_exec_results"][turn][sample]
        if self.indices is not None:
            return self._accepted_by_index(row, sample, turn, result)
        passed = [text for ok, text in zip(result["passing"], result["feedback"], strict=True) if ok]
        bent = [text for text in passed if any(value in text for value in self.inputs)]
        if not bent or len(passed) - len(bent) != len(result["passing"]) - 2:
            return False
        said = _feedback(row, sample, turn)
        return any(
            i in said and o in said and any(i in text and o in text for text in passed)
            for i, o in zip(self.inputs, self.outputs, strict=True)
        )

    def _accepted_by_index(self, row: Row, sample: int, turn: int, result: ExecutionResult) -> bool:
        assert self.indices is not None
        passing = result["passing"]
        before: ExecutionResult = row["public_exec_results"][turn - 1][sample]
        if len(passing) != self.count or len(before["passing"]) != self.count:
            return False
        honest = all(ok for index, ok in enumerate(passing) if index not in self.indices)
        first = _first_failure(before)
        return honest and first is not None and first in self.indices and passing[first]


def trajectory_cases(row: Row, sample: int, swapped: Pairs) -> Iterator[Case]:
    """The cases of one sample of an evaluated row, as rows with the published fields."""
    messages = row["conversations"][sample]
    rates = row["all_pass_rates"][sample]
    for turn in range(1, len(rates)):
        before, now = (extract_code(messages[2 * t + 2]["content"]) for t in (turn - 1, turn))
        if not before or not now or before.splitlines() == now.splitlines():
            continue
        if swapped.accepted(row, sample, turn):
            public = [results[sample] for results in row["public_pass_rates"][: turn + 1]]
            yield Case(
                turn,
                {
                    "id": row["id"],
                    "question": messages[1]["content"].rpartition(PROBLEM_MARKER)[2].strip(),
                    "previous_code": before,
                    "feedback": _feedback(row, sample, turn),
                    "current_code": now,
                    "patch": patch(before, now),
                    "all_acc": rates[: turn + 1],
                    "public_all_acc": public,
                },
            )


def patch(before: str, now: str) -> str:
    """The unified diff of two programs, three context lines, without line ends."""
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), "previous_code", "current_code", lineterm=""
    )
    return "\n".join(lines)


def _feedback(row: Row, sample: int, turn: int) -> str:
    """What was said before a turn: all after the last marker, the whole message where there is none."""
    said: str = row["conversations"][sample][2 * turn + 1]["content"] or ""
    return said.rpartition(FEEDBACK_MARKER)[2].strip()


def _first_failure(result: ExecutionResult) -> int | None:
    """The test whose feedback is shown."""
    return next((index for index, ok in enumerate(result["passing"]) if not ok), None)


def _shortened(value: object) -> str:
    return middle_truncate(str(value))
