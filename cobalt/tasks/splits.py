"""Public and hidden tests, training and development tasks.

Neither rule was published; these are ours, and every choice stands in the manifest.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable

from cobalt.testcases import TestCases

NUM_PUBLIC = 4
DEV_SIZE = 250
PUBLIC_RULE = "the first tests are public, the others hidden"
DEV_RULE = (
    "statements in random order go to dev while they fit; statements that differ in letter case, spaces or "
    "punctuation only are one"
)

_NOT_WORDS = re.compile(r"[\W_]+")


def divide_tests(tests: TestCases, num_public: int) -> tuple[TestCases, TestCases]:
    """Public tests (the first ``num_public``) and hidden tests (the others)."""
    public = TestCases(tests.inputs[:num_public], tests.outputs[:num_public], tests.fn_name)
    hidden = TestCases(tests.inputs[num_public:], tests.outputs[num_public:], tests.fn_name)
    return public, hidden


def statement_key(statement: str) -> bytes:
    """Equal for statements that differ in letter case, spaces or punctuation only."""
    normal = _NOT_WORDS.sub(" ", statement.lower()).strip()
    # Digits and signs of pure formulas would all vanish: those are compared as they are.
    return hashlib.blake2b((normal or statement).encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
