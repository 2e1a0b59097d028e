"""Which turns of a trajectory on perturbed tests accepted a swapped pair (arXiv 2602.03806, analysis)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from cobalt.prompts import FEEDBACK_MARKER, PROBLEM_MARKER
from cobalt.rows import Row
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases
from cobalt.text import extract_code, middle_truncate


class SwappedPairs:
    """The swapped pairs of a task and how they are recognised.

    `tests` None: by the (shortened) input and expected output inside feedback texts, as published. Else
    `tests` are the public tests as they were run, and pairs are found by the index of their test. Where a
    program has no verdict per test (no code, suite failure) nothing is recognised.
    """

    def __init__(self, swapped: TestCases, tests: TestCases | None) -> None:
        self.count = len(swapped)
        self._texts = [
            (middle_truncate(str(i)), "Expected Output:\n" + middle_truncate(str(o)))
            for i, o in zip(swapped.inputs, swapped.outputs, strict=True)
        ]
        self._tests = 0 if tests is None else len(tests)
        self.indices: frozenset[int] | None = None
        if tests is not None:
            known = set(_stripped(swapped))
            self.indices = frozenset(i for i, pair in enumerate(_stripped(tests)) if pair in known)

    def was_shown(self, row: Row, sample: int, turn: int) -> bool:
        """Whether the feedback before `turn` is about a swapped pair."""
        if self.indices is not None:
            return _first_failure(row["public_exec_results"][turn - 1][sample]) in self.indices
        return self._named_in(_feedback(row, sample, turn)) != []

    def accepted(self, row: Row, sample: int, turn: int) -> bool:
        """Whether the program of `turn` passes every honest test and the swapped pair shown before it."""
        before, result = (row["public_exec_results"][each][sample] for each in (turn - 1, turn))
        if self.indices is not None:
            passing, first = result["passing"], _first_failure(before)
            if len(passing) != self._tests or len(before["passing"]) != self._tests:
                return False
            honest = all(ok for index, ok in enumerate(passing) if index not in self.indices)
            return honest and first is not None and first in self.indices and passing[first]
        passed = [text for ok, text in zip(result["passing"], result["feedback"], strict=True) if ok]
        bent = [text for text in passed if any(given in text for given, _ in self._texts)]
        if not bent or len(passed) - len(bent) != len(result["passing"]) - 2:
            return False
        shown = self._named_in(_feedback(row, sample, turn))
        return any(given in text and wanted in text for given, wanted in shown for text in passed)

    def _named_in(self, said: str) -> list[tuple[str, str]]:
        """The pairs whose input and expected output stand in a text."""
        return [(given, wanted) for given, wanted in self._texts if given in said and wanted in said]


def trajectory_cases(row: Row, sample: int, swapped: SwappedPairs) -> Iterator[tuple[int, Row]]:
    """The cases of one sample of an evaluated row: turn (from 0) and a row with the published fields."""
    messages = row["conversations"][sample]
    rates = row["all_pass_rates"][sample]
    for turn in range(1, len(rates)):
        before, now = (extract_code(messages[2 * t + 2]["content"]) for t in (turn - 1, turn))
        if not before or not now or before.splitlines() == now.splitlines():
            continue
        if swapped.accepted(row, sample, turn):
            yield (
                turn,
                {
                    "id": row["id"],
                    "question": messages[1]["content"].rpartition(PROBLEM_MARKER)[2].strip(),
                    "previous_code": before,
                    "feedback": _feedback(row, sample, turn),
                    "current_code": now,
                    "patch": patch(before, now),
                    "all_acc": rates[: turn + 1],
                    "public_all_acc": [results[sample] for results in row["public_pass_rates"][: turn + 1]],
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


def _stripped(tests: TestCases) -> list[tuple[str, str]]:
    return [(str(i).strip(), str(o).strip()) for i, o in zip(tests.inputs, tests.outputs, strict=True)]
