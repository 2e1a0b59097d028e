"""Online dialogues as tokens: responses of the policy, feedback between them, and a mask that tells which is
which. Used by the batch path on CPU and by verl's agent loops alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cobalt.errors import InfraError, InputError
from cobalt.own import Own
from cobalt.prompts import Prompts, load
from cobalt.rollouts.feedback import message, open_feedback
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.data import PUBLIC
from cobalt.training.scoring import Score, Scorer, is_validation

TURNS = "cobalt_turns"  # in extra_fields of a rollout: its judged turns, for dense estimators
_SENTINEL = "cobalt-sentinel"
_MOST_SAID = 10  # reasons; some differ in every sample


@dataclass(frozen=True)
class DialogueSettings:
    """The section ``cobalt.dialogue``: at most ``turns`` programs, ``max_turn_tokens`` per response,
    ``response_length`` tokens of responses and feedback in all. ``reward``: of the ``last`` program, or
    ``max`` or ``mean`` over turns. ``every_turn``: every program is judged on all tests, not only the last.
    ``feedback``: ``cobalt.feedback``, a function of the user's own in place of the built-in text.
    """

    turns: int
    max_turn_tokens: int
    response_length: int
    reward: Literal["last", "max", "mean"]
    stop_when_passed: bool
    prompts: Prompts
    every_turn: bool = False
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
        if config.algorithm.adv_estimator == "cobalt_verpo" and not given.every_turn:
            raise InputError(
                "algorithm.adv_estimator=cobalt_verpo needs verdicts on every turn: "
                "cobalt.dialogue.every_turn=true"
            )
        return cls(
            turns=int(given.turns),
            max_turn_tokens=tokens,
            response_length=length,
            reward=given.reward,
            stop_when_passed=bool(given.stop_when_passed),
            prompts=prompts,
            feedback=open_feedback(
                OmegaConf.select(config, "cobalt.feedback"),
                "cobalt.feedback",
                prompts,
                OmegaConf.select(config, "cobalt.constants"),
            ),
            every_turn=bool(given.every_turn) or given.reward != "last",
        )


def feedback_ids(tokenizer: Any, message: str, *, ended: bool) -> list[int]:
    """Token ids from the end of a response to the start of the next, by the chat template: ``message`` as the
    user's, and the header.

    ``ended``: the response has its end token; otherwise (it was cut) the end token is part of the result.
    """
    turns = (("user", "?"), ("assistant", _SENTINEL), ("user", message))
    text = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in turns],
        add_generation_prompt=True,
        tokenize=False,
    )
    tail = text.partition(_SENTINEL)[2]
    if ended:
        tail = tail.removeprefix(tokenizer.eos_token or "")
    ids: list[int] = tokenizer(tail, add_special_tokens=False)["input_ids"]
    return ids


@dataclass
class Dialogue:
    """One rollout. All lists over response tokens have one length; ``mask`` is 1 on the policy's tokens.

    ``ends[t]``: place after turn t's last token; ``texts[t]``: what the policy wrote; ``scores[t]``: its
    score on all tests, where it was judged.
    """

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    complete: bool = False

    def room(self, settings: DialogueSettings) -> int:
        """Tokens that the next response may have."""
        return min(settings.max_turn_tokens, settings.response_length - len(self.response_ids))

    @property
    def context(self) -> list[int]:
        """Everything so far: what the next response is sampled after."""
        return self.prompt_ids + self.response_ids

    def add_response(self, ids: list[int], logprobs: list[float], text: str) -> None:
        """A turn of the policy."""
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

    def turns(self) -> list[dict[str, Any]]:
        """What dense estimators need: ``end`` and ``passing`` of every judged turn."""
        return [
            {"end": end, "passing": list(score.passing)}
            for end, score in zip(self.ends, self.scores, strict=False)
        ]


class Judge:
    """Verdicts on the turns of dialogues."""

    def __init__(self, scorer: Scorer, tokenizer: Any, settings: DialogueSettings) -> None:
        self.scorer, self.tokenizer, self.settings = scorer, tokenizer, settings
        self._said = set[str]()

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
            dialogue.scores.append(await self.scorer.score_row(dialogue.texts[-1], row, best=False))

    async def _show(self, dialogue: Dialogue, row: Mapping[str, Any]) -> Score | None:
        """Run the last turn's program on the public tests and add the feedback; a score without a verdict."""
        ended = bool(dialogue.response_ids) and dialogue.response_ids[-1] == self.tokenizer.eos_token_id
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
        dialogue.add_feedback(feedback_ids(self.tokenizer, text, ended=ended), given)
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
