"""Seeds that depend on what is sampled, not on when: equal in any order of work and after a resume."""

from __future__ import annotations

import hashlib
import json


def derive(seed: int, *parts: str | int) -> int:
    """A 63-bit seed from a run's seed and the names of one completion (task id, sample, turn, ...).

    A hash of the JSON text of all arguments, so 1 and "1" differ and no two splits of a name coincide.
    """
    text = json.dumps([seed, *parts]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
