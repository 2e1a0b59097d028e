"""VeRPO (arXiv 2601.03525): dense rewards per test; rare tests weigh more, dialogues count beside turns.

The formulae are known second-hand and the constants not at all, so every constant is a parameter:

    rho_j   share of the group's programs that pass test j
    w_j     exp(-alpha rho_j) / (KDE(rho_j) + delta), the density of shares taken at rho_j
    R_turn  sum of the weights of the tests that a turn's program passes
    R_traj  gamma ** turns if the dialogue's last program passes all tests, else 0
    A       (R_traj - mean over the group) + beta (R_turn - mean over the group); no division by the deviation
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobalt.rewards.records import Rollout


def advantage(
    group: Sequence[Rollout],
    *,
    alpha: float = 2.0,
    beta: float = 0.5,
    gamma: float = 0.9,
    delta: float = 1e-3,
    bandwidth: float = 0.1,
    normalise: bool = True,
    baseline: str = "turn",
) -> list[list[float]]:
    """A of every turn of every dialogue, [rollouts][turns]; a turn without program fails every test.

    ``alpha`` >= 0 rarity, ``beta`` >= 0 weight of turns, ``gamma`` in (0, 1] discount per turn, ``delta`` > 0
    and ``bandwidth`` > 0 of the density, ``normalise`` the weights to sum 1, ``baseline`` of R_turn: the mean
    over the same turn of the group (``turn``) or over all its turns (``all``). Raises ValueError for values
    out of range, and for turns that were not judged.
    """
    holds = {f"{alpha=}": alpha >= 0, f"{beta=}": beta >= 0, f"{gamma=}": 0 < gamma <= 1,
             f"{delta=}": delta > 0, f"{bandwidth=}": bandwidth > 0,
             f"{baseline=}": baseline in ("turn", "all")}  # fmt: skip
    if not all(holds.values()):
        raise ValueError(f"verpo.{next(name for name in holds if not holds[name])} is out of range")
    programs = [turn.passing for rollout in group for turn in rollout.turns]
    if not all(programs):
        raise ValueError("verdicts on every turn are needed: cobalt.dialogue.every_turn=true")
    shares = [sum(outcomes) / len(programs) for outcomes in zip(*programs, strict=True)]
    weighed = weights(shares, alpha=alpha, delta=delta, bandwidth=bandwidth, normalise=normalise)
    dense = [
        [sum(w for passed, w in zip(turn.passing, weighed, strict=True) if passed) for turn in rollout.turns]
        for rollout in group
    ]
    sparse = [gamma ** len(each.turns) if each.turns[-1].solved else 0.0 for each in group]
    middle = sum(sparse) / len(sparse)
    columns = [[row[turn] for row in dense if len(row) > turn] for turn in range(max(map(len, dense)))]
    if baseline == "all":
        columns = [[value for row in dense for value in row]] * len(columns)
    means = [sum(column) / len(column) for column in columns]
    return [
        [total - middle + beta * (value - means[turn]) for turn, value in enumerate(row)]
        for total, row in zip(sparse, dense, strict=True)
    ]


def weights(
    shares: Sequence[float], *, alpha: float, delta: float, bandwidth: float, normalise: bool
) -> list[float]:
    """w_j of every test, all >= 0: at equal density one that fewer programs pass never weighs less."""
    around = density(shares, bandwidth)
    raw = [math.exp(-alpha * share) / (near + delta) for share, near in zip(shares, around, strict=True)]
    total = sum(raw)
    return [weight / total for weight in raw] if normalise and total > 0 else raw


def density(shares: Sequence[float], bandwidth: float) -> list[float]:
    """Gaussian kernel density of the shares, at the shares themselves, [tests]."""
    scale = len(shares) * bandwidth * math.sqrt(2 * math.pi)
    return [sum(math.exp(-0.5 * ((a - b) / bandwidth) ** 2) for b in shares) / scale for a in shares]
