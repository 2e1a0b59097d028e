"""Groups of samples of one prompt, by the keys ``{uid}_{session}_{index}`` that verl's queue has them under:
which samples leave a batch, which groups teach nothing, and what several generation batches gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobalt.errors import InfraError

REWARDS = ("reward", "score", "seq_reward", "seq_final_reward")  # names that verl and DAPO give one number
CONTRASTS = (*REWARDS, "acc", "pass_rate")  # what groups can be filtered by


def session_of(key: str) -> str:
    """``{uid}_{session}`` of a key ``{uid}_{session}_{index}``."""
    return key.rsplit("_", 1)[0]


def prompt_of(key: str) -> str:
    """``{uid}`` of a key ``{uid}_{session}_{index}``."""
    return key.rsplit("_", 2)[0]


def alike(keys: Sequence[str], values: Sequence[float], gone: Collection[str] = ()) -> set[str]:
    """Prompts whose samples, but for those ``gone``, all have one value: their advantages are 0."""
    groups: dict[str, set[float]] = {}
    for key, value in zip(keys, values, strict=True):
        if key not in gone:
            groups.setdefault(prompt_of(key), set()).add(value)
    return {uid for uid, found in groups.items() if max(found) - min(found) < 1e-9}


def masked_keys(keys: list[str], masked: list[bool]) -> set[str]:
    """Keys ``{uid}_{session}_{index}`` that must leave the batch.

    A masked output takes its session with it (one advantage belongs to the whole session), and a group with
    fewer than two sessions left leaves too.
    """
    gone = {session_of(key) for key, flag in zip(keys, masked, strict=True) if flag}
    if not gone:
        return set()
    left = Counter(session_of(session) for session in {session_of(key) for key in keys} - gone)
    return {key for key in keys if session_of(key) in gone or left[session_of(session_of(key))] < 2}


@dataclass
class Sampled:
    """What the generation batches of a step gave: ``sampled`` groups, of which ``dropped`` had no contrast;
    ``rows`` (key, tag) that are left, of the ``groups``; ``lost`` samples without a verdict; ``programs``
    that the policy wrote, each once where rollouts share it.
    """

    rows: list[tuple[str, Any]] = field(default_factory=list)
    infos: list[dict[str, float]] = field(default_factory=list)
    records: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    programs: int = 0
    sampled: int = 0
    dropped: int = 0
    batches: int = 0

    @property
    def groups(self) -> dict[str, None]:
        """Prompts with rows left, in order."""
        return dict.fromkeys(prompt_of(key) for key, _ in self.rows)

    def filtered(self, batch_size: int, metric: str, step: int) -> dict[str, float]:
        """The metrics of dynamic sampling. Raises InfraError where nothing is left to learn from."""
        if not self.rows:
            raise InfraError(
                f"step {step}: in none of {self.sampled} groups do samples differ in {metric}, after "
                f"{self.batches} batches (algorithm.filter_groups.max_num_gen_batches): there is nothing to "
                "learn from; are all tasks solved, or none?"
            )
        counts = {"sampled": self.sampled, "dropped": self.dropped, "batches": self.batches}
        counts["kept"] = min(batch_size, len(self.groups))
        return {f"training/filter_groups/{name}": float(count) for name, count in counts.items()}


def in_order(batch: Any, prompts: Iterable[str]) -> None:
    """Sort a batch by its keys ``{uid}_{session}_{index}``: place of the uid in ``prompts``, then numbers."""
    places = {uid: place for place, uid in enumerate(prompts)}

    def place(row: tuple[str, Any]) -> tuple[int, int, int]:
        uid, session, index = row[0].rsplit("_", 2)
        return places[uid], int(session), int(index)

    rows = sorted(zip(batch.keys, batch.tags, strict=True), key=place)
    batch.keys, batch.tags = [key for key, _ in rows], [tag for _, tag in rows]
