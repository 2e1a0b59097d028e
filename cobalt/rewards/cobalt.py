"""The shaped reward of one completion (arXiv 2602.03806 and its released reward function).

The total of a training reward is the clipped sum of its parts, so that a log of the parts explains it:
``clip(tier + improvement + format_penalty + thinking + length, -1, 1)``. Validation ignores every part and
asks only whether all tests passed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from cobalt.rewards.format import Defect, FormatCheck, check_format
from cobalt.text import extract_code

NO_CODE = -1.0
FORMAT_PENALTY = -0.9
IMPROVEMENT_WEIGHT = 0.1
REGRESSION_BASE = -0.1
MAX_THINKING, MAX_RESPONSE, MAX_EXPLANATION = 4096, 2048, 512  # tokens
OVERLONG_CORRECT = -0.01
OVERLONG = -0.1  # for each of: thinking, response, explanation
THINKING_WEIGHT, THINKING_SCALE = 0.075, 1024
KEYWORD_BONUS, KEYWORD_CAP, KEYWORD_MAX_COUNT = 0.005, 0.025, 4
KEYWORDS = ("wait", "mistake", "however", "but", "retry", "error", "verify", "wrong", "evaluate")

_KEYWORD = re.compile(rf"\b(?:{'|'.join(KEYWORDS)})\b")


@dataclass(frozen=True, slots=True)
class RewardProfile:
    """Which rules apply; manifests record ``name``.

    Without ``judge_format`` there are no format, thinking and length terms. Without ``require_thinking`` a
    completion may lack ``</think>``; two or more stay a defect.
    """

    name: str
    judge_format: bool = True
    require_thinking: bool = True


PUBLISHED = RewardProfile("published")
PLAIN = RewardProfile("plain", judge_format=False)
NO_THINKING = RewardProfile("no_thinking", require_thinking=False)
PROFILES = {profile.name: profile for profile in (PUBLISHED, PLAIN, NO_THINKING)}


@dataclass(frozen=True, slots=True)
class ShapedReward:
    """A reward and its parts; parts that do not apply are 0.0.

    Attributes:
        total: the reward, in [-1, 1]; in validation 1.0 or 0.0.
        tier: value of the correctness tier; -0.1 where a regression replaces it, -1.0 without a code block.
        improvement: share of the possible improvement on the previous best (in (0, 0.1)), or the loss
            against it (in [-0.1, 0]); 0.0 if there was nothing to improve on or all tests passed.
        format_penalty: -0.9 for a broken format.
        thinking: bonus for length of, and keywords in, the thinking of a negative reward (in [0, 0.1]), or
            -0.1 if that thinking is too long.
        length: penalties for overlong parts: -0.01 once for a reward that is not negative; otherwise -0.1
            each for response and explanation.
        has_code: a fenced block was found.
        format_ok: the format is sound; None if the profile does not judge it.
        defect: the first broken format rule.
        regressed: not better than a previous best above 0, and not perfect.
        keywords: distinct keywords that earned a bonus, before the cap.
        thinking_tokens, response_tokens, explanation_tokens: lengths where they were counted, else None.
    """

    total: float
    tier: float = 0.0
    improvement: float = 0.0
    format_penalty: float = 0.0
    thinking: float = 0.0
    length: float = 0.0
    has_code: bool = True
    format_ok: bool | None = None
    defect: Defect | None = None
    regressed: bool = False
    keywords: int = 0
    thinking_tokens: int | None = None
    response_tokens: int | None = None
    explanation_tokens: int | None = None

    def metrics(self) -> dict[str, float]:
        """The parts as floats, with the same keys for every completion under one profile."""
        values = {
            "tier": self.tier,
            "improvement": self.improvement,
            "format_penalty": self.format_penalty,
            "thinking": self.thinking,
            "length": self.length,
            "has_code": float(self.has_code),
            "regressed": float(self.regressed),
        }
        if self.format_ok is not None:
            values["format_ok"] = float(self.format_ok)
        return values


def shaped_reward(
    completion: str,
    pass_rate: float,
    *,
    prev_best_pass_rate: float = 0.0,
    count_tokens: Callable[[str], int],
    training: bool = True,
    profile: RewardProfile = PUBLISHED,
) -> ShapedReward:
    """Score one completion, decoded without special tokens.

    ``pass_rate`` is the fraction of all tests passed (not used without a code block), ``prev_best_pass_rate``
    the best among the programs shown in the context, 0.0 if there are none; both in [0, 1], else ValueError.
    ``count_tokens`` is called in training only, on each part of a completion of sound format; the published
    values use the ``o200k_base`` encoding. Without ``training``: 1.0 if ``pass_rate`` is exactly 1.0, else
    0.0.
    """
    _check_rate("pass_rate", pass_rate)
    _check_rate("prev_best_pass_rate", prev_best_pass_rate)
    if extract_code(completion) is None:
        return ShapedReward(
            total=NO_CODE if training else 0.0,
            tier=NO_CODE,
            has_code=False,
            format_ok=False if profile.judge_format else None,
        )

    tier, improvement = _correctness(pass_rate, prev_best_pass_rate)
    base, terms, check = tier + improvement, ShapedReward(total=0.0), None
    if profile.judge_format:
        check = check_format(completion, require_thinking=profile.require_thinking)
        if not check.ok:
            terms = ShapedReward(total=0.0, format_penalty=FORMAT_PENALTY)
        elif training:
            terms = _sound_format_terms(base, check, count_tokens)
    if training:
        total = max(-1.0, min(1.0, base + (terms.format_penalty + terms.thinking + terms.length)))
    else:
        total = 1.0 if pass_rate == 1.0 else 0.0
    return replace(
        terms,
        total=total,
        tier=tier,
        improvement=improvement,
        format_ok=check.ok if check is not None else None,
        defect=check.defect if check is not None else None,
        regressed=prev_best_pass_rate > 0.0 and pass_rate <= prev_best_pass_rate and pass_rate < 1.0,
    )


def _correctness(pass_rate: float, best: float) -> tuple[float, float]:
    """Tier and improvement; a program no better than the best one shown loses its tier."""
    if pass_rate == 1.0:
        return 1.0, 0.0
    if best > 0.0 and pass_rate <= best:
        return REGRESSION_BASE, IMPROVEMENT_WEIGHT * ((pass_rate - best) / best)
    tier = 0.2 if pass_rate >= 0.5 else 0.0 if pass_rate > 0.0 else -0.1
    gain = IMPROVEMENT_WEIGHT * ((pass_rate - best) / (1.0 - best)) if best > 0.0 else 0.0
    return tier, gain


def _sound_format_terms(base: float, check: FormatCheck, count_tokens: Callable[[str], int]) -> ShapedReward:
    """The terms of thinking and length, and what they were made of."""
    thinking_tokens = count_tokens(check.thinking)
    response_tokens = count_tokens(check.response)
    explanation_tokens = count_tokens(check.explanation)
    long_thinking = thinking_tokens > MAX_THINKING
    long_parts = (response_tokens > MAX_RESPONSE) + (explanation_tokens > MAX_EXPLANATION)
    keywords = 0
    if base >= 0.0:
        thinking, length = 0.0, OVERLONG_CORRECT if long_thinking or long_parts else 0.0
    elif long_thinking:
        thinking, length = OVERLONG, OVERLONG * long_parts
    else:
        keywords = rewarded_keywords(check.thinking)
        thinking = THINKING_WEIGHT * math.tanh(thinking_tokens / THINKING_SCALE)
        thinking += min(KEYWORD_CAP, KEYWORD_BONUS * keywords)
        length = OVERLONG * long_parts
    return ShapedReward(
        total=0.0,
        thinking=thinking,
        length=length,
        keywords=keywords,
        thinking_tokens=thinking_tokens,
        response_tokens=response_tokens,
        explanation_tokens=explanation_tokens,
    )


def rewarded_keywords(thinking: str) -> int:
    """Number of distinct keywords of self-correction that occur 1 to 4 times, as whole words in any case."""
    found = _KEYWORD.findall(thinking.lower())
    return sum(1 <= found.count(keyword) <= KEYWORD_MAX_COUNT for keyword in KEYWORDS)


def _check_rate(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
