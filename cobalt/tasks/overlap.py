"""Which training tasks share sequences of words with the problems of an evaluation (`preproc_taco.py
--decontaminate`)?
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from cobalt.files import StrPath
from cobalt.output import write_jsonl
from cobalt.rows import Row, Rows, read_rows, row_id
from cobalt.tasks.own import statement_of

NGRAM = 13
_WORD = re.compile(r"\w+")


class Overlap:
    """n-grams of words of problems; `compare` finds those that a statement shares.

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


def list_overlaps(tasks: StrPath, problems: Overlap) -> str:
    """Write what each of ``tasks`` shares with them into ``TASKS.overlap.jsonl``, and say how many do."""
    target = f"{tasks}.overlap.jsonl"
    shared = [each for _, row in read_rows(tasks) for each in problems.compare(row["id"], row["question"])]
    write_jsonl(target, shared)
    return f"{len({row['id'] for row in shared})} tasks share word sequences with the problems: {target}"
