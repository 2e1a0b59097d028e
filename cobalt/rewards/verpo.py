"""Dense rewards per test (VeRPO, arXiv 2601.03525): rare tests weigh more, dialogues count beside turns.

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
from dataclasses import dataclass
from typing import Literal

Passing = Sequence[bool]  # one program's outcome, [tests]


@dataclass(frozen=True, slots=True)
class Constants:
    """``alpha`` >= 0 rarity, ``beta`` weight of turns, ``gamma`` in (0, 1] discount per turn, ``delta`` > 0
    and ``bandwidth`` > 0 of the density, ``normalise`` the weights to sum 1, ``baseline`` of R_turn: the mean
    over the same turn of the group (``turn``) or over all its turns (``all``).

    Raises ValueError for values outside these ranges.
    """

    alpha: float = 2.0
    beta: float = 0.5
    gamma: float = 0.9
    delta: float = 1e-3
    bandwidth: float = 0.1
    normalise: bool = True
    baseline: Literal["turn", "all"] = "turn"

    def __post_init__(self) -> None:
        holds = {
            "alpha": self.alpha >= 0, "beta": self.beta >= 0, "gamma": 0 < self.gamma <= 1,
            "delta": self.delta > 0, "bandwidth": self.bandwidth > 0,
            "baseline": self.baseline in ("turn", "all"),
        }  # fmt: skip
        for name in holds:
            if not holds[name]:
                raise ValueError(f"verpo.{name}={getattr(self, name)!r} is out of range")


def pass_shares(programs: Sequence[Passing]) -> list[float]:
    """rho_j: share of ``programs`` that pass test j, [tests] in [0, 1].

    Raises ValueError if there is no program, or programs have unequally many tests.
    """
    if not programs:
        raise ValueError("no programs")
    if len({len(program) for program in programs}) != 1:
        raise ValueError("programs of one group have different numbers of tests")
    return [sum(outcomes) / len(programs) for outcomes in zip(*programs, strict=True)]


def density(shares: Sequence[float], bandwidth: float) -> list[float]:
    """Gaussian kernel density of the shares, at the shares themselves, [tests]."""
    scale = len(shares) * bandwidth * math.sqrt(2 * math.pi)
    return [
        sum(math.exp(-0.5 * ((share - other) / bandwidth) ** 2) for other in shares) / scale
        for share in shares
    ]


def weights(shares: Sequence[float], constants: Constants) -> list[float]:
    """w_j of every test, [tests]; all >= 0, and of sum 1 if ``normalise``.

    At equal density a test that fewer programs pass never weighs less.
    """
    raw = [
        math.exp(-constants.alpha * share) / (around + constants.delta)
        for share, around in zip(shares, density(shares, constants.bandwidth), strict=True)
    ]
    total = sum(raw)
    return [weight / total for weight in raw] if constants.normalise and total > 0 else raw


def turn_reward(passing: Passing, weighed: Sequence[float]) -> float:
    """R_turn: the weights of the tests that pass."""
    return sum(weight for passed, weight in zip(passing, weighed, strict=True) if passed)


def trajectory_reward(turns: Sequence[Passing], gamma: float) -> float:
    """R_traj: ``gamma ** len(turns)`` if the last program passes all of at least one test, else 0."""
    return gamma ** len(turns) if turns and turns[-1] and all(turns[-1]) else 0.0


def advantages(group: Sequence[Sequence[Passing]], constants: Constants) -> list[list[float]]:
    """A of every turn of every dialogue of a group.

    ``group``: [dialogues][turns][tests]; a turn without program fails every test. Returns [dialogues][turns].
    """
    programs = [turn for dialogue in group for turn in dialogue]
    weighed = weights(pass_shares(programs), constants)
    dense = [[turn_reward(turn, weighed) for turn in dialogue] for dialogue in group]
    sparse = [trajectory_reward(dialogue, constants.gamma) for dialogue in group]
    middle = sum(sparse) / len(sparse)

    def baseline(position: int) -> float:
        values = [
            value
            for dialogue in dense
            for turn, value in enumerate(dialogue)
            if constants.baseline == "all" or turn == position
        ]
        return sum(values) / len(values)

    longest = max(map(len, dense))
    means = [baseline(position) for position in range(longest)]
    return [
        [total - middle + constants.beta * (value - means[turn]) for turn, value in enumerate(dialogue)]
        for total, dialogue in zip(sparse, dense, strict=True)
    ]
