"""Which trajectories are kept."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.contexts.select import (
    SELECTIONS,
    all_solved,
    candidate_indices,
    combined_rate,
    max_variance_subset,
    select,
)
from cobalt.errors import InputError

RATE = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0])
TRAJECTORIES = st.lists(st.lists(RATE, min_size=3, max_size=3), min_size=1, max_size=16)


def gains(*spreads):
    """Trajectories that end at 1.0 and have the spreads given."""
    return [[1.0 - d, 1.0 - d, 1.0] for d in spreads]


@given(st.integers(1, 60), st.data())
def test_combined_rate_weighs_by_the_number_of_tests(n_tests, data):
    n_public = data.draw(st.integers(1, n_tests))
    hidden = data.draw(st.integers(0, n_tests - n_public)) / max(1, n_tests - n_public)
    public = data.draw(st.integers(0, n_public)) / n_public
    rate = combined_rate(hidden, public, n_public=n_public, n_tests=n_tests)
    assert (rate == 1.0) == (public == 1.0 and (hidden == 1.0 or n_public == n_tests))
    array = (np.array([hidden]) * (n_tests - n_public) + np.array([public]) * n_public) / n_tests
    assert rate == array[0]  # to the last bit


def test_skip_rule_and_candidates():
    assert all_solved([{"passing": [True, True]}, {"passing": [True]}])
    assert not all_solved([{"passing": [True, True]}, {"passing": [True, False]}])
    rates = [[0.0, 0.5, 1.0], [1.0, 0.5, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.9, 0.5], None]
    assert candidate_indices(rates) == [0, 1]
    assert candidate_indices(rates, validation=True) == [0, 1, 4]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.9, 1, 0.5], [0, 1, 3, 4]),  # published example
        ([], []),
        ([0.9, 0.1, 0.5, 0.2], [0, 1, 2, 3]),  # no more than four: in the given order
        ([0.5] * 6, [0, 1, 2, 3]),
        ([0.25, 0.25, 0.25, 0.25, 1.0], [0, 1, 2, 4]),  # k=1, 2 and 3 tie: the first wins
        ([1.0, 0.25, 1.0, 0.25, 1.0, 0.25], [1, 3, 2, 4]),
        ([1.0, 0.0, 0.9, 0.9, 0.9, 0.9], [1, 2, 3, 0]),  # the same values for k=1, 2 and 3
    ],
)
def test_max_variance_subset(values, expected):
    assert max_variance_subset(values, 4) == expected


@given(st.lists(st.floats(0.01, 1), min_size=5, max_size=9))
def test_subset_has_the_largest_variance_of_all(values):
    chosen = max_variance_subset(values, 4)
    assert len(set(chosen)) == 4
    best = max(float(np.var(subset)) for subset in itertools.combinations(values, 4))
    assert np.var([values[i] for i in chosen]) == pytest.approx(best, abs=1e-12)


def test_validation_keeps_the_smallest_change_and_training_at_most_four():
    assert select([[0.0, 1.0], [0.2, 0.5], [0.5, 0.2], [0.4, 0.4]], validation=True) == [1]
    assert select([[1.0, 0.75], [0.25, 0.0], [0.5, 0.5]], validation=True) == [0]  # tie: the first
    assert select([[0.5, 0.5]], validation=True) == []
    assert select(gains(0.1, 0.2, *([0.5] * 16), 0.9, 1.0)) == [0, 1, 18, 19]


def test_rules_of_ablations():
    rates = [[0.5, 0.5], *gains(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), [0.0, 0.5]]
    assert select(rates, selection="all") == candidate_indices(rates) == [1, 2, 3, 4, 5, 6]
    assert select(rates, selection="none") == []
    drawn = [select(rates, selection="random", draw=random.Random(seed)) for seed in range(200)]
    assert drawn[3] == select(rates, selection="random", draw=random.Random(3))
    assert all(len(set(kept)) == 4 and kept == sorted(kept) for kept in drawn)
    counts = [sum(i in kept for kept in drawn) for i in range(len(rates))]
    assert counts[0] == counts[7] == 0  # no candidates
    assert all(133 - 30 < count < 133 + 30 for count in counts[1:7])  # two of three draws: 4.5 deviations
    for selection in SELECTIONS:  # the rule for validation is one
        assert select(rates, validation=True, selection=selection, draw=random.Random(0)) == [1]
    with pytest.raises(InputError, match=r"max_variance, random, all, none, got 'best'"):
        select([[0.5, 1.0]], selection="best")
    with pytest.raises(InputError, match="needs draw"):
        select([[0.5, 1.0]], selection="random")
