"""Advantages of stored groups, and dense rewards per test: by hand, and what holds for any group."""

import itertools
import math
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobalt.recipes import verpo
from cobalt.rewards.groups import exponential, grpo, rloo
from cobalt.rewards.records import Rollout, Turn

REWARDS = st.lists(st.floats(-1, 1), min_size=2, max_size=16)


def test_groups_by_hand():
    assert rloo([1.0, 0.0, 0.0, 0.0]) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert grpo([1.0, 0.0, 0.0, 0.0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)  # deviation 1/2
    # A deviation of sqrt(2) e-6 beside the e-6 that verl adds to it.
    assert grpo([2e-6, 0.0]) == pytest.approx([math.sqrt(2) - 1, 1 - math.sqrt(2)], rel=1e-9)
    assert grpo([1.0, 0.0], normalise=False) == [0.5, -0.5]
    assert exponential([1.0, 0.0]) == pytest.approx([math.e, 1 / math.e])
    assert exponential([1.0, 0.0], temperature=0.5, clip=5.0) == pytest.approx([5.0, math.exp(-2)])
    assert exponential([1.0, 0.0], temperature=1e-6)[0] == pytest.approx(math.exp(700))  # no overflow
    for function in (rloo, grpo, exponential):
        with pytest.raises(ValueError, match="at least 2"):
            function([1.0])
    for name in ("temperature", "clip"):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            exponential([1.0, 0.0], **{name: 0})


@given(REWARDS, st.floats(0.05, 10), st.one_of(st.none(), st.floats(0.1, 100)))
@example([1.0, 0.0, 0.0], 1.0, None)
def test_groups_are_centred_and_keep_the_order(rewards, temperature, clip):
    for found in (rloo(rewards), grpo(rewards), grpo(rewards, normalise=False)):
        assert sum(found) == pytest.approx(0.0, abs=1e-6)
        for (one, a), (other, b) in itertools.permutations(zip(rewards, found, strict=True), 2):
            assert one <= other or a >= b - 1e-12
    n = len(rewards)
    plain = grpo(rewards, normalise=False)
    assert rloo(rewards) == pytest.approx([value * n / (n - 1) for value in plain], abs=1e-9)
    if statistics.stdev(rewards) > 1e-3:
        assert statistics.stdev(grpo(rewards)) == pytest.approx(1.0, abs=2e-3)
    weights = exponential(rewards, temperature=temperature, clip=clip)
    assert all(0 < weight < math.inf for weight in weights) and (clip is None or max(weights) <= clip)
    ranked = [weight for _, weight in sorted(zip(rewards, weights, strict=True))]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(ranked))


# --- VeRPO

OUTCOMES = st.integers(1, 5).flatmap(
    lambda tests: st.lists(
        st.lists(st.lists(st.booleans(), min_size=tests, max_size=tests), min_size=1, max_size=3),
        min_size=2, max_size=5,
    )
)  # fmt: skip
CONSTANTS = st.builds(
    dict,
    alpha=st.floats(0, 5), beta=st.floats(0, 2), gamma=st.floats(0.1, 1), delta=st.floats(1e-3, 1),
    bandwidth=st.floats(0.05, 1), normalise=st.booleans(), baseline=st.sampled_from(["turn", "all"]),
)  # fmt: skip


WEIGHTS = {"alpha": 2.0, "delta": 1e-3, "bandwidth": 0.1, "normalise": True}


def advantages(group, **constants):
    """Of [dialogues][turns][tests]."""
    made = [tuple(Turn(None, tuple(passing), 0, 1, 0) for passing in turns) for turns in group]
    return verpo.advantage([Rollout(0.0, turns) for turns in made], **constants)


def test_by_hand():
    # two dialogues of one turn, two tests: the first is passed by both, the second by one
    group = [[[True, True]], [[True, False]]]
    constants = {"alpha": 2.0, "delta": 0.5, "bandwidth": 1.0, "normalise": False}
    # the density at both shares: (1 + exp(-1/8)) / (2 sqrt(2 pi))
    around = (1 + math.exp(-0.125)) / (2 * math.sqrt(2 * math.pi))
    first, second = math.exp(-2.0) / (around + 0.5), math.exp(-1.0) / (around + 0.5)
    assert verpo.weights([1.0, 0.5], **constants) == pytest.approx([first, second])
    # R_turn: first + second, and first; R_traj: 0.9 and 0
    expected = 0.9 - 0.45 + 0.5 * (second / 2)
    found = advantages(group, beta=0.5, gamma=0.9, **constants)
    assert found == [[pytest.approx(expected)], [pytest.approx(-expected)]]
    height = 1 / math.sqrt(2 * math.pi)
    assert verpo.density([0.25], 0.5) == pytest.approx([2 * height])
    # Distances 0, 1 and 3 bandwidths; 2 and 3 from the last.
    near, far, farther = math.exp(-0.5), math.exp(-4.5), math.exp(-2)
    assert verpo.density([0.0, 0.1, 0.3], 0.1) == pytest.approx(
        [height * sums / 0.3 for sums in (1 + near + far, 1 + near + farther, 1 + far + farther)]
    )


