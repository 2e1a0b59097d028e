"""MURPHY (arXiv 2511.07833): trees of dialogues; an attempt is worth what its best revision reached.

A failed program branches into several revisions (`cobalt.dialogue.branches`). From the leaves up, with r
the reward of a program:

    max:  R = max(r, gamma * the largest R among its children)            (the paper's MaRS)
    mean: R = (r + gamma * the mean R of its children) / (S - s + 1)      (MeRS; S turns, this one the s-th)
    A = (R - mean) / (deviation + 1e-6) among siblings: the programs that answer the same messages

The paper was readable as an abstract only, which names both ways and says that GRPO's groups are siblings.
``max`` is known second-hand, ``mean`` from a reimplementation by others that gives a leaf its own reward;
gamma and the branching are not known and ours. Pruning is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cobalt.recipes import judged
from cobalt.rewards.groups import grpo
from cobalt.rewards.records import Rollout


def propagated(
    rewards: dict[int, float], parents: dict[int, int | None], gamma: float, by: str
) -> dict[int, float]:
    """R of every node of a forest, by its ``rewards`` and its ``parents`` (None for first programs), which
    stand before their children.
    """
    children: dict[int, list[int]] = {}
    depth: dict[int, int] = {}
    for node, parent in parents.items():
        depth[node] = 1 if parent is None else depth[parent] + 1
        if parent is not None:
            children.setdefault(parent, []).append(node)
    deepest = max(depth.values())
    worth: dict[int, float] = {}
    for node in sorted(parents, key=depth.__getitem__, reverse=True):
        below = [worth[child] for child in children.get(node, [])]
        worth[node] = rewards[node]
        if below and by == "max":
            worth[node] = max(rewards[node], gamma * max(below))
        elif below:
            left = deepest - depth[node] + 1
            worth[node] = (rewards[node] + gamma * sum(below) / len(below)) / left
    return worth


def advantage(
    group: Sequence[Rollout], gamma: float = 0.9, by: Literal["max", "mean"] = "max"
) -> list[list[float]]:
    """A of every turn, [rollouts][turns]; equal where rollouts share a program, 0 for an only child.

    ``gamma`` in [0, 1]. Raises ValueError for other constants, and where a program was not judged.
    """
    if not 0 <= gamma <= 1 or by not in ("max", "mean"):
        raise ValueError(f"gamma must be in [0, 1] and by max or mean, got {gamma} and {by!r}")
    rewards: dict[int, float] = {}
    parents: dict[int, int | None] = {}
    for rollout in group:
        nodes = [turn.node for turn in judged(rollout)]
        parents.update(zip(nodes, [None, *nodes], strict=False))
        rewards.update({turn.node: turn.reward or 0.0 for turn in rollout.turns})
    worth = propagated(rewards, parents, gamma, by)
    values: dict[int, float] = {}
    for parent in dict.fromkeys(parents.values()):
        siblings = [node for node in parents if parents[node] == parent]
        found = grpo([worth[node] for node in siblings]) if len(siblings) > 1 else [0.0]
        values.update(zip(siblings, found, strict=True))
    return [[values[turn.node] for turn in rollout.turns] for rollout in group]
