"""Cutting a kept trajectory into contexts, and when to stop (arXiv 2602.03806, released data scripts).

A trajectory is ``system, user, (assistant, user) x T``. A slice keeps the first ``2 + 2n`` messages: it shows
``n`` programs with their feedback and asks for the next one. The published trajectories have three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from cobalt.prompts import ALL_PASSED_MARKER, is_all_passed
from cobalt.schema import Message

PUBLISHED_TURNS = 3
MAX_PROMPT_TOKENS = 10_000

Policy = Literal["faithful", "fixed"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

Stop = Literal["all_passed_twice", "prompt_too_long", "solved", "trajectory_ended"]
STOPS: tuple[Stop, ...] = get_args(Stop)


@dataclass(frozen=True, slots=True)
class Slice:
    """A prefix of a trajectory: ``messages`` messages, of whose programs the best has the rate given."""

    messages: int
    prev_best_pass_rate: float
    prompt_tokens: int

    @property
    def programs(self) -> int:
        """Programs shown."""
        return self.messages // 2 - 1


def slices(
    conversation: Sequence[Message],
    rates: Sequence[float],
    *,
    count_prompt_tokens: Callable[[Sequence[Message]], int],
    policy: Policy = "faithful",
    max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    turns: int = PUBLISHED_TURNS,
) -> tuple[list[Slice], Stop | None]:
    """Cut one trajectory.

    Slices are tried in ascending order and end for good at the first that

    * ``all_passed_twice``: ends in two feedbacks that all public tests passed;
    * ``prompt_too_long``: has more than ``max_prompt_tokens`` prompt tokens, generation header included;
    * ``solved``: needs no further program. ``faithful`` asks, as published, only of the first slice, and
      whether programs 0 and *2* pass everything. ``fixed`` asks of every slice whether the last program
      shown and the next one do.

    ``faithful`` also searches the whole message for the all-passed sentence; ``fixed`` does not let a program
    print it.

    ``rates`` are the combined rates of its programs, [turns]; ``turns`` how many slices to cut at most;
    ``count_prompt_tokens`` is not called after an ``all_passed_twice``. Returns the slices, and why there are
    no more: None if all were cut, ``trajectory_ended`` if the dialogue is shorter.
    """
    found: list[Slice] = []
    for programs in range(1, turns + 1):
        messages = 2 + 2 * programs
        if len(conversation) < messages or len(rates) < programs:
            return found, "trajectory_ended"
        shown = conversation[:messages]
        if _all_passed_twice(shown, policy):
            return found, "all_passed_twice"
        tokens = count_prompt_tokens(shown)
        if tokens > max_prompt_tokens:
            return found, "prompt_too_long"
        if _solved(rates, programs, policy):
            return found, "solved"
        found.append(Slice(messages, max(rates[:programs]), tokens))
    return found, None


def _all_passed_twice(shown: Sequence[Message], policy: Policy) -> bool:
    last, previous = shown[-1]["content"], shown[-3]["content"]
    if policy == "faithful":
        # The published rule also looks at the task's statement, which precedes the only feedback of slice 4.
        return ALL_PASSED_MARKER in last and ALL_PASSED_MARKER in previous
    return len(shown) > 4 and is_all_passed(last) and is_all_passed(previous)


def _solved(rates: Sequence[float], programs: int, policy: Policy) -> bool:
    last, other = (0, 2) if policy == "faithful" else (programs - 1, programs)
    if policy == "faithful" and programs > 1:
        return False
    return other < len(rates) and rates[last] == 1.0 and rates[other] == 1.0
