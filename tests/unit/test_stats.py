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
    assert pass_at_k(16, 4, 1) == 0.25
    assert 0 < pass_at_k(2_000, 1, 1_000) < 1  # binomials beyond the range of floats
    for bad in [(3, 4, 1), (3, -1, 1), (3, 1, 0)]:
        with pytest.raises(ValueError, match="needs"):
            pass_at_k(*bad)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 299, 5000, 20_000])
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.975, 0.9995])
def test_t_quantiles(freedom, probability):
    assert t_quantile(probability, freedom) == pytest.approx(
        scipy_stats.t.ppf(probability, freedom), abs=1e-6
    )


def test_t_quantiles_have_bounds():
    assert t_quantile(0.9999, 5) == pytest.approx(scipy_stats.t.ppf(0.9999, 5), abs=1e-6)
    for probability, freedom in [(0.99991, 5), (0.49, 5), (0.975, 0)]:
        with pytest.raises(ValueError, match=rf"probability <= 0.9999 .* got {probability}, {freedom}"):
            t_quantile(probability, freedom)


def test_single_samples_give_the_textbook_interval():
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    result = clustered_mean([[v] for v in values])
    lo, hi = scipy_stats.t.interval(0.95, 4, np.mean(values), scipy_stats.sem(values))
    assert tuple(result) == pytest.approx((np.mean(values), lo, hi, scipy_stats.sem(values)))


def test_every_task_weighs_the_same():
    assert clustered_mean([[1.0] * 9, [0.0]]).mean == 0.5


def test_copies_of_a_cluster_add_no_certainty():
    tasks = [[0.1], [0.4], [0.8]]
    once = clustered_mean(tasks)
    five = clustered_mean([t for t in tasks for _ in range(5)], [c for c in "abc" for _ in range(5)])
    assert tuple(five) == pytest.approx(tuple(once))
    assert clustered_mean([t for t in tasks for _ in range(5)]).se < once.se / 1.5


def test_one_cluster_has_no_interval():
    result = clustered_mean([[0.0], [1.0]], ["a", "a"])
    assert result.mean == 0.5 and all(map(math.isnan, result[1:]))
    result = paired_bootstrap([1.0], [0.0])
    assert result.mean == 1.0 and all(map(math.isnan, result[1:]))


def test_two_resamples_by_hand():
    found = paired_bootstrap([0.1, 0.5, 0.0, 1.0], [0.0] * 4, n=2)
    # The quantiles lie 0.95 of the way from one resample to the other, and se is that way over sqrt(2).
    assert found.lo < found.hi and found.se == pytest.approx((found.hi - found.lo) / 0.95 / math.sqrt(2))


def test_two_clusters_have_one_degree_of_freedom():
    for found in (clustered_mean([[0.0], [1.0]]), clustered_mean([[0.0], [1.0], [1.0]], [7, 8, 8])):
        # One side's deviations sum to what the other's do, with the other sign: se^2 = 2 * 2 e^2 / N^2.
        se = 0.5 if found.mean == 0.5 else 2 * (2 / 3) / 3
        assert tuple(found) == pytest.approx(
            (found.mean, found.mean - 12.706204736 * se, found.mean + 12.706204736 * se, se)
        )
    drawn = paired_bootstrap([1.0, 1.0], [0.0, 1.0])
    # Both clusters twice, or one of each: 0, 0.5, 0.5, 1.
    assert (drawn.mean, drawn.lo, drawn.hi) == (0.5, 0.0, 1.0)
    assert drawn.se == pytest.approx(math.sqrt(1 / 8), rel=0.05)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([], "^values_by_task must hold one value per task"),
        ([[]], "^task 0 has no values$"),
        ([[1.0], []], "^task 1 has no values$"),
        ([[math.nan]], "^values_by_task holds values that are not finite$"),
        ([[math.inf]], "^values_by_task holds values that are not finite$"),
    ],
)
def test_what_has_no_mean(bad, says):
    with pytest.raises(ValueError, match=says):
        clustered_mean(bad)


