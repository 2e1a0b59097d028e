"""Cobalt (arXiv 2602.03806): a contextual bandit over cut trajectories.

Its contexts, and the shaped reward of one next program against the best one shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from cobalt.contexts.select import Selection, select
from cobalt.contexts.slice import PUBLISHED_TURNS, Policy, slices
from cobalt.contexts.trajectories import Trajectories
from cobalt.rewards.cobalt import RewardProfile, ShapedReward, shaped_reward
from cobalt.schema import Message


def contexts(
    task: Trajectories,
    count_tokens: Callable[[Sequence[Message]], int],
    draw: random.Random,
    validation: bool,
    max_prompt_tokens: int,
    note: Callable[[int, str], None],
    policy: Policy = "faithful",
    selection: Selection = "max_variance",
) -> Iterator[tuple[int, int]]:
    """The statement, then the slices of the trajectories selected (section 4 and the released data scripts).

    A task that every first program solves gives none. See `select` and `slices`; why a trajectory was cut no
    further is noted.
    """
    if task.solved:
        return
    yield 0, 0
    turns = max(PUBLISHED_TURNS, *(len(rates or ()) for rates in task.rates))
    for sample in select(task.rates, validation=validation, selection=selection, draw=draw):
        found, stop = slices(
            task.conversations[sample], task.rates[sample] or (), count_prompt_tokens=count_tokens,
            policy=policy, max_prompt_tokens=max_prompt_tokens, turns=turns,
        )  # fmt: skip
        if stop is not None:
            note(sample, stop)
        yield from ((sample, each.programs) for each in found)


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
