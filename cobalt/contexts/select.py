"""Which trajectories become contexts (arXiv 2602.03806, released data scripts).

A trajectory teaches something if its programs differ in quality. Trajectories are compared by ``d``, the
range of the pass rates of their programs; of many, the subset with the largest variance of ``d`` is kept
(max-variance down-sampling, arXiv 2504.13818).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from cobalt.errors import InputError

MAX_KEPT = 4

Selection = Literal["max_variance", "random", "all", "none"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)


def combined_rate(hidden: float, public: float, *, n_public: int, n_tests: int) -> float:
    """Share of all tests passed, from the shares of hidden and of public tests passed (all in [0, 1]).

    ``n_tests`` counts both kinds. Evaluated in the published order of operations, so that equal inputs give
    equal bits and the comparisons with 1.0 below agree.
    """
    return (hidden * (n_tests - n_public) + public * n_public) / n_tests


def spread(rates: Sequence[float]) -> float:
    """``d`` of a trajectory: largest minus smallest rate. A collapse counts as much as a gain."""
    return max(rates) - min(rates)


def all_solved(verdicts: Sequence[Mapping[str, Any]]) -> bool:
    """The skip rule: every single-turn sample passed every test. ``verdicts`` [S]: ``passing`` [tests]."""
    return all(all(verdict["passing"]) for verdict in verdicts)


def select(
    rates: Sequence[Sequence[float] | None],
    *,
    validation: bool = False,
    selection: Selection = "max_variance",
    draw: random.Random | None = None,
) -> list[int]:
    """Choose trajectories of one task by their combined rates [samples][turns]; None must not be chosen.

    For ``validation`` at most one, that of the smallest ``d`` above 0 (ties: the first). For training,
    candidates also need a program that passes everything, and at most four are kept: by ``max_variance`` as
    published; for ablations ``random`` (by ``draw``), ``all`` candidates of any number, or ``none``. Returns
    indices of samples: ascending without down-sampling, else in order of ``d``, ties in order of index.

    Raises InputError for a selection that does not exist, and for ``random`` without ``draw``.
    """
    if selection not in SELECTIONS:
        raise InputError(f"selection must be one of {', '.join(SELECTIONS)}, got {selection!r}")
    candidates = candidate_indices(rates, validation=validation)
    spreads = [spread(rates[i] or ()) for i in candidates]
    if validation:
        return [min(candidates, key=lambda i: spread(rates[i] or ()))] if candidates else []
    if selection == "random":
        if draw is None:
            raise InputError("selection 'random' needs draw, a random.Random")
        return sorted(draw.sample(candidates, min(MAX_KEPT, len(candidates))))
    if selection in ("all", "none"):
        return candidates if selection == "all" else []
    return [candidates[i] for i in max_variance_subset(spreads, MAX_KEPT)]


def candidate_indices(rates: Sequence[Sequence[float] | None], *, validation: bool = False) -> list[int]:
    """Samples whose programs differ and, for training, of which one passes everything."""
    return [
        i
        for i, trajectory in enumerate(rates)
        if trajectory and spread(trajectory) > 0 and (validation or max(trajectory) == 1.0)
    ]


def max_variance_subset(values: Sequence[float], size: int) -> list[int]:
    """Indices of at most ``size`` values of the largest population variance.

    All of them, in the given order, if there are no more than ``size``. Otherwise the candidates are the
    sets of the ``size - k`` lowest and the ``k`` highest values for k = 0 .. size - 1, in ascending order
    (a stable sort); the first of the largest variance wins. The highest values alone need not be tried:
    putting the lowest value of all in place of the lowest of them never lowers the variance.
    """
    if len(values) <= size:
        return list(range(len(values)))
    ascending = sorted(range(len(values)), key=values.__getitem__)
    subsets = [ascending[: size - k] + ascending[len(values) - k :] for k in range(size)]
    # Variances may differ in the last bit only: numpy's way to add them up is part of the published rule.
    return max(subsets, key=lambda subset: float(np.var([values[i] for i in subset])))
