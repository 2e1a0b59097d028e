"""PrefixRL (arXiv 2601.18795): on-policy RL from prefixes of successful traces, and from the bare problem.

The objective is the sum of ordinary RL over problems and over prefixed problems; nothing of a prefix is in
the loss. Verified in readings of the paper by others: one successful trace per hard problem by rejection
sampling, three prefixes of it at random places between 40 and 80 % of its tokens, beside the problem
itself.

Here a trace is a stored dialogue and a prefix consists of whole programs with their feedback: a completion is
one program, and a half-written one would be continued in the middle of the policy's own answer. A dialogue is
successful if one of its programs passes every test; it is cut anywhere before the first that does, so that
the success itself is never shown. Hard is a task that few first programs solve (``max_solved``): the paper's
tasks have none among 512. Easier tasks, and those without such a prefix, are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cobalt.contexts.trajectories import Trajectories


def contexts(
    task: Trajectories,
    count_tokens: Callable[[Sequence[Any]], int],
    draw: random.Random,
    validation: bool,
    max_prompt_tokens: int,
    prefixes: int = 3,
    max_solved: float = 0.5,
) -> Iterator[tuple[int, int]]:
    """(sample, programs shown) of the statement and of at most ``prefixes`` prefixes, drawn without
    replacement; in validation of the statement alone.

    ``max_solved`` in [0, 1]: share of first programs that pass every test, at most.
    """
    if validation:
        yield 0, 0
        return
    rates = {sample: each for sample, each in enumerate(task.rates) if each}
    solved = sum(each[0] == 1.0 for each in rates.values())
    if not rates or solved / len(rates) > max_solved:
        return
    cuts = [
        (sample, shown)
        for sample, each in rates.items()
        if 1.0 in each
        for shown in range(1, each.index(1.0) + 1)
        if count_tokens(task.conversations[sample][: 2 + 2 * shown]) <= max_prompt_tokens
    ]
    if cuts:
        yield 0, 0
        yield from sorted(draw.sample(cuts, min(prefixes, len(cuts))))
