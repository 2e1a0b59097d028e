"""MaxRL (arXiv 2602.02710): the likelihood of success in place of its expectation.

Of a group with mean success ``m``: ``A_i = (r_i - m) / m``, and 0 where nobody succeeds. With ``r`` in
{0, 1} a success has ``(1 - m) / m`` and a failure -1, so that rare successes weigh as in the gradient of
``log p``. Verified in the authors' estimator and in those of two libraries, which add 1e-6 to the divisor
(here it is left out; the group of mean 0 is handled). The paper's learning rates, group sizes and loss
aggregation are not taken over.
"""

from __future__ import annotations

from collections.abc import Sequence

from cobalt.rewards.records import Rollout


def advantage(group: Sequence[Rollout], partial: bool = False) -> list[float]:
    """One advantage per rollout, of sum 0 and at least -1.

    Success is that the last program passes every test, or with ``partial`` the share it passes: shaped
    rewards can be negative, and a mean of them is no probability. Raises ValueError where a last program was
    not judged.
    """
    if not all(rollout.turns and rollout.turns[-1].passing for rollout in group):
        raise ValueError("a rollout's last program has no verdict")
    last = [rollout.turns[-1] for rollout in group]
    success = [turn.pass_rate if partial else float(turn.solved) for turn in last]
    mean = sum(success) / len(success)
    return [(value - mean) / mean for value in success] if mean > 0 else [0.0] * len(group)
