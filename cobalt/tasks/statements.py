"""Are two statements the same, which are for development, and which share words with evaluation problems?"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from cobalt.errors import InputError
from cobalt.prompts import PROBLEM_MARKER
from cobalt.rows import Row, Rows, row_id

NGRAM = 13
DEV_SIZE = 250
DEV_RULE = (
    "statements in random order go to dev while they fit; statements that differ in letter case, spaces or "
    "punctuation only are one"
)

_WORD = re.compile(r"\w+")
_NOT_WORDS = re.compile(r"[\W_]+")
_STATEMENTS = ("question_content", "question", "instruction")


def statement_of(row: Row, where: str) -> str:
    """The statement in a row of LiveCodeBench's layout or of ours, without the wrapper."""
    for field in _STATEMENTS:
        value = row.get(field)
        if isinstance(value, str):
            return value.partition(PROBLEM_MARKER)[2] if PROBLEM_MARKER in value else value
    raise InputError(f"{where}: none of the fields {', '.join(_STATEMENTS)} holds a statement")


def statement_key(statement: str) -> bytes:
    """Equal for statements that differ in letter case, spaces or punctuation only."""
    normal = _NOT_WORDS.sub(" ", statement.lower()).strip()
    # Digits and signs of pure formulas would all vanish: those are compared as they are.
    return blake2b((normal or statement).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def choose_dev(keys: Iterable[bytes], dev_size: int, seed: int) -> set[bytes]:
    """Statements of the development split: ``dev_size`` tasks, or as close below as whole groups allow.

    ``keys`` has one `statement_key` per task. At most half of the tasks are taken, however few there are.
    """
    sizes: dict[bytes, int] = {}
    for key in keys:
        sizes[key] = sizes.get(key, 0) + 1
    order = sorted(sizes)
    random.Random(f"dev {seed}").shuffle(order)
    room = min(dev_size, sum(sizes.values()) // 2)
    chosen: set[bytes] = set()
    for key in order:
        if sizes[key] <= room:
            chosen.add(key)
            room -= sizes[key]
        if not room:
            break
    return chosen


class Overlap:
    """n-grams of words of the problems in a file; `compare` finds those that a statement shares.

    Raises InputError for rows without an id or a statement.
    """

    def __init__(self, problems: Rows, ngram: int = NGRAM) -> None:
        self._ngram = ngram
        self._owners: dict[bytes, list[int]] = {}
        self._problems: list[tuple[str | int, int]] = []  # key and number of n-grams
        for where, row in problems:
            grams = set(self._grams(statement_of(row, where)))
            for gram in grams:
                self._owners.setdefault(gram, []).append(len(self._problems))
            field = "question_id" if "question_id" in row else "id"
            self._problems.append((row_id(row, where, field), len(grams)))

    def compare(self, task_id: str | int, statement: str) -> list[Row]:
        """A row for every problem that shares n-grams: their number and their share of either text."""
        grams = set(self._grams(statement))
        shared = Counter(owner for gram in grams for owner in self._owners.get(gram, ()))
        return [
            {
                "id": task_id,
                "problem": self._problems[owner][0],
                "shared": count,
                "share_of_task": round(count / len(grams), 4),
                "share_of_problem": round(count / self._problems[owner][1], 4),
            }
            for owner, count in sorted(shared.items())
        ]

    def _grams(self, text: str) -> Iterator[bytes]:
        words = _WORD.findall(text.lower())
        for start in range(len(words) - self._ngram + 1):
            joined = " ".join(words[start : start + self._ngram])
            yield blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()
