"""Cobalt (arXiv 2602.03806): the shaped reward of one next program, against the best one shown."""

from __future__ import annotations

from collections.abc import Callable

from cobalt.rewards.cobalt import RewardProfile, ShapedReward, shaped_reward


def reward(
    completion: str,
    pass_rate: float,
    best: float,
    count_tokens: Callable[[str], int],
    profile: RewardProfile,
) -> ShapedReward:
    """Tier, improvement and form (cobalt.rewards.cobalt); ``pass_rate`` and ``best`` in [0, 1]."""
    return shaped_reward(
        completion, pass_rate, prev_best_pass_rate=best, count_tokens=count_tokens, profile=profile
    )
