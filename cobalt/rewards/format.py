"""Format rules of a reasoning model's answer: ``thinking </think> text ```python code ``` explanation``.

The rules are those of the published reward (arXiv 2602.03806, released code). They are checked in a fixed
order and the first rule that is broken names the defect, so that a training log can say *what* a policy gets
wrong. Code is extracted elsewhere, from the whole text: an answer may hold runnable code and be malformed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cobalt.text import has_repetition

THINK_END = "</think>"
FENCE_OPEN = "```python"
FENCE_CLOSE = "\n```"

Defect = Literal["repetition", "thinking", "opening_fence", "closing_fence", "backtick"]


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
