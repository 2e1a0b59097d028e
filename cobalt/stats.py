"""Pass@k, intervals and tests that respect clustering (samples within a task, tasks within a structure)."""

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.95
RESAMPLES, SEED = 10_000, 0  # of every interval, so that a figure has one wherever it is shown
# With fewer tasks (or groups of tasks, where these are the units) nothing is said. Intervals would hold the
# truth, but tell nothing: with 5 tasks they span over half of what is possible, and the p value of the
# sign-flip test cannot fall below 6 %. At 10 they span a third (docs/statistics.md).
MIN_CLUSTERS = 10
_EXACT_CLUSTERS = 16
_BLOCK = 1_000_000  # weights held at a time
_NO_SPREAD = 1e-12  # an error of rounding, where all values are alike


class Interval(NamedTuple):
    """An estimate with its 95 % interval and standard error, all in the unit of the values given.

    Interval and error are nan for fewer than MIN_CLUSTERS clusters, the error also where all are alike.
    """

    mean: float
    lo: float
    hi: float
    se: float


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples drawn without replacement from n, c of them right, is right.

    The unbiased estimator 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374), in [0, 1]; nan for n < k.
    Raises ValueError unless 0 <= c <= n and k >= 1.
    """
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"needs k >= 1 and 0 <= c <= n, got n={n}, c={c}, k={k}")
    if n < k:
        return math.nan
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def clustered_mean(
    values_by_task: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None
) -> Interval:
    """Mean over tasks of each task's mean, of values in [0, 1], with an interval inside [0, 1].

    `clusters` names the cluster of each task (default: every task is its own), as in `paired_bootstrap`.
    Raises ValueError for no task, an empty task or values outside [0, 1].
    """
    for index, values in enumerate(values_by_task):
        if len(values) == 0:
            raise ValueError(f"task {index} has no values")
    means = _rates([sum(values) / len(values) for values in values_by_task], "values_by_task")
    return _bounded(means, clusters, 0, RESAMPLES, SEED)


def paired_bootstrap(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    n: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Mean of a - b (one rate in [0, 1] per task in each) with an interval inside [-1, 1].

    Whole clusters are weighted, so tasks of one cluster stay together. Deterministic for a seed, whatever
    the order of the tasks; that of b - a is its mirror image. Interval and se are nan for fewer than
    MIN_CLUSTERS clusters, se also where all differ by the same. Raises ValueError for unequal lengths, no
    task or values outside [0, 1].
    """
    if len(a) != len(b):
        raise ValueError(f"a and b must be paired by task, got {len(a)} and {len(b)} values")
    return _bounded(_rates(a, "a") - _rates(b, "b"), clusters, -1, n, seed)


