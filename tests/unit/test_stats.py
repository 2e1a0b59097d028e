"""Estimates against brute force, scipy and simulation."""

import itertools
import math
import runpy
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cobalt.stats import (
    MIN_CLUSTERS,
    RESAMPLES,
    SEED,
    clustered_mean,
    crossed_mean,
    crossed_rate,
    difference,
    paired_bootstrap,
    paired_permutation,
    pass_at_k,
    t_quantile,
)


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


@pytest.mark.parametrize("right, tasks", [(0, 10), (3, 12), (30, 40), (299, 300), (300, 300)])
def test_the_interval_of_single_completions_is_that_of_clopper_and_pearson(right, tasks):
    found = clustered_mean([[1.0]] * right + [[0.0]] * (tasks - right))
    lo = scipy_stats.beta.ppf(0.025, right, tasks - right + 1) if right else 0
    hi = scipy_stats.beta.ppf(0.975, right + 1, tasks - right) if right < tasks else 1
    assert (found.mean, found.lo, found.hi) == pytest.approx((right / tasks, lo, hi), abs=0.01)
    assert math.isnan(found.se) if right in (0, tasks) else found.se == pytest.approx(
        math.sqrt(found.mean * (1 - found.mean) / (tasks - 1))
    )  # fmt: skip


def test_copies_of_a_cluster_add_no_certainty_and_every_task_weighs_the_same():
    tasks = [[x / 11] for x in range(12)]
    copies, labels = [t for t in tasks for _ in range(5)], [c for c in range(12) for _ in range(5)]
    once = clustered_mean(tasks)
    assert tuple(clustered_mean(copies, labels)) == pytest.approx(tuple(once), abs=1e-9)
    assert clustered_mean(copies).se < once.se / 2
    assert clustered_mean([[1.0] * 9, [0.0]] * 5).mean == 0.5


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(*(st.lists(st.sampled_from([0, 0.25, 1 / 3, 1]), min_size=n, max_size=n),) * 2)
    )
)
def test_bounds_are_possible_values_around_the_mean_and_never_one_point(both):
    a, b = both
    for low, found in ((0, clustered_mean([[x] for x in a])), (-1, paired_bootstrap(a, b))):
        if len(a) < MIN_CLUSTERS:
            assert all(map(math.isnan, found[1:])) and math.isnan(paired_permutation(a, b))
        else:
            assert low <= found.lo <= found.mean <= found.hi <= 1 and found.hi - found.lo > 0.02
            assert math.isnan(found.se) or found.se > 0.001
    mirror, mixed = paired_bootstrap(b, a), paired_bootstrap(a[::-1], b[::-1])
    if len(a) >= MIN_CLUSTERS:
        assert tuple(mirror)[:3] == pytest.approx((-found.mean, -found.hi, -found.lo), abs=0.02)
        assert tuple(mixed)[:3] == pytest.approx(tuple(found)[:3], abs=1e-12)


@pytest.mark.parametrize("function", [paired_bootstrap, paired_permutation])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([math.nan, 0.0], [1.0, 0.0]), r"^a holds values outside \[0, 1\]"),
        (([0.0, 0.0], [1.0, -0.1]), r"^b holds values outside \[0, 1\]"),
        (([], []), "^a must hold one value per task and at least one task"),
        (([[1.0], [0.0]], [[1.0], [0.0]]), "must hold one value per task"),
        (([1.0], [1.0, 0.0]), "^a and b must be paired by task, got 1 and 2 values"),
        (([1.0, 0.0], [1.0, 0.5], ["a"]), "^2 tasks but 1 cluster labels"),
    ],
)
def test_what_cannot_be_paired(function, given, says):
    with pytest.raises(ValueError, match=says):
        function(*given)


def test_bootstrap_is_seeded_paired_and_agrees_with_the_t_interval_on_many_tasks():
    rng = np.random.default_rng(1)
    a, b = rng.random(400), rng.random(400)
    assert paired_bootstrap(a, b) == paired_bootstrap(a, b, None, n=RESAMPLES, seed=SEED)
    assert paired_bootstrap(a, b, seed=3) != paired_bootstrap(a, b, seed=4)
    assert paired_bootstrap(a, b, n=300) != paired_bootstrap(a, b, n=400)
    assert paired_permutation(a, b) == paired_permutation(a, b, None, n=20_000, seed=SEED)
    exact = scipy_stats.t.interval(0.95, 399, np.mean(a - b), scipy_stats.sem(a - b))
    found = paired_bootstrap(a, b)
    assert (found.mean, found.lo, found.hi) == pytest.approx((np.mean(a - b), *exact), abs=0.004)
    assert found.se == pytest.approx(scipy_stats.sem(a - b))
    alike = paired_bootstrap(b / 2 + 0.1, b / 2)  # the same difference everywhere: not known how it varies
    assert alike.lo < 0.1 < alike.hi and math.isnan(alike.se)


