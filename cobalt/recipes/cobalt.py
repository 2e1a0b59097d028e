"""Cobalt (arXiv 2602.03806): a contextual bandit over cut trajectories."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from cobalt.contexts.select import Selection, select
from cobalt.contexts.slice import PUBLISHED_TURNS, Policy, slices
from cobalt.contexts.trajectories import Trajectories
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
