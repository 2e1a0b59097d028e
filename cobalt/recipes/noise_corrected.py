"""Reward of a verifier with known error rates (arXiv 2510.00915, the backward correction).

The verifier passes a wrong program with probability p0 and fails a right one with p1, p0 + p1 < 1:

    reward = (verdict - p0) / (1 - p0 - p1)      whose mean over the verifier's errors is the true verdict

Definitions of both rates from the paper's abstract and a reimplementation by others, which also has the
formula as its Theorem 1. Two things follow. Division by a group's deviation cancels the correction exactly
(it is affine, with positive slope), so this recipe has leave-one-out advantages. And with these it is a
factor 1 / (1 - p0 - p1) per group, which matters where rows differ: ``extra_info.noise: [p0, p1]`` of a row
has precedence. The paper's forward correction and its estimate of p1 by appeals are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def reward(
    result: Mapping[str, Any], info: Mapping[str, Any], p0: float = 0.0, p1: float = 0.0
) -> dict[str, float]:
    """The verdict (1 if the program passes every test, else 0) and what is added to correct it.

    Rates in [0, 1): of the row where it says ``noise``, else ``p0`` and ``p1``. The sum is in
    [-p0 / (1 - p0 - p1), (1 - p0) / (1 - p0 - p1)]. Raises ValueError for rates that nothing can correct.
    """
    noise = info.get("noise")
    wrong, right = (p0, p1) if noise is None else (float(noise[0]), float(noise[1]))
    if min(wrong, right) < 0 or wrong + right >= 1:
        raise ValueError(f"p0={wrong} and p1={right} must be at least 0 and below 1 in sum")
    passing = result["passing"]
    verdict = float(bool(passing) and all(passing))
    return {"verdict": verdict, "correction": (verdict - wrong) / (1 - wrong - right) - verdict}