BENCH = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "intervals.py"))
KINDS = {each.name: each for each in BENCH["scenarios"]()}


@pytest.mark.parametrize(
    "name",
    [
        *("rate 0.02, 8 a task", "rate 0.1, 8 a task, groups", "rate 0.98, 1 a task"),
        *("difference 0.1 of 0.02, 8 a task", "difference 0.4 of 0.5, 1 a task"),
    ],
)
def test_intervals_hold_the_truth(name):
    for tasks in (MIN_CLUSTERS, 50):
        held, _, width = BENCH["simulate"](KINDS[name], tasks, 200, 0)
        assert held >= 0.92 and width < 200 / tasks**0.5 / 50
        assert (
            tasks > 10 or "difference" in name or BENCH["simulate"](KINDS[name], tasks, 200, 0, "t")[0] < held
        )


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_interval_holds_the_truth(name):
    shares = [BENCH["simulate"](KINDS[name], tasks, 1000, 1)[0] for tasks in (3, 5, 10, 20, 50, 100)]
    assert min(shares) >= 0.92 and fmean(shares) >= 0.945, shares


def test_an_interval_over_trainings_and_tasks_by_hand():
    rates = [[1.0] * 6 + [0.0] * 6, [1.0] * 9 + [0.0] * 3]
    found, by_task = crossed_mean(rates), clustered_mean([[1.0]] * 6 + [[0.5]] * 3 + [[0.0]] * 3)
    half = scipy_stats.t.ppf(0.975, 1) * 0.125  # means 0.5 and 0.75: error of their mean 0.125
    assert found.mean == 0.625 == by_task.mean
    assert found.lo == max(0.0, 0.625 - math.hypot(0.625 - by_task.lo, half)) == 0.0
    assert found.hi == 1.0 < 0.625 + half
    alike = crossed_mean([rates[0]] * 3, [[0.0] * 12])  # trainings do not differ: tasks alone
    assert tuple(alike) == pytest.approx(tuple(paired_bootstrap(rates[0], [0.0] * 12)))
    mirrored = crossed_mean([[0.0] * 12], [rates[0]] * 1)
    assert mirrored.mean == -0.5 and math.isnan(mirrored.lo)  # one training
    assert math.isnan(crossed_mean([[1.0] * 5, [0.0] * 5]).hi)  # too few tasks
    with pytest.raises(ValueError, match="same tasks and trainings"):
        crossed_mean(rates, [[0.0] * 11])


def test_a_rate_of_chances_over_trainings_and_tasks_by_hand():
    made = [{str(task): (2, 1 + (task < 6)) for task in range(12)}, {str(task): (1, 0) for task in range(12)}]
    found = crossed_rate(made)
    chances = [value for task in range(12) for value in [1.0] * (1 + (task < 6)) + [0.0] * (2 - (task < 6))]
    by_task = clustered_mean([[value] for value in chances], [task for task in range(12) for _ in range(3)])
    half = scipy_stats.t.ppf(0.975, 1) * (0.75 / 2)  # shares 18 of 24 and 0 of 12
    assert found.mean == 0.5 == by_task.mean
    assert found.lo == max(0.0, 0.5 - math.hypot(0.5 - by_task.lo, half))
    assert found.hi == min(1.0, 0.5 + math.hypot(by_task.hi - 0.5, half))
    assert crossed_rate(made[:1]).lo > 0.5 and crossed_rate([{}, {"a": (0, 0)}]) is None
    assert math.isnan(crossed_rate([{"a": (3, 1)}, {"a": (3, 1)}]).lo)  # one task
    with pytest.raises(ValueError, match="task 'a': 2 of 1"):
        crossed_rate([{"a": (1, 2)}])


def test_intervals_of_rates_of_chances_and_of_their_differences_hold_the_truth():
    """Five trainings whose rates vary, forty tasks whose rates and numbers of chances do."""
    rng, held, told = np.random.default_rng(3), [0, 0], 150
    truth = 0.2, 0.08
    for _ in range(told):
        pair = []
        for which, mean in enumerate(truth):
            tasks = rng.beta(2, 2 / mean - 2, 40)
            trainings = rng.uniform(0.6, 1.4, 5)
            counts = rng.integers(0, 3, (5, 40)) * 2
            taken = rng.binomial(counts, np.clip(trainings[:, None] * tasks, 0, 1))
            one = [{str(i): (int(n), int(k)) for i, (n, k) in enumerate(zip(*row, strict=True))}
                   for row in zip(counts, taken, strict=True)]  # fmt: skip
            pair.append(crossed_rate(one))
            held[0] += which == 0 and pair[0].lo <= mean <= pair[0].hi
        apart = difference(*pair)
        assert apart.mean == pair[0].mean - pair[1].mean
        held[1] += apart.lo <= truth[0] - truth[1] <= apart.hi
    assert min(held) >= 0.93 * told, held
