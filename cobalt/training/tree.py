"""Trees of dialogues (``cobalt.dialogue.branches``): the rollouts of a prompt share their first programs.

With branches ``[4, 2, 1]`` four first programs are sampled, two repairs of each and one repair of each of
those: eight rollouts of three turns, the leaves, which stand in a group in this order. A program and its
feedback are sampled and judged once, and are in the loss of one leaf only.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence

from cobalt.training.dialogue import Dialogue
from cobalt.training.scoring import Score


def leaves_below(branches: Sequence[int], turns: int) -> list[int]:
    """Leaves below a program of each turn, [turns]: ``[4, 2, 1]`` gives ``[2, 1, 1]``; without a tree 1."""
    return [math.prod(branches[turn + 1 :]) for turn in range(turns)] if branches else [1] * turns


def fork(dialogues: MutableSequence[Dialogue], place: int, below: int) -> None:
    """Hand the dialogue at ``place`` on to the ``below`` leaves from there, itself the first of them."""
    made = dialogues[place]
    for offset in range(1, below):
        dialogues[place + offset] = made.fork(made.leaf + offset)


def in_loss_once(group: Sequence[tuple[Dialogue, Score]]) -> None:
    """Leave every program of a prompt's rollouts to the first rollout that has it and is not masked."""
    seen: set[tuple[int, int]] = set()
    for dialogue, score in group:
        if score.masked:
            continue
        for turn, leaf in enumerate(dialogue.leaves):
            if (turn, leaf) in seen:
                dialogue.share(turn)
            seen.add((turn, leaf))
