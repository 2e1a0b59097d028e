"""Online dialogues as tokens: responses of the policy, feedback between them, and a mask that tells which is
which. Used by the batch path on CPU and by verl's agent loops alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from cobalt.engines.turn_end import next_turn_ids, turn_end
from cobalt.errors import InfraError, InputError
from cobalt.own import Own
from cobalt.prompts import Prompts, load
from cobalt.rewards.records import Rollout, Turn
from cobalt.rollouts.feedback import message, open_feedback
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.data import PUBLIC
from cobalt.training.scoring import Score, Scorer, is_validation

_MOST_SAID = 10  # reasons; some differ in every sample


@dataclass(frozen=True)
class DialogueSettings:
    """The section ``cobalt.dialogue``: at most ``turns`` programs, ``max_turn_tokens`` per response,
    ``response_length`` tokens of responses and feedback in all. ``reward``: of the ``last`` program, or
    ``max`` or ``mean`` over turns. ``every_turn``: every program is judged on all tests, not only the last.
    ``branches``: programs after each program before, turn by turn (cobalt.training.tree); () without a tree.
    ``feedback``: ``cobalt.feedback``, a function of the user's own in place of the built-in text.
    """

    turns: int
    max_turn_tokens: int
    response_length: int
    reward: Literal["last", "max", "mean"]
    stop_when_passed: bool
    prompts: Prompts
    every_turn: bool = False
    branches: tuple[int, ...] = ()
    feedback: Own | None = None

    @classmethod
    def read(cls, config: Any) -> DialogueSettings:
        """From a composed training configuration. Raises InputError for values that cannot be used."""
        from omegaconf import OmegaConf

        given, length = config.cobalt.dialogue, int(config.data.max_response_length)
        prompts = load(given.prompts)
        tokens = int(given.max_turn_tokens or length)
        if int(given.turns) < 1 or not 0 < tokens <= length:
            raise InputError(
                f"cobalt.dialogue: turns={given.turns} must be at least 1, max_turn_tokens={tokens} at most "
                f"data.max_response_length={length}"
            )
        if given.reward not in ("last", "max", "mean"):
            raise InputError(f"cobalt.dialogue.reward must be last, max or mean, got {given.reward!r}")
        branches = _branches(given.branches, int(given.turns), int(config.actor_rollout_ref.rollout.n))
        return cls(
            turns=int(given.turns),
            max_turn_tokens=tokens,
            response_length=length,
            reward=given.reward,
            stop_when_passed=bool(given.stop_when_passed),
            prompts=prompts,
            every_turn=bool(given.every_turn) or given.reward != "last" or bool(branches),
            branches=branches,
            feedback=open_feedback(
                OmegaConf.select(config, "cobalt.feedback"),
                "cobalt.feedback",
                prompts,
                OmegaConf.select(config, "cobalt.constants"),
            ),
        )


def _branches(given: Any, turns: int, n: int) -> tuple[int, ...]:
    """The setting ``cobalt.dialogue.branches`` as numbers, () for null.

    Raises InputError unless it has one number per turn, whose product is ``rollout.n``.
    """
    if given is None:
        return ()
    setting = f"cobalt.dialogue.branches={given}"
    numbers = [] if isinstance(given, str | int | float) else list(given)
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise InputError(f"{setting}: must be null or a list of whole numbers from 1, such as [4, 2, 1]")
    if len(numbers) != turns:
        raise InputError(f"{setting}: has {len(numbers)} numbers for cobalt.dialogue.turns={turns}")
    if math.prod(numbers) != n:
        raise InputError(
            f"{setting}: makes {math.prod(numbers)} rollouts of a prompt, and actor_rollout_ref.rollout.n={n}"
        )
    return tuple(numbers)


def recorded(reward: float, turns: tuple[Turn, ...], info: Mapping[str, Any]) -> Rollout:
    """The record of a rollout on a row with ``extra_info`` ``info``."""
    return Rollout(reward, turns, float(info.get("prev_best_pass_rate") or 0.0), info.get("index"))


@dataclass
class Dialogue:
    """One rollout. All lists over response tokens have one length; ``mask`` is 1 on the policy's tokens.

    Of turn t: ``begins[t]`` and ``ends[t]``, the places of its first token and after its last; ``texts[t]``,
    what the policy wrote; ``leaves[t]``, the rollout of the group that it was sampled for. ``shared``: turns
    that another rollout has in its loss. ``scores``: of the last turns, as many as were judged on all tests.
    ``leaf``: this rollout's number in its group; ``request``: its name with a server; ``extra``: what the
    engine said of the last response.
    """

    prompt_ids: list[int]
    leaf: int = 0
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)
    extra: dict[str, Any] = field(default_factory=dict)
    request: str = field(default_factory=lambda: uuid4().hex)
    complete: bool = False
    since: list[dict[str, str]] = field(default_factory=list)  # messages after the prompt

    def room(self, settings: DialogueSettings) -> int:
        """Tokens that the next response may have."""
        return min(settings.max_turn_tokens, settings.response_length - len(self.response_ids))

    @property
    def context(self) -> list[int]:
        """Everything so far: what the next response is sampled after."""
        return self.prompt_ids + self.response_ids

    def add_response(self, ids: list[int], logprobs: list[float], text: str) -> None:
        """A turn of the policy."""
        self.begins.append(len(self.response_ids))
        self.leaves.append(self.leaf)
        self.response_ids += ids
        self.logprobs += logprobs
        self.mask += [1] * len(ids)
        self.ends.append(len(self.response_ids))
        self.texts.append(text)

    def add_feedback(self, ids: list[int], settings: DialogueSettings) -> None:
        """Feedback, unless it leaves no room for a response: then the dialogue is complete."""
        if len(self.response_ids) + len(ids) >= settings.response_length:
            self.complete = True
            return
        self.response_ids += ids
        self.logprobs += [0.0] * len(ids)
        self.mask += [0] * len(ids)

    def fork(self, leaf: int) -> Dialogue:
        """A copy, to go on from as another rollout of the group."""
        copies = {key: copy(value) for key, value in vars(self).items()}
        return Dialogue(**{**copies, "leaf": leaf, "request": uuid4().hex})

    def share(self, turn: int) -> None:
        """Leave turn ``turn`` to the loss of another rollout."""
        begin, end = self.begins[turn], self.ends[turn]
        self.mask[begin:end] = [0] * (end - begin)
        self.shared.add(turn)

    def record(self, score: Score, info: Mapping[str, Any], turns: int) -> Rollout:
        """What estimators and losses learn of it. ``score``: of the whole; ``info``: the row's extra_info;
        ``turns``: the most that a dialogue has.
        """
        unjudged: list[Score | None] = [None] * (len(self.ends) - len(self.scores))
        judged = enumerate([*unjudged, *self.scores])
        made = (
            Turn(
                reward=each.reward if each else None,
                passing=each.passing if each else (),
                begin=self.begins[turn],
                end=self.ends[turn],
                node=self.leaves[turn] * turns + turn,
                shared=turn in self.shared,
            )
            for turn, each in judged
        )
        return recorded(score.reward, tuple(made), info)


def served_context(dialogue: Dialogue, prompt: Sequence[Any], tokenizer: Any) -> list[int]:
    """Token ids that a server samples the last response after: the messages rendered anew, in which many
    templates leave out earlier thinking. ``prompt``: the messages that the dialogue opens with.
    """
    messages = [*prompt, *dialogue.since[: 2 * (len(dialogue.texts) - 1)]]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    return ids


class Judge:
    """Verdicts on the turns of dialogues."""

    def __init__(self, scorer: Scorer, tokenizer: Any, settings: DialogueSettings) -> None:
        self.scorer, self.tokenizer, self.settings = scorer, tokenizer, settings
        self.end = turn_end(tokenizer)
        self._said = set[str]()

    def text(self, ids: Sequence[int]) -> str:
        """What the policy wrote with these tokens."""
        written: str = self.tokenizer.decode(self.end.written(ids), skip_special_tokens=True)
        return written

    async def after_turn(self, dialogue: Dialogue, row: Mapping[str, Any]) -> None:
        """Judge the last turn of ``dialogue`` and add feedback, or complete it.

        ``row`` has verl's fields of the prompt and ``public_test_cases``. A turn that the evaluator gives no
        verdict on completes the dialogue, with a masked score.
        """
        if len(dialogue.texts) == self.settings.turns:
            dialogue.complete = True
        elif lost := await self._show(dialogue, row):
            dialogue.scores.append(lost)
            dialogue.complete = True
            return
        if dialogue.complete or self.settings.every_turn:
            # feedback, where it was added, is no part of what this program had been shown
            turn = len(dialogue.texts) - 1
            shown = dialogue.since[: 2 * turn]
            dialogue.scores.append(await self.scorer.score_row(dialogue.texts[-1], row, turn, shown))

    async def _show(self, dialogue: Dialogue, row: Mapping[str, Any]) -> Score | None:
        """Run the last turn's program on the public tests and add the feedback; a score without a verdict."""
        ended = self.end.of(dialogue.response_ids)
        code, given = extract_code(dialogue.texts[-1]), self.settings
        validation = is_validation(row["extra_info"])
        tests = TestCases.parse(row[PUBLIC], where=PUBLIC).to_mapping()
        result, faults = await self.scorer.verdict(code, tests)
        if result is None:
            return self.scorer.lost(faults, 0.0, validation=validation)
        if self.settings.stop_when_passed and all(result["passing"]):
            dialogue.complete = True
            return None
        try:
            turn = len(dialogue.texts) - 1
            text = message(given.feedback, result=result, code=code, prompts=given.prompts, turn=turn)
        except InfraError as error:
            if validation:
                raise
            self._say(str(error))
            return self.scorer.lost(0, validation=False)
        dialogue.add_feedback(next_turn_ids(self.tokenizer, text, self.end, ended), given)
        said = (("assistant", dialogue.texts[-1]), ("user", text))
        dialogue.since += [{"role": role, "content": content} for role, content in said]
        return None

    def _say(self, fault: str) -> None:
        """Why a sample is masked, once for each reason."""
        if fault not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(fault)
            print(f"cobalt: masked: {fault}", flush=True)

    def total(self, dialogue: Dialogue, *, validation: bool) -> Score:
        """The score of a complete dialogue: that of its last program, or ``max`` or ``mean`` over turns.

        ``info`` is that of the last program, and ``turns``. In validation the last program counts. A masked
        turn masks the dialogue.
        """
        final = next((score for score in dialogue.scores if score.masked), dialogue.scores[-1])
        rewards = [score.reward for score in dialogue.scores]
        reward = final.reward
        if not validation and not final.masked and self.settings.reward != "last":
            reward = max(rewards) if self.settings.reward == "max" else sum(rewards) / len(rewards)
        return Score(reward, final.masked, {**final.info, "turns": float(len(dialogue.texts))}, final.passing)
