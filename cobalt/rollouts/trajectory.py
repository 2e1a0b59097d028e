"""One trajectory: programs, verdicts and feedback in turn, and its columns in a row.

Feedback is the truth, or, in control experiments, something else (`FeedbackPolicy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cobalt.engines.base import CONTEXT_OVERFLOW, Completion
from cobalt.errors import InfraError, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.checker import Rule
from cobalt.prompts import Prompts
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import Row
from cobalt.schema import ExecutionResult, Message
from cobalt.testcases import TestCases
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


async def verdict(
    evaluator: Evaluator, code: str | None, tests: TestCases, rule: Rule | None = None
) -> ExecutionResult:
    """The evaluator's verdict on a program, one entry per test; `rule`: in place of its own.

    Raises InfraError if it has none (`infra_error`, after its own retries): a fault of ours is never a score.
    """
    result = await evaluator.aevaluate(code, tests, **({} if rule is None else {"rule": rule}))
    if result["status"] == "infra_error":
        raise InfraError(f"the evaluator had no verdict: {' '.join(result.get('feedback', []))[:300]}")
    if len(result["passing"]) != len(tests):
        raise InfraError(f"the evaluator answered {len(result['passing'])} of {len(tests)} tests")
    return result


def pass_rate(result: ExecutionResult) -> float:
    """Share of tests passed, in [0, 1]; 0 if there are none. Of a suite over its time no test passes."""
    passing = result["passing"]
    return sum(passing) / len(passing) if passing else 0.0


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


def restored(row: Row, known: Mapping[tuple[int, int], Row], settings: MultiTurnSettings) -> list[Trajectory]:
    """A row's trajectories: first turns that it brings, and turns that a journal has, by (sample, turn)."""
    opening = settings.prompts.messages(row["instruction"])
    trajectories = [Trajectory(opening) for _ in range(settings.samples)]
    if not settings.first_turn:
        texts: list[str | None] = row["responses"]
        reasons, used = (
            given
            if isinstance(given := row.get(name), list) and len(given) == len(texts)
            else [None] * len(texts)
            for name in ("finish_reasons", "usage")
        )
        trajectories = [
            Trajectory(opening, pending=read_response(text, settings, reason, tokens))
            for text, reason, tokens in zip(texts, reasons, used, strict=True)
        ]
    for sample, trajectory in enumerate(trajectories):
        while not trajectory.complete(settings):
            entry = known.get((sample, len(trajectory.turns)), {})
            if entry.get("raw") is not None:
                reason, tokens = entry.get("finish_reason"), entry.get("usage")
                trajectory.pending = read_response(entry["raw"], settings, reason, tokens)
            elif trajectory.overflowed:
                trajectory.pending = read_response("", settings, CONTEXT_OVERFLOW)
            if trajectory.pending is None or entry.get("feedback") is None:
                break
            trajectory.add(entry["result"], entry["feedback"])
    return trajectories


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


class Place(NamedTuple):
    """One program of a run: position of its task among the rows, sample and turn, each from 0."""

    task: int
    sample: int
    turn: int


class FeedbackPolicy:
    """The honest policy, and the base of the others: decides which feedback message follows a program.

    `name` stands in the manifest. A policy with `whole_batch` waits for other tasks, so all tasks must be in
    flight at once; the runner sees to that.
    """

    name = "honest"
    whole_batch = False

    async def message(self, place: Place, honest: str) -> str:
        """The message to show at `place`, where `honest` would be true."""
        return honest

    def abort(self, error: Exception) -> None:
        """A task has failed: release whoever waits for it."""


class BlankFeedback(FeedbackPolicy):
    """A feedback message without feedback, whether the program passed or not."""

    name = "blank"

    def __init__(self, prompts: Prompts) -> None:
        self._message = prompts.feedback_message("")

    async def message(self, place: Place, honest: str) -> str:
        return self._message


class OtherTaskFeedback(FeedbackPolicy):
    """The honest message of another task, for the same sample and turn: tasks are shifted by a third of the
    rows, of which there are `tasks`. Raises InputError for fewer than two.
    """

    name = "other"
    whole_batch = True

    def __init__(self, tasks: int) -> None:
        if tasks < 2:
            raise InputError("feedback of another task needs at least two tasks")
        self._tasks, self._shift = tasks, 1 + tasks // 3 if tasks > 2 else 1
        self._honest: dict[Place, asyncio.Future[str]] = {}
        self._failed: InfraError | None = None

    async def message(self, place: Place, honest: str) -> str:
        mine = self._at(place)
        if not mine.done():
            mine.set_result(honest)
        return await asyncio.shield(self._at(place._replace(task=(place.task + self._shift) % self._tasks)))

    def abort(self, error: Exception) -> None:
        self._failed = InfraError(f"another task failed, whose feedback was needed: {error}")
        for future in self._honest.values():
            if not future.done():
                future.set_exception(self._failed)

    def _at(self, place: Place) -> asyncio.Future[str]:
        if self._failed is not None and place not in self._honest:
            raise self._failed
        return self._honest.setdefault(place, asyncio.get_running_loop().create_future())