def crossed_mean(
    rates: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
    """Mean over trainings and tasks of rates in [0, 1], [trainings][tasks], the same tasks in each; with
    `others` of their differences, one row of it for every training, or one for all. `clusters` names the
    cluster of each task, as in `paired_bootstrap`.

    The interval holds for other trainings and other tasks. Its distance from the mean is, on each side, the
    root of the sum of squares of two: over tasks, whose values are means over trainings, that of
    `clustered_mean` or `paired_bootstrap`; over trainings, whose values are means over tasks, Student's (the
    distances are combined as Zou and Donner do, 2008). Chance within a training and task is in both, so the
    interval is rather too wide. Bounds are possible values. Interval and error are nan for fewer than two
    trainings or MIN_CLUSTERS tasks. Raises ValueError for other shapes or values.
    """
    a = np.atleast_2d(np.asarray(rates, dtype=float))
    b = None if others is None else np.atleast_2d(np.asarray(others, dtype=float))
    if b is not None and (b.shape[1] != a.shape[1] or len(b) not in (1, len(a))):
        raise ValueError(f"rates and others must be of the same tasks and trainings: {a.shape}, {b.shape}")
    # rounding may leave a mean of ones above 1
    tasks = np.clip(a.mean(axis=0), 0, 1)
    if b is None:
        low, by_task = 0.0, clustered_mean(tasks[:, None].tolist(), clusters)
    else:
        to = np.clip(b.mean(axis=0), 0, 1)
        low, by_task = -1.0, paired_bootstrap(tasks.tolist(), to.tolist(), clusters)
    if len(a) < 2 or math.isnan(by_task.lo):
        return Interval(by_task.mean, math.nan, math.nan, math.nan)
    return _crossed(by_task, (a if b is None else a - b).mean(axis=1), low)


def crossed_rate(chances: Sequence[Mapping[str, tuple[int, int]]]) -> Interval | None:
    """Share of chances that were taken, pooled over trainings: for each a mapping from task to how many
    chances its dialogues had and how many were taken. None without any chance.

    The interval as in `crossed_mean`, a chance instead of a task being the unit: over tasks, whose chances
    stay together, and over trainings, whose values are their shares. Raises ValueError for counts that are
    not 0 <= taken <= chances.
    """
    values, tasks = list[float](), list[Hashable]()
    for training in chances:
        for task, (count, taken) in training.items():
            if not 0 <= taken <= count:
                raise ValueError(f"task {task!r}: {taken} of {count} chances were taken")
            values += [1.0] * taken + [0.0] * (count - taken)
            tasks += [task] * count
    if not values:
        return None
    by_task = clustered_mean([[value] for value in values], tasks)
    sums = [np.sum([*training.values()], axis=0) for training in chances if training]
    shares = np.asarray([taken / count for count, taken in sums if count])
    if len(shares) < 2 or math.isnan(by_task.lo):
        return by_task if len(chances) == 1 else Interval(by_task.mean, math.nan, math.nan, math.nan)
    return _crossed(by_task, shares, 0.0)


def _crossed(by_task: Interval, of_trainings: Any, low: float) -> Interval:
    error = float(of_trainings.std(ddof=1)) / math.sqrt(len(of_trainings))
    half = t_quantile(0.5 + LEVEL / 2, len(of_trainings) - 1) * error
    lo = max(low, by_task.mean - math.hypot(by_task.mean - by_task.lo, half))
    hi = min(1.0, by_task.mean + math.hypot(by_task.hi - by_task.mean, half))
    return Interval(by_task.mean, lo, hi, math.hypot(error, by_task.se))


def difference(a: Interval, b: Interval) -> Interval:
    """a - b of two rates in [0, 1] from their intervals (Zou and Donner 2008), too wide where both go up and
    down with the same tasks.
    """
    mean = a.mean - b.mean
    lo, hi = mean - math.hypot(a.mean - a.lo, b.hi - b.mean), mean + math.hypot(a.hi - a.mean, b.mean - b.lo)
    return Interval(mean, max(-1.0, lo), min(1.0, hi), math.hypot(a.se, b.se))


def _bounded(values: Any, clusters: Sequence[Hashable] | None, low: float, n: int, seed: int) -> Interval:
    """Mean of values from `low` (0: rates, -1: differences) to 1 with quantiles of n Bayesian bootstraps
    (Rubin 1981) over the clusters and one more, of average size.

    Of a rate that one lies at the limit that the bound is nearer to: Gaffke's bounds (2005), which are those
    of Clopper and Pearson where a cluster is 0 or 1. Of a difference one half of it lies at each limit, as in
    Jeffreys' interval, and the quantiles are those of Student's t (Hesterberg 2015). The standard error is
    cluster-robust: se^2 = G/(G-1) * sum_g (sum_{i in g} e_i)^2 / N^2 with e_i the deviation of task i from
    the mean of N tasks in G clusters (Cameron and Miller 2015).
    """
    mean = math.fsum(values) / len(values)
    if low < 0 and (mean, math.fsum(values**3)) < (0, 0):  # a mirror image has the same bootstraps
        found = _bounded(-values, clusters, low, n, seed)
        return Interval(0 - found.mean, -found.hi, -found.lo, found.se)
    sums, sizes = _by_cluster(values, clusters)
    count = len(sums)
    if count < MIN_CLUSTERS:
        return Interval(mean, math.nan, math.nan, math.nan)
    order = np.lexsort((sizes, sums))
    sums, sizes = sums[order], sizes[order]
    errors = sums - mean * sizes
    se = math.sqrt(count / (count - 1) * float(errors @ errors)) / len(values)
    rows = max(1, _BLOCK // count)
    blocks = [_weights(min(rows, n - done), count, seed, done) for done in range(0, n, rows)]
    size, total = (np.concatenate([weights @ column for weights, _ in blocks]) for column in (sizes, sums))
    left, right = np.concatenate([halves for _, halves in blocks]).T * len(values) / count
    size += left + right
    tail = 0.5 - LEVEL / 2
    if low < 0:
        tail = 0.5 * math.erfc(t_quantile(1 - tail, count - 1) * math.sqrt(count / (count - 1) / 2))
        lower = upper = (total - left + right) / size
    else:
        lower, upper = total / size, (total + left + right) / size
    lo, hi = float(np.quantile(lower, tail)), float(np.quantile(upper, 1 - tail))
    return Interval(mean, min(lo, mean), max(hi, mean), se if se > _NO_SPREAD else math.nan)


@lru_cache(maxsize=8)
def _weights(rows: int, count: int, seed: int, block: int) -> tuple[Any, Any]:
    """Weights of clusters, and of both halves of one more, of a bootstrap in each row, up to their sums; kept
    for the turns that come next.
    """
    rng = np.random.default_rng([seed, block])
    return rng.standard_exponential((rows, count)), rng.standard_gamma(0.5, (rows, 2))


def paired_permutation(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    n: int = 20_000,
    seed: int = SEED,
) -> float:
    """Two-sided p value in (0, 1] of the hypothesis that a and b are exchangeable within every cluster; nan
    for fewer than MIN_CLUSTERS clusters.

    The statistic is |sum of a - b|. Swapping a and b of a whole cluster flips the sign of its difference: up
    to 16 clusters with a difference every assignment of signs is counted, above that n random ones are, and
    the observed one with them, (1 + hits) / (1 + n). Deterministic for a seed. Raises ValueError for unequal
    lengths, no task or values not finite.
    """
    if len(a) != len(b):
        raise ValueError(f"a and b must be paired by task, got {len(a)} and {len(b)} values")
    sums, _ = _by_cluster(_rates(a, "a") - _rates(b, "b"), clusters)
    if len(sums) < MIN_CLUSTERS:
        return math.nan
    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    # Sums of the same differences in another order differ in their last digits only.
    observed = abs(float(sums.sum())) - 1e-9 * float(np.abs(sums).sum())
    if len(sums) <= _EXACT_CLUSTERS:
        bits = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float((np.abs((2 * bits - 1) @ sums) >= observed).mean())
    rng, hits, done = np.random.default_rng(seed), 0, 0
    while done < n:
        count = min(n - done, max(1, 2_000_000 // len(sums)))
        signs = 2 * rng.integers(0, 2, size=(count, len(sums)), dtype=np.int8) - 1
        hits += int((np.abs(signs @ sums) >= observed).sum())
        done += count
    return (1 + hits) / (1 + n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: Holm's step-down method (1979), which controls the chance of any
    false rejection whatever the tests' dependence. Raises ValueError for a value outside [0, 1].
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"p values must lie in [0, 1], got {list(p_values)}")
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def detectable_difference(se: float, clusters: int, power: float = 0.8) -> float:
    """Smallest true difference that a two-sided 5 % test finds with chance `power`, in the unit of `se`.

    (t(0.975) + t(power)) * se with clusters - 1 degrees of freedom; nan for fewer than MIN_CLUSTERS clusters
    and where `se` is 0 or nan, which says nothing about how differences vary.
    Raises ValueError unless 0.5 <= power <= 0.9999.
    """
    if clusters < MIN_CLUSTERS or not se > 0:
        return math.nan
    return (t_quantile(0.5 + LEVEL / 2, clusters - 1) + t_quantile(power, clusters - 1)) * se


@lru_cache(maxsize=256)
def t_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t for a whole number of degrees of freedom, by bisection of its exact CDF.

    Accurate to 1e-9 for 0.5 <= probability <= 0.9999. Above 10,000 degrees the normal quantile with
    its first correction term is used (error below 1e-7). Raises ValueError outside these ranges.
    """
    if not 0.5 <= probability <= 0.9999 or freedom < 1:
        raise ValueError(f"needs 0.5 <= probability <= 0.9999 and freedom >= 1, got {probability}, {freedom}")
    if freedom > 10_000:
        z = _bisect(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), probability)
        return z + (z**3 + z) / (4 * freedom)
    return _bisect(lambda x: _t_cdf(x, freedom), probability)


def _t_cdf(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0: the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    theta = math.atan(t / math.sqrt(freedom))
    cos2 = math.cos(theta) ** 2
    even = freedom % 2 == 0
    term = math.sin(theta) if even else math.sin(theta) * math.cos(theta)
    total = term if freedom > 1 else 0.0
    for j in range(2 if even else 3, freedom - 1, 2):
        term *= cos2 * (j - 1) / j
        total += term
    central = total if even else 2 / math.pi * (theta + total)
    return 0.5 + central / 2


def _bisect(cdf: Any, probability: float) -> float:
    lo, hi = 0.0, 1.0
    while cdf(hi) < probability:
        hi *= 2
    for _ in range(80):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if cdf(middle) < probability else (lo, middle)
    return hi


def _rates(values: Sequence[float], name: str) -> Any:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must hold one value per task and at least one task")
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"{name} holds values outside [0, 1]")
    return array


def _by_cluster(values: Any, clusters: Sequence[Hashable] | None) -> tuple[Any, Any]:
    """Sum and number of values per cluster, clusters in order of first appearance."""
    if clusters is None:
        return values, np.ones(len(values))
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} tasks but {len(clusters)} cluster labels")
    numbers: dict[Hashable, int] = {}
    index = [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]
    return np.bincount(index, weights=values), np.bincount(index).astype(float)
