"""One trajectory: programs, verdicts and feedback in turn, and its columns in a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cobalt.engines.base import CONTEXT_OVERFLOW, Completion
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.verdicts import pass_rate
from cobalt.rows import Row
from cobalt.schema import ExecutionResult, Message
from cobalt.text import THINK_END, after_thinking, extract_code, shorten


@dataclass(frozen=True)
class Response:
    """One response of the model and what is made of it.

    `raw` is the uncut text, whose `code` the public tests run; `message` is what stays in the dialogue,
    whose code hidden tests run. `finish_reason` and `usage` are None where a stored first turn does not
    tell. `flags`: any of truncated (the message was cut), code_differs (message and raw text hold different
    programs), unfinished_thinking, context_overflow.
    """

    raw: str
    message: str
    code: str | None
    finish_reason: str | None
    usage: Any
    flags: tuple[str, ...]


def read_response(
    raw: str | None, settings: MultiTurnSettings, finish_reason: str | None = None, usage: Any = None
) -> Response:
    """Apply the published rules of extraction and shortening. No text (None) is an empty one."""
    raw = raw or ""
    message, code, flags = raw, extract_code(raw), list[str]()
    if settings.enable_thinking:
        message, cut = shorten(after_thinking(raw))
        if cut:
            flags.append("truncated")
        if THINK_END not in raw and raw:
            flags.append("unfinished_thinking")
            if settings.unfinished_thinking == "no_code":
                code = None
        if extract_code(message) != code:
            flags.append("code_differs")
    if finish_reason == CONTEXT_OVERFLOW:
        flags.append(CONTEXT_OVERFLOW)
    return Response(raw, message, code, finish_reason, usage, tuple(flags))


def usage(completion: Completion) -> dict[str, int]:
    """The row's `usage` entry of a completion; `reasoning_tokens` where the service tells."""
    used = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
    if completion.reasoning_tokens is not None:
        used["reasoning_tokens"] = completion.reasoning_tokens
    return used


@dataclass(frozen=True)
class Turn:
    """A response, its verdict on the tests shown, and the user message that followed."""

    response: Response
    result: ExecutionResult
    feedback: str


@dataclass
class Trajectory:
    """One sample of a task: the opening messages and the turns so far; `pending` is the next turn's response
    while its tests are not done.
    """

    opening: list[Message]
    turns: list[Turn] = field(default_factory=list)
    pending: Response | None = None

    @property
    def messages(self) -> list[Message]:
        messages = list(self.opening)
        for turn in self.turns:
            messages.append({"role": "assistant", "content": turn.response.message})
            messages.append({"role": "user", "content": turn.feedback})
        return messages

    @property
    def overflowed(self) -> bool:
        """Whether the conversation no longer fits the model; it only grows, so it never will again."""
        return bool(self.turns) and CONTEXT_OVERFLOW in self.turns[-1].response.flags

    def complete(self, settings: MultiTurnSettings) -> bool:
        """Whether it has all its turns."""
        passed = bool(self.turns) and all(self.turns[-1].result["passing"])
        return len(self.turns) == settings.turns or (settings.stop_when_passed and passed)

    def add(self, result: ExecutionResult, feedback: str) -> None:
        """The pending response is judged and answered."""
        assert self.pending is not None
        self.turns.append(Turn(self.pending, result, feedback))
        self.pending = None


def columns(trajectories: list[Trajectory], settings: MultiTurnSettings) -> Row:
    """The published columns of S finished trajectories, and optional ones beside them.

    With `stop_when_passed` trajectories may be shorter than T: their later places in the [T][S] arrays are
    null, and `stopped_when_passed` [S] tells them. `turn_flags` [T][S] and `context_overflow` [T][S] appear
    where there is something to flag.
    """
    longest = max(len(each.turns) for each in trajectories)

    def table(value: Any) -> list[list[Any]]:
        return [
            [value(each.turns[t]) if t < len(each.turns) else None for each in trajectories]
            for t in range(longest)
        ]

    row: Row = {
        "raw_responses": table(lambda turn: turn.response.raw),
        "conversations": [each.messages for each in trajectories],
        "public_pass_rates": table(lambda turn: pass_rate(turn.result)),
        "public_exec_results": table(lambda turn: turn.result),
        "finish_reasons": table(lambda turn: turn.response.finish_reason),
        "usage": table(lambda turn: turn.response.usage),
    }
    if any(turn.response.flags for each in trajectories for turn in each.turns):
        row["turn_flags"] = table(lambda turn: list(turn.response.flags))
    if any(each.overflowed for each in trajectories):
        row["context_overflow"] = table(lambda turn: CONTEXT_OVERFLOW in turn.response.flags)
    if settings.stop_when_passed:
        row["stopped_when_passed"] = [len(each.turns) < settings.turns for each in trajectories]
    return row
