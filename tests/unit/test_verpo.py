"""Dense rewards per test: hand-computed values, and what must hold for any group."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.rewards import verpo
from cobalt.rewards.verpo import Constants

OUTCOMES = st.integers(1, 5).flatmap(
    lambda tests: st.lists(
        st.lists(st.lists(st.booleans(), min_size=tests, max_size=tests), min_size=1, max_size=3),
        min_size=2, max_size=5,
    )
)  # fmt: skip
CONSTANTS = st.builds(
    Constants,
    alpha=st.floats(0, 5), beta=st.floats(0, 2), gamma=st.floats(0.1, 1), delta=st.floats(1e-3, 1),
    bandwidth=st.floats(0.05, 1), normalise=st.booleans(), baseline=st.sampled_from(["turn", "all"]),
)  # fmt: skip


def test_by_hand():
    # two dialogues of one turn, two tests: the first is passed by both, the second by one
    group = [[[True, True]], [[True, False]]]
    assert verpo.pass_shares([group[0][0], group[1][0]]) == [1.0, 0.5]
    constants = Constants(
        alpha=2.0, beta=0.5, gamma=0.9, delta=0.5, bandwidth=1.0, normalise=False
    )  # the density at both shares: (1 + exp(-1/8)) / (2 sqrt(2 pi))
    around = (1 + math.exp(-0.125)) / (2 * math.sqrt(2 * math.pi))
    first, second = math.exp(-2.0) / (around + 0.5), math.exp(-1.0) / (around + 0.5)
    assert verpo.weights([1.0, 0.5], constants) == pytest.approx([first, second])
    # R_turn: first + second, and first; R_traj: 0.9 and 0
    expected = 0.9 - 0.45 + 0.5 * (second / 2)
    assert verpo.advantages(group, constants) == [
        [pytest.approx(expected)],
        [pytest.approx(-expected)],
    ]


def test_turns_count_and_are_discounted():
    assert verpo.trajectory_reward([[False], [True]], 0.5) == 0.25
    assert verpo.trajectory_reward([[True], [False]], 0.5) == 0.0  # the last program decides
    assert verpo.trajectory_reward([[]], 0.5) == 0.0  # no tests: nothing is solved
    group = [[[False], [True]], [[False]]]
    by_turn = verpo.advantages(group, Constants(gamma=1.0, beta=1.0, baseline="turn"))
    # R_traj 1 and 0; one test of weight 1: R_turn [0, 1] and [0]; the second turn is its own baseline
    assert by_turn == [[pytest.approx(0.5), pytest.approx(0.5)], [pytest.approx(-0.5)]]
    over_all = verpo.advantages(group, Constants(gamma=1.0, beta=1.0, baseline="all"))
    assert over_all == [
        [pytest.approx(0.5 - 1 / 3), pytest.approx(0.5 + 2 / 3)],
        [pytest.approx(-0.5 - 1 / 3)],
    ]


def test_rare_tests_weigh_more():
    shares = [i / 10 for i in range(11)]
    for alpha in (0.5, 2.0):
        flat = [math.exp(-alpha * share) for share in shares]  # a wide density is the same everywhere
        weighed = verpo.weights(shares, Constants(alpha=alpha, bandwidth=1000.0, normalise=False))
        assert sorted(weighed, reverse=True) == weighed
        assert [w / weighed[0] for w in weighed] == pytest.approx([f / flat[0] for f in flat])
    crowded = verpo.weights([0.5, 0.5, 0.5, 0.1], Constants(alpha=0.0, bandwidth=0.05))
    assert crowded[3] > crowded[0]  # at equal rarity terms, the lonely share weighs more


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), CONSTANTS)
def test_weights_are_finite_positive_and_normalised(shares, constants):
    found = verpo.weights(shares, constants)
    assert all(weight >= 0 and math.isfinite(weight) for weight in found)
    if constants.normalise:
        assert sum(found) == pytest.approx(1.0)


@given(st.floats(0, 1), st.floats(0, 1), CONSTANTS)
def test_weights_are_monotone_in_rarity_at_equal_density(one, other, constants):
    # two tests have the same density by symmetry, so only rarity is left
    rare, common = sorted((one, other))
    weighed = verpo.weights([rare, common], constants)
    assert weighed[0] >= weighed[1] * (1 - 1e-9)


@given(OUTCOMES, CONSTANTS)
def test_advantages_of_first_turns_sum_to_zero(group, constants):
    first = [dialogue[:1] for dialogue in group]
    total = sum(turn[0] for turn in verpo.advantages(first, constants))
    assert total == pytest.approx(0.0, abs=1e-9)


@given(OUTCOMES, CONSTANTS)
def test_both_parts_are_centred_for_any_lengths(group, constants):
    found = verpo.advantages(group, constants)
    assert [len(turns) for turns in found] == [len(turns) for turns in group]
    sparse = verpo.advantages(group, Constants(beta=0.0, gamma=constants.gamma))
    assert sum(turns[0] for turns in sparse) == pytest.approx(0.0, abs=1e-9)
    assert all(len(set(turns)) == 1 for turns in sparse)
    dense = [
        value - base
        for turns, bases in zip(found, sparse, strict=True)
        for value, base in zip(turns, bases, strict=True)
    ]
    assert sum(dense) == pytest.approx(0.0, abs=1e-9)


WRONG = [
    ("alpha", -1), ("beta", -0.1), ("gamma", 0), ("gamma", 1.01), ("delta", 0), ("bandwidth", 0),
    ("baseline", "none"),
]  # fmt: skip


def test_wrong_values_are_named():
    for name, value in WRONG:
        with pytest.raises(ValueError, match=rf"verpo\.{name}="):
            Constants(**{name: value})
    with pytest.raises(ValueError, match="different numbers of tests"):
        verpo.advantages([[[True]], [[True, False]]], Constants())
    with pytest.raises(ValueError, match="no programs"):
        verpo.pass_shares([])
    with pytest.raises(ValueError, match="argument 2 is longer"):
        verpo.turn_reward([True], [1.0, 2.0])
    assert Constants(alpha=0, beta=0, gamma=1).gamma == 1  # borders that are in range


def test_densities_by_hand():
    height = 1 / math.sqrt(2 * math.pi)
    assert verpo.density([0.25], 0.5) == pytest.approx([2 * height])
    # Distances 0, 1 and 3 bandwidths; 2 and 3 from the last.
    near, far, farther = math.exp(-0.5), math.exp(-4.5), math.exp(-2)
    assert verpo.density([0.0, 0.1, 0.3], 0.1) == pytest.approx(
        [height * sums / 0.3 for sums in (1 + near + far, 1 + near + farther, 1 + far + farther)]
    )


def test_weights_that_vanish_stay_zero():
    assert verpo.weights([1.0, 1.0], Constants(alpha=1e6)) == [0.0, 0.0]
    assert verpo.trajectory_reward([], 0.5) == 0.0
