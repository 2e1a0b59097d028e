"""Advantages within a group of completions of one prompt: used where nothing is sampled any more."""

from __future__ import annotations

import math
from collections.abc import Sequence

EPSILON = 1e-6  # as in verl's GRPO


def rloo(rewards: Sequence[float]) -> list[float]:
    """Leave-one-out: ``r_i`` minus the mean of the others, [n]; the sum is 0. Raises ValueError for n < 2."""
    _at_least_two(rewards)
    total, n = sum(rewards), len(rewards)
    return [reward - (total - reward) / (n - 1) for reward in rewards]


def grpo(rewards: Sequence[float], *, normalise: bool = True) -> list[float]:
    """``(r_i - mean) / (deviation + 1e-6)``, [n], with the sample deviation (n - 1), as in verl; sum 0.

    ``normalise`` False leaves the deviation out. Raises ValueError for n < 2.
    """
    _at_least_two(rewards)
    n = len(rewards)
    mean = sum(rewards) / n
    scale = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / (n - 1)) if normalise else 1.0
    return [(reward - mean) / (scale + (EPSILON if normalise else 0.0)) for reward in rewards]


def exponential(
    rewards: Sequence[float], *, temperature: float = 1.0, clip: float | None = None
) -> list[float]:
    """Weights ``exp(A_i / temperature)`` of the leave-one-out advantages, at most ``clip``; [n], positive.

    Raises ValueError for n < 2, or a temperature or clip that is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature!r}")
    if clip is not None and clip <= 0:
        raise ValueError(f"clip must be positive, got {clip!r}")
    bound = math.inf if clip is None else clip
    # exp of more than 709 overflows
    return [min(bound, math.exp(min(700.0, value / temperature))) for value in rloo(rewards)]


def _at_least_two(rewards: Sequence[float]) -> None:
    if len(rewards) < 2:
        raise ValueError(f"a group needs at least 2 completions for its baseline, got {len(rewards)}")
