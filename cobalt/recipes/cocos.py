"""CoCoS (arXiv 2505.23060): the reward of a dialogue accumulates what its turns gain.

With ``p_t`` the share of all tests that program t = 1 .. T passes, and ``p_0 = 0``:

    R = sum over t of gamma ** (T - t) * (p_t - p_{t-1})
    A = R - mean of R over the other dialogues of the group

Verified in the authors' code: the weights, gamma 0.5, T = 2, leave-one-out groups of two. It counts tests
where this takes their share, samples the first program once per group where here every dialogue has its
own, and therefore trains the second program only (``last_only``). The paper's text could not be read beyond
its abstract, which says that the first program improves too: by default every program has A. Their
KL penalty in the reward and four passes over a batch are not taken over.
"""

from __future__ import annotations

from collections.abc import Sequence

from cobalt.recipes import judged
from cobalt.rewards.groups import rloo
from cobalt.rewards.records import Rollout


def accumulated(rates: Sequence[float], gamma: float) -> float:
    """R of a dialogue whose programs pass the shares ``rates``, [turns] in [0, 1]; in [-1, 1]."""
    gains = [rate - before for rate, before in zip(rates, [0.0, *rates], strict=False)]
    return sum(gain * gamma ** (len(rates) - turn) for turn, gain in enumerate(gains, start=1))


def advantage(group: Sequence[Rollout], gamma: float = 0.5, last_only: bool = False) -> list[list[float]]:
    """A of every turn, [rollouts][turns]; with ``last_only`` 0 but for the last.

    ``gamma`` in [0, 1]: at 1 only the last program counts, at 0 only what the last turn gained. Raises
    ValueError outside of it, and where a program was not judged.
    """
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be in [0, 1], got {gamma}")
    turns = [judged(rollout) for rollout in group]
    values = rloo([accumulated([turn.pass_rate for turn in each], gamma) for each in turns])
    return [
        [0.0 if last_only and turn is not each[-1] else value for turn in each]
        for value, each in zip(values, turns, strict=True)
    ]
