"""Do training statements share long runs of words with evaluation problems?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from cobalt.errors import InputError
from cobalt.prompts import PROBLEM_MARKER
from cobalt.rows import Row, Rows, row_id

NGRAM = 13

_WORD = re.compile(r"\w+")
_STATEMENTS = ("question_content", "question", "instruction")
_IDS = ("question_id", "id")


class Overlap:
    """n-grams of words of the problems in a file; ``compare`` finds those that a statement shares.

    Raises InputError for rows without an id or a statement.
    """

    def __init__(self, problems: Rows, ngram: int = NGRAM) -> None:
        self.ngram = ngram
        self._owners: dict[bytes, list[int]] = {}
        self._names: list[str | int] = []
        self._sizes: list[int] = []
        for where, row in problems:
            grams = set(self._grams(statement_of(row, where)))
            field = next((each for each in _IDS if each in row), "id")
            for gram in grams:
                self._owners.setdefault(gram, []).append(len(self._names))
            self._names.append(row_id(row, where, field))
            self._sizes.append(len(grams))

    def __len__(self) -> int:
        return len(self._names)

    def compare(self, task_id: str | int, statement: str) -> list[Row]:
        """A row for every problem that shares n-grams: their number and their share of either text."""
        grams = set(self._grams(statement))
        shared = Counter(owner for gram in grams for owner in self._owners.get(gram, ()))
        return [
            {
                "id": task_id,
                "problem": self._names[owner],
                "shared": count,
                "share_of_task": round(count / len(grams), 4),
                "share_of_problem": round(count / self._sizes[owner], 4),
            }
            for owner, count in sorted(shared.items())
        ]

    def _grams(self, text: str) -> Iterator[bytes]:
        words = _WORD.findall(text.lower())
        for start in range(len(words) - self.ngram + 1):
            joined = " ".join(words[start : start + self.ngram])
            yield blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def statement_of(row: Row, where: str) -> str:
    """The statement in a row of LiveCodeBench's layout or of ours, without the wrapper."""
    for field in _STATEMENTS:
        value = row.get(field)
        if isinstance(value, str):
            return value.partition(PROBLEM_MARKER)[2] if PROBLEM_MARKER in value else value
    raise InputError(f"{where}: none of the fields {', '.join(_STATEMENTS)} holds a statement")
