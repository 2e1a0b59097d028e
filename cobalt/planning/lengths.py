"""Lengths: lognormal responses cut at a limit, prompts that grow by a shown answer and feedback every turn.

A lognormal X of median m and deviation s of its logarithm, cut at L, has with z = ln(L/m)/s
mean m exp(s^2/2) Phi(z - s) + L (1 - Phi(z)) and mean square m^2 exp(2 s^2) Phi(z - 2s) + L^2 (1 - Phi(z)).
A prompt is a sum of such parts; where its limit matters it is taken as lognormal with the sum's mean and
variance (Fenton and Wilkinson).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from cobalt.planning.arithmetic import Sheet
from cobalt.planning.assumptions import Assumptions
from cobalt.planning.workload import Workload

_FAR = 3.0  # standard deviations below the limit at which cutting no longer matters


@dataclass(frozen=True)
class Response:
    """Completions under one limit: ``mean`` and ``live`` (mean length so far of one under way) in tokens,
    ``cut`` share that ends at the limit, ``median``, ``sigma`` before the cut.
    """

    mean: float
    live: float
    cut: float
    median: float
    sigma: float
    limit: int

    def longest(self, count: float) -> float:
        """About the longest of ``count``, at most the limit."""
        quantile = NormalDist().inv_cdf(1 - 1 / (count + 2))
        return max(self.mean, min(float(self.limit), self.median * math.exp(self.sigma * quantile)))


@dataclass(frozen=True)
class Prompts:
    """``first``: tokens of the opening; ``growth``: tokens by which a turn's answer and feedback lengthen it;
    variances of both.
    """

    first: float
    growth: float
    first_variance: float
    growth_variance: float


def response(sheet: Sheet, a: Assumptions, kind: str, limit: int) -> Response:
    """Completions of at most ``limit`` tokens."""
    median, sigma = a[f"{kind}.response_tokens"], a[f"{kind}.response_sigma"]
    said = f"{kind} response of at most {limit:,} tokens"
    z = sheet.put(f"{said}, z", "ln(limit / median) / sigma", limit=limit, median=median, sigma=sigma)
    cut = sheet.put("cut at the limit", "1 - Phi(z)", "of all", z=z)
    mean = sheet.put(
        "mean response", "median * exp(sigma * sigma / 2) * Phi(z - sigma) + limit * cut", "tokens",
        median=median, sigma=sigma, z=z, limit=limit, cut=cut,
    )  # fmt: skip
    square = sheet.put(
        "mean square", "median * median * exp(2 * sigma * sigma) * Phi(z - 2 * sigma) + limit * limit * cut",
        "tokens squared", median=median, sigma=sigma, z=z, limit=limit, cut=cut,
    )  # fmt: skip
    live = sheet.put(
        "mean length so far of a response under way",
        "square / (2 * mean)",
        "tokens",
        square=square,
        mean=mean,
    )
    return Response(mean, live, cut, median, sigma, limit)


def prompts(sheet: Sheet, a: Assumptions, work: Workload, made: Response) -> Prompts:
    """Openings and what a turn adds to them, for responses ``made``."""
    kind = work.tasks_kind
    per_token = a[f"{kind}.characters_per_token"]

    def usual(what: str) -> tuple[float, float]:
        median, sigma = a[f"{kind}.{what}_tokens"], a[f"{kind}.{what}_sigma"]
        mean = sheet.put(
            f"mean {what}", "median * exp(sigma * sigma / 2)", "tokens", median=median, sigma=sigma
        )
        return mean, mean * mean * (math.exp(sigma * sigma) - 1)

    statement, statement_variance = usual("statement")
    first = sheet.put(
        "first prompt", "fixed_characters / characters_per_token + statement", "tokens",
        fixed_characters=work.system_characters, characters_per_token=per_token, statement=statement,
    )  # fmt: skip
    values, values_variance = usual("feedback")
    feedback = sheet.put(
        "feedback message", "fixed_characters / characters_per_token + feedback", "tokens",
        fixed_characters=work.feedback_characters, characters_per_token=per_token, feedback=values,
    )  # fmt: skip
    if work.responses != "thinking":
        shown = made.mean
        spread = (2 * made.live - made.mean) * made.mean  # mean square less square of the mean
    else:
        median, sigma = a["thinking.answer_tokens"], a["thinking.answer_sigma"]
        most = sheet.put(
            "longest message kept", "answer_characters / characters_per_token", "tokens",
            answer_characters=a["thinking.answer_characters"], characters_per_token=per_token,
        )  # fmt: skip
        shown = sheet.put(
            "answer shown (after </think>; of a cut response its beginning)",
            "(1 - cut) * median * exp(sigma * sigma / 2) + cut * longest", "tokens",
            cut=made.cut, median=median, sigma=sigma, longest=most,
        )  # fmt: skip
        spread = shown * shown * (math.exp(sigma * sigma) - 1)
    growth = sheet.put("a turn adds", "answer + feedback", "tokens", answer=shown, feedback=feedback)
    return Prompts(first, growth, statement_variance, max(0.0, spread) + values_variance)


def prompt(
    sheet: Sheet, sizes: Prompts, shown: float, limit: float, spread: float = 0.0, *, always: bool = False
) -> float:
    """Mean tokens of a prompt with ``shown`` programs (their number may vary by ``spread``), cut at a limit.

    Lines are added where the limit matters, or ``always``.
    """
    mean = sizes.first + shown * sizes.growth
    variance = sizes.first_variance + shown * sizes.growth_variance + (spread * sizes.growth) ** 2
    sigma = math.sqrt(math.log(1 + variance / mean**2)) or 1e-9
    z = math.log(limit / mean) / sigma + sigma / 2
    if z > _FAR and not always:
        return mean
    plain = sheet.put(
        f"prompt with {shown:.3g} programs", "first + shown * growth", "tokens", first=sizes.first,
        shown=shown, growth=sizes.growth,
    )  # fmt: skip
    if z > _FAR:
        return plain
    return sheet.put(
        "the same, cut", "mean * Phi(z - sigma) + limit * (1 - Phi(z))", "tokens",
        mean=plain, z=z, sigma=sigma, limit=limit,
    )  # fmt: skip


def dialogue(sheet: Sheet, sizes: Prompts, first_turn: int, turns: int, limit: float) -> float:
    """Prompt tokens of one dialogue in turns ``first_turn`` to ``turns`` (from 1), each at most ``limit``."""
    count = turns - first_turn + 1
    each = [prompt(sheet, sizes, shown, limit) for shown in range(first_turn - 1, turns)]
    earlier = sum(range(first_turn - 1, turns))
    usual = count * sizes.first + earlier * sizes.growth
    if abs(sum(each) - usual) < 1e-9 * usual:
        return sheet.put(
            "prompt tokens of a dialogue", "turns * first + programs_shown * growth", "tokens",
            turns=count, first=sizes.first, programs_shown=earlier, growth=sizes.growth,
        )  # fmt: skip
    named = {f"turn_{first_turn + i}": value for i, value in enumerate(each)}
    return sheet.put("prompt tokens of a dialogue", " + ".join(named), "tokens", **named)
