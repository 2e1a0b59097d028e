"""What a method learns about a group of rollouts: verdicts, tokens and places of every turn.

A rollout is one completion of a context, or a dialogue of several programs. The rollouts of one prompt are a
*group*. In a tree of dialogues, rollouts share their first programs: those have one ``node``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One program of a rollout.

    ``reward``: its own, by the recipe's reward on all tests, and ``passing`` [tests] the outcome of each;
    None and () where it was not judged (`cobalt.dialogue.every_turn`). ``begin`` and ``end``: its tokens are
    ``response[begin:end]``; feedback stands between turns. ``node``: equal where rollouts of a group share
    this program, which is then in the loss of the first of them only (``shared`` in the others).
    """

    reward: float | None
    passing: tuple[bool, ...]
    begin: int
    end: int
    node: int
    shared: bool = False

    @property
    def pass_rate(self) -> float:
        """Share of tests passed, in [0, 1]; 0.0 where it was not judged."""
        return sum(self.passing) / len(self.passing) if self.passing else 0.0

    @property
    def solved(self) -> bool:
        """It was judged and passes every test."""
        return bool(self.passing) and all(self.passing)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One row of a training batch: its reward, its turns in order (one where it is a completion), the best
    pass rate that its context showed, in [0, 1], and the task's ``index``.
    """

    reward: float
    turns: tuple[Turn, ...]
    best: float = 0.0
    index: str | int | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Rollout:
        """From what ``dataclasses.asdict`` makes of one, also where a transport made tuples lists."""
        turns = (Turn(**{**turn, "passing": tuple(turn["passing"])}) for turn in fields["turns"])
        return cls(**{**fields, "turns": tuple(turns)})
