"""Advantages of stored groups: hand-computed values and properties."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobalt.rewards.groups import exponential, grpo, rloo

REWARDS = st.lists(st.floats(-1, 1), min_size=2, max_size=16)


def test_by_hand():
    assert rloo([1.0, 0.0, 0.0, 0.0]) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert grpo([1.0, 0.0, 0.0, 0.0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)  # deviation 1/2
    # A deviation of sqrt(2) e-6 beside the e-6 that verl adds to it.
    assert grpo([2e-6, 0.0]) == pytest.approx([math.sqrt(2) - 1, 1 - math.sqrt(2)], rel=1e-9)
    assert grpo([1.0, 0.0], normalise=False) == [0.5, -0.5]
    assert exponential([1.0, 0.0]) == pytest.approx([math.e, 1 / math.e])
    assert exponential([1.0, 0.0], temperature=0.5) == pytest.approx([math.exp(2), math.exp(-2)])
    assert exponential([1.0, 0.0], temperature=0.5, clip=5.0) == pytest.approx([5.0, math.exp(-2)])
    assert exponential([1.0, 0.0], temperature=1e-6)[0] == pytest.approx(math.exp(700))  # no overflow


@given(REWARDS)
def test_advantages_sum_to_zero_and_keep_the_order(rewards):
    for found in (rloo(rewards), grpo(rewards), grpo(rewards, normalise=False)):
        assert sum(found) == pytest.approx(0.0, abs=1e-6)
        for i, one in enumerate(rewards):
            for j, other in enumerate(rewards):
                assert one <= other or found[i] >= found[j] - 1e-12
    n = len(rewards)
    plain = grpo(rewards, normalise=False)
    assert rloo(rewards) == pytest.approx([value * n / (n - 1) for value in plain], abs=1e-9)


@given(REWARDS, st.floats(0.05, 10), st.one_of(st.none(), st.floats(0.1, 100)))
def test_exponential_weights_are_positive_bounded_and_monotone(rewards, temperature, clip):
    found = exponential(rewards, temperature=temperature, clip=clip)
    assert all(weight > 0 and math.isfinite(weight) for weight in found)
    assert clip is None or max(found) <= clip
    ranked = [weight for _, weight in sorted(zip(rewards, found, strict=True))]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(ranked))


@given(REWARDS)
@example([1.0, 0.0, 0.0])
def test_the_normalised_ones_have_deviation_one(rewards):
    if statistics.stdev(rewards) > 1e-3:
        assert statistics.stdev(grpo(rewards)) == pytest.approx(1.0, abs=2e-3)


def test_a_group_needs_two():
    for function in (rloo, grpo, exponential):
        with pytest.raises(ValueError, match="at least 2"):
            function([1.0])
    with pytest.raises(ValueError, match="temperature must be positive"):
        exponential([1.0, 0.0], temperature=0)
    with pytest.raises(ValueError, match="clip must be positive"):
        exponential([1.0, 0.0], clip=0.0)
