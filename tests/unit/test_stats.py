"""Estimates against brute force, scipy and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cobalt.stats import clustered_mean, paired_bootstrap, paired_permutation, pass_at_k, t_quantile


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(case):
    n, c, k = case
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


def test_pass_at_k_on_its_borders():
    assert math.isnan(pass_at_k(3, 3, 4))
    assert 0 < pass_at_k(2_000, 1, 1_000) < 1  # binomials beyond the range of floats
    for bad in [(3, 4, 1), (3, -1, 1), (3, 1, 0)]:
        with pytest.raises(ValueError, match="needs"):
            pass_at_k(*bad)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 299, 5000, 20_000])
def test_t_quantiles(freedom):
    for probability in (0.5, 0.9, 0.975, 0.9995, 0.9999):
        exact = scipy_stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(exact, abs=1e-6, rel=1e-7)
    for bad in [(0.99991, freedom), (0.49, freedom), (0.975, 0)]:
        with pytest.raises(ValueError, match=r"probability <= 0.9999"):
            t_quantile(*bad)


def test_single_samples_give_the_textbook_interval():
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    result = clustered_mean([[v] for v in values])
    lo, hi = scipy_stats.t.interval(0.95, 4, np.mean(values), scipy_stats.sem(values))
    assert tuple(result) == pytest.approx((np.mean(values), lo, hi, scipy_stats.sem(values)))
    assert clustered_mean([[1.0] * 9, [0.0]]).mean == 0.5  # every task weighs the same


def test_copies_of_a_cluster_add_no_certainty_and_one_has_no_interval():
    tasks = [[0.1], [0.4], [0.8]]
    copies = [t for t in tasks for _ in range(5)]
    once = clustered_mean(tasks)
    assert tuple(clustered_mean(copies, [c for c in "abc" for _ in range(5)])) == pytest.approx(tuple(once))
    assert clustered_mean(copies).se < once.se / 1.5
    for result in (clustered_mean([[0.0], [1.0]], ["a", "a"]), paired_bootstrap([0.5], [0.0])):
        assert result.mean == 0.5 and all(map(math.isnan, result[1:]))


def test_two_resamples_and_two_clusters_by_hand():
    found = paired_bootstrap([0.1, 0.5, 0.0, 1.0], [0.0] * 4, n=2)
    # The quantiles lie 0.95 of the way from one resample to the other, and se is that way over sqrt(2).
    assert found.lo < found.hi and found.se == pytest.approx((found.hi - found.lo) / 0.95 / math.sqrt(2))
    for found in (clustered_mean([[0.0], [1.0]]), clustered_mean([[0.0], [1.0], [1.0]], [7, 8, 8])):
        # One side's deviations sum to what the other's do, with the other sign: se^2 = 2 * 2 e^2 / N^2.
        se = 0.5 if found.mean == 0.5 else 2 * (2 / 3) / 3
        half = 12.706204736 * se  # one degree of freedom
        assert tuple(found) == pytest.approx((found.mean, found.mean - half, found.mean + half, se))
    drawn = paired_bootstrap([1.0, 1.0], [0.0, 1.0])  # both clusters twice, or one of each: 0, 0.5, 0.5, 1
    assert (drawn.mean, drawn.lo, drawn.hi) == (0.5, 0.0, 1.0)
    assert drawn.se == pytest.approx(math.sqrt(1 / 8), rel=0.05)


@pytest.mark.parametrize("function", [paired_bootstrap, paired_permutation])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([math.nan, 0.0], [1.0, 2.0]), "^a holds values that are not finite"),
        (([0.0, 0.0], [1.0, math.inf]), "^b holds values that are not finite"),
        (([], []), "^a must hold one value per task and at least one task"),
        (([[1.0], [0.0]], [[1.0], [0.0]]), "must hold one value per task"),
        (([1.0], [1.0, 2.0]), "^a and b must be paired by task, got 1 and 2 values"),
        (([1.0, 0.0], [1.0, 2.0], ["a"]), "^2 tasks but 1 cluster labels"),
    ],
)
def test_what_cannot_be_paired(function, given, says):
    with pytest.raises(ValueError, match=says):
        function(*given)


def test_bootstrap_is_seeded_paired_and_agrees_with_the_t_interval_on_many_tasks():
    rng = np.random.default_rng(1)
    a, b = rng.random(400), rng.random(400)
    assert tuple(paired_bootstrap(a + 0.1, a)) == pytest.approx((0.1, 0.1, 0.1, 0.0), abs=1e-9)
    assert paired_bootstrap(a, b) == paired_bootstrap(a, b, None, n=2000, seed=0)
    assert paired_bootstrap(a, b, seed=3) != paired_bootstrap(a, b, seed=4)
    assert paired_permutation(a, b) == paired_permutation(a, b, None, n=20_000, seed=0)
    exact = clustered_mean([[d] for d in a - b])
    assert tuple(paired_bootstrap(a, b, n=4000)) == pytest.approx(tuple(exact), abs=0.004)


def _coverage(runs):
    """Of 95 % intervals, by simulated benchmarks of 100 tasks x 8 samples. Tasks differ in difficulty, and
    tasks of one group are alike too; the truth is the mean over all there could be.
    """
    rng = np.random.default_rng(0)
    tasks, samples, groups = 100, 8, 40
    covered = {"task": 0, "group": 0, "paired": 0, "naive": 0}
    for seed in range(runs):
        # Independent tasks: a Beta(0.6, 0.9) chance of being right, mean 0.4.
        chances = rng.beta(0.6, 0.9, tasks)
        right = rng.random((tasks, samples)) < chances[:, None]
        found = clustered_mean(right.astype(int).tolist())
        covered["task"] += found.lo <= 0.4 <= found.hi
        half = 1.96 * math.sqrt(0.25 / right.size)
        covered["naive"] += abs(right.mean() - 0.4) <= half
        # A second model on the same tasks, with a chance 0.1 (1 - chance) higher: true difference 0.06.
        better = rng.random((tasks, samples)) < (chances + 0.1 * (1 - chances))[:, None]
        gain = paired_bootstrap(better.mean(axis=1), right.mean(axis=1), n=300, seed=seed)
        covered["paired"] += gain.lo <= 0.06 <= gain.hi
        # Tasks of a group share most of their difficulty.
        label = np.arange(tasks) % groups
        shared = 0.7 * rng.beta(0.6, 0.9, groups)[label] + 0.3 * rng.beta(0.6, 0.9, tasks)
        alike = rng.random((tasks, samples)) < shared[:, None]
        grouped = clustered_mean(alike.astype(int).tolist(), label.tolist())
        covered["group"] += grouped.lo <= 0.4 <= grouped.hi
    return {name: count / runs for name, count in covered.items()}


@pytest.mark.parametrize(
    ("runs", "lo", "hi"), [(300, 0.91, 0.98), pytest.param(2000, 0.93, 0.97, marks=pytest.mark.full)]
)
def test_intervals_cover_the_truth_and_naive_ones_do_not(runs, lo, hi):
    shares = _coverage(runs)
    assert all(lo <= shares[name] <= hi for name in ("task", "group", "paired")), shares
    assert shares["naive"] < 0.8
