"""The shaped reward of one completion (arXiv 2602.03806 and its released reward function).

The total of a training reward is the clipped sum of its parts, so that a log of the parts explains it:
``clip(tier + improvement + format_penalty + thinking + length, -1, 1)``. Validation ignores every part and
asks only whether all tests passed. The format judged is that of a reasoning model:
``thinking </think> text ```python code ``` explanation``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from cobalt.text import THINK_END, extract_code, has_repetition

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

FENCE_OPEN, FENCE_CLOSE = "```python", "\n```"

Defect = Literal["repetition", "thinking", "opening_fence", "closing_fence", "backtick"]

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

    def metrics(self) -> dict[str, float]:
        """The parts as floats, with the same keys for every completion under one profile."""
        parts = ("tier", "improvement", "format_penalty", "thinking", "length", "has_code", "regressed")
        names = parts if self.format_ok is None else (*parts, "format_ok")
        return {name: float(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class FormatCheck:
    """The first broken rule, None if the format is sound; then the stripped texts before ``</think>`` (empty
    without one), after it, and after the closing fence.
    """

    defect: Defect | None
    thinking: str = ""
    response: str = ""
    explanation: str = ""

    @property
    def ok(self) -> bool:
        """True if no rule is broken."""
        return self.defect is None


def check_format(completion: str, *, require_thinking: bool = True) -> FormatCheck:
    """Check one decoded completion and cut it into its parts.

    Rules, in this order; the first that fails is the defect:

    1. ``repetition``: no block of at least 32 characters occurs 8 or more times in a row, anywhere.
    2. ``thinking``: exactly one ``</think>``. With ``require_thinking=False`` none is fine too; the response
       is then the whole completion. Two or more are always a defect.
    3. ``opening_fence``: the response holds ```` ```python ```` exactly once. What follows on that line does
       not matter, so ```` ```python3 ```` opens a block as well.
    4. ``closing_fence``: after it, a newline followed by a fence occurs exactly once.
    5. ``backtick``: no backtick between the two.
    """
    if has_repetition(completion):
        return FormatCheck("repetition")

    closings = completion.count(THINK_END)
    if closings > 1 or (require_thinking and closings == 0):
        return FormatCheck("thinking")
    before, _, after = completion.partition(THINK_END) if closings else ("", "", completion)
    response = after.strip()

    if response.count(FENCE_OPEN) != 1:
        return FormatCheck("opening_fence")
    body = response.partition(FENCE_OPEN)[2]
    if body.count(FENCE_CLOSE) != 1:
        return FormatCheck("closing_fence")
    code, _, rest = body.partition(FENCE_CLOSE)
    if "`" in code:
        return FormatCheck("backtick")
    return FormatCheck(None, before.strip(), response, rest.strip())


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
    """The terms of thinking and length."""
    tokens = count_tokens(check.thinking)
    long_thinking = tokens > MAX_THINKING
    long_parts = int(count_tokens(check.response) > MAX_RESPONSE)
    long_parts += count_tokens(check.explanation) > MAX_EXPLANATION
    if base >= 0.0:
        thinking, length = 0.0, OVERLONG_CORRECT if long_thinking or long_parts else 0.0
    elif long_thinking:
        thinking, length = OVERLONG, OVERLONG * long_parts
    else:
        thinking = THINKING_WEIGHT * math.tanh(tokens / THINKING_SCALE)
        thinking += min(KEYWORD_CAP, KEYWORD_BONUS * rewarded_keywords(check.thinking))
        length = OVERLONG * long_parts
    return ShapedReward(total=0.0, thinking=thinking, length=length)


def rewarded_keywords(thinking: str) -> int:
    """Number of distinct keywords of self-correction that occur 1 to 4 times, as whole words in any case."""
    found = _KEYWORD.findall(thinking.lower())
    return sum(1 <= found.count(keyword) <= KEYWORD_MAX_COUNT for keyword in KEYWORDS)


def _check_rate(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