@pytest.mark.parametrize("function", [paired_bootstrap, paired_permutation])
def test_what_cannot_be_paired(function):
    with pytest.raises(ValueError, match=r"^a holds values that are not finite$"):
        function([math.nan, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"^b holds values that are not finite$"):
        function([0.0, 0.0], [1.0, math.inf])
    with pytest.raises(ValueError, match=r"^a must hold one value per task and at least one task$"):
        function([], [])
    with pytest.raises(ValueError, match="must hold one value per task"):
        function([[1.0], [0.0]], [[1.0], [0.0]])
    with pytest.raises(ValueError, match=r"^a and b must be paired by task, got 1 and 2 values$"):
        function([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"^2 tasks but 1 cluster labels$"):
        function([1.0, 0.0], [1.0, 2.0], ["a"])


def test_defaults_are_those_documented():
    rng = np.random.default_rng(2)
    a, b = rng.random(20), rng.random(20)
    assert paired_bootstrap(a, b) == paired_bootstrap(a, b, None, n=2000, seed=0)
    assert paired_permutation(a, b) == paired_permutation(a, b, None, n=20_000, seed=0)


def test_bootstrap_is_seeded_and_paired():
    rng = np.random.default_rng(1)
    base = rng.random(60)
    first = paired_bootstrap(base + 0.1, base)
    assert tuple(first) == pytest.approx((0.1, 0.1, 0.1, 0.0), abs=1e-9)  # pairing removes task difficulty
    other = rng.random(60)
    assert paired_bootstrap(base, other, seed=3) == paired_bootstrap(base, other, seed=3)
    assert paired_bootstrap(base, other, seed=3) != paired_bootstrap(base, other, seed=4)


def test_bootstrap_agrees_with_the_t_interval_on_many_tasks():
    rng = np.random.default_rng(0)
    a, b = rng.random(400), rng.random(400)
    boot = paired_bootstrap(a, b, n=4000)
    exact = clustered_mean([[d] for d in a - b])
    assert tuple(boot) == pytest.approx(tuple(exact), abs=0.004)


def _simulate(rng, clusters, size):
    """Values whose cluster share is large, true mean 0, and their labels."""
    sizes = rng.integers(1, 2 * size, clusters)
    labels = np.repeat(np.arange(clusters), sizes)
    values = rng.normal(size=clusters)[labels] + 0.3 * rng.normal(size=len(labels))
    return values, labels.tolist()


def test_clustered_intervals_cover_the_truth_and_naive_ones_do_not():
    rng = np.random.default_rng(0)
    covered = np.zeros(3)
    runs = 300
    for seed in range(runs):
        values, labels = _simulate(rng, clusters=40, size=5)
        intervals = (
            paired_bootstrap(values, np.zeros(len(values)), labels, n=400, seed=seed),
            clustered_mean([[v] for v in values], labels),
            clustered_mean([[v] for v in values]),
        )
        covered += [i.lo <= 0 <= i.hi for i in intervals]
    bootstrap, robust, naive = covered / runs
    assert 0.88 <= bootstrap <= 0.99
    assert 0.88 <= robust <= 0.99
    assert naive < 0.75


def test_intervals_cover_the_truth_in_93_to_97_percent_of_simulated_benchmarks():
    """2,000 benchmarks of 100 tasks x 8 samples. Tasks differ in difficulty (samples of one are alike), and
    tasks of one group are alike too; the truth is the mean over all tasks there could be.
    """
    rng = np.random.default_rng(0)
    runs, tasks, samples, groups = 2000, 100, 8, 40
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
    shares = {name: count / runs for name, count in covered.items()}
    print(shares)
    assert all(0.93 <= shares[name] <= 0.97 for name in ("task", "group", "paired")), shares
    assert shares["naive"] < 0.8