def test_turns_count_and_are_discounted():
    # the last program decides: 0.5 ** 2, and nothing; their mean is 1/8
    two = advantages([[[False], [True]], [[True], [False]]], gamma=0.5, beta=0.0)
    assert two == [[pytest.approx(0.125)] * 2, [pytest.approx(-0.125)] * 2]
    group = [[[False], [True]], [[False]]]
    by_turn = advantages(group, gamma=1.0, beta=1.0, baseline="turn")
    # R_traj 1 and 0; one test of weight 1: R_turn [0, 1] and [0]; the second turn is its own baseline
    assert by_turn == [[pytest.approx(0.5), pytest.approx(0.5)], [pytest.approx(-0.5)]]
    over_all = advantages(group, gamma=1.0, beta=1.0, baseline="all")
    assert over_all[0] == pytest.approx([0.5 - 1 / 3, 0.5 + 2 / 3]) and over_all[1] == [pytest.approx(-5 / 6)]


def test_rare_tests_weigh_more():
    shares = [i / 10 for i in range(11)]
    flat = [math.exp(-2 * share) for share in shares]  # a wide density is the same everywhere
    weighed = verpo.weights(shares, **{**WEIGHTS, "bandwidth": 1000.0, "normalise": False})
    assert [w / weighed[0] for w in weighed] == pytest.approx([f / flat[0] for f in flat])
    crowded = verpo.weights([0.5, 0.5, 0.5, 0.1], **{**WEIGHTS, "alpha": 0.0, "bandwidth": 0.05})
    assert crowded[3] > crowded[0]  # at equal rarity terms, the lonely share weighs more
    assert verpo.weights([1.0, 1.0], **{**WEIGHTS, "alpha": 1e6}) == [0.0, 0.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), CONSTANTS)
def test_weights_are_finite_positive_normalised_and_monotone_at_equal_density(shares, constants):
    constants = {name: constants[name] for name in WEIGHTS}
    found = verpo.weights(shares, **constants)
    assert all(weight >= 0 and math.isfinite(weight) for weight in found)
    if constants["normalise"]:
        assert sum(found) == pytest.approx(1.0)
    # two tests have the same density by symmetry, so only rarity is left
    weighed = verpo.weights([min(shares), max(shares)], **constants)
    assert weighed[0] >= weighed[1] * (1 - 1e-9)


@given(OUTCOMES, CONSTANTS)
def test_both_parts_are_centred_for_any_lengths(group, constants):
    found = advantages(group, **constants)
    assert [len(turns) for turns in found] == [len(turns) for turns in group]
    sparse = advantages(group, beta=0.0, gamma=constants["gamma"])
    assert sum(turns[0] for turns in sparse) == pytest.approx(0.0, abs=1e-9)
    assert all(len(set(turns)) == 1 for turns in sparse)
    assert sum(sum(turns) for turns in found) - sum(sum(turns) for turns in sparse) == pytest.approx(
        0, abs=1e-9
    )
    first = advantages([dialogue[:1] for dialogue in group], **constants)
    assert sum(turn[0] for turn in first) == pytest.approx(0.0, abs=1e-9)


def test_wrong_values_are_named():
    wrong = {
        "alpha": [-1],
        "beta": [-0.1],
        "gamma": [0, 1.01],
        "delta": [0],
        "bandwidth": [0],
        "baseline": [""],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"verpo\.{name}="):
                advantages([[[True]], [[False]]], **{name: value})
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        advantages([[[True, False]], [[True]]])
    with pytest.raises(ValueError, match="every_turn=true"):
        advantages([[[True]], [[]]])
    assert advantages([[[True]]], alpha=0, beta=0, gamma=1) == [[0.0]]  # borders that are in range
