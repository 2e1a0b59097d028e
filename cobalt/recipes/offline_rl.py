"""Offline RL on stored groups (arXiv 2605.28409): rewards of stored verdicts, weights of their likelihood.

Loss of a mini-batch: ``- sum of w_i log p(y_i | x) / tokens``. Published are groups of four, right and wrong
ones among them, and rewards from correctness, syntax and run time. The objectives, the sizes of the rewards,
temperature and clip are ours: they could not be found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.rewards.cobalt import PLAIN, shaped_reward
from cobalt.rewards.groups import exponential, grpo, rloo

OBJECTIVES = ("rloo", "grpo", "exponential", "sft")  # the last: recipe rejection_sft
REWARDS = ("correctness", "graded", "pass_rate", "shaped")
SYNTAX_ERROR = "Compile Error"  # CodeNet's status of a program that is none
_CLOCK_MS = 10  # below this, times are the judge's rounding


def rewards_of(completions: Sequence[Mapping[str, Any]], settings: Any) -> list[float]:
    """Rewards of the completions of a group by their stored verdicts, as ``cobalt.offline.reward`` says.

    ``correctness``: 1 or 0. ``graded``: 1 - ``time_cost`` x (1 - fastest / time) for a right one (times
    where the source has ``cpu_time`` in ms), 0 for a wrong one, - ``syntax_cost`` where its ``status`` says
    that it does not compile, or it does not parse (``parses``). ``pass_rate``; or ``shaped``, the tiers of
    the shaped reward without its terms on form.
    """
    kind, rates = settings.reward, [item["pass_rate"] for item in completions]
    if kind == "correctness":
        return [float(rate == 1.0) for rate in rates]
    if kind == "pass_rate":
        return rates
    if kind == "shaped":
        return [shaped_reward(item["text"], item["pass_rate"], count_tokens=len, profile=PLAIN).total
                for item in completions]  # fmt: skip
    times = [max(time, _CLOCK_MS) if (time := item.get("cpu_time")) is not None and time >= 0 else None
             for item in completions]  # fmt: skip
    fastest = min((time for time, rate in zip(times, rates, strict=True) if time and rate == 1.0), default=0)
    made = []
    for item, time in zip(completions, times, strict=True):
        if item["pass_rate"] == 1.0:
            made.append(1.0 - float(settings.time_cost) * (1 - fastest / time if time else 0.0))
        else:
            broken = item.get("status") == SYNTAX_ERROR or item.get("parses") is False
            made.append(-float(settings.syntax_cost) if broken else 0.0)
    return made


def weigh(rewards: Sequence[float], settings: Any) -> list[float]:
    """Weights by the section ``cobalt.offline``: advantages (of either sign) or exponential ones."""
    if settings.objective in ("rloo", "grpo"):
        return (rloo if settings.objective == "rloo" else grpo)(rewards)
    clip = None if settings.clip is None else float(settings.clip)
    return exponential(rewards, temperature=float(settings.temperature), clip=clip)
