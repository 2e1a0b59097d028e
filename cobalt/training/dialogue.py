"""Online dialogues as tokens: responses of the policy, feedback between them, and a mask that tells which is
which. Used by the batch path on CPU and by verl's agent loops alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cobalt.engines.turn_end import next_turn_ids, turn_end
from cobalt.errors import InputError
from cobalt.prompts import Prompts, load
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.data import PUBLIC
from cobalt.training.scoring import Score, Scorer, is_validation

TURNS = "cobalt_turns"  # in extra_fields of a rollout: its judged turns, for dense estimators


@dataclass(frozen=True)
class DialogueSettings:
    """The section ``cobalt.dialogue``: at most ``turns`` programs, ``max_turn_tokens`` per response,
    ``response_length`` tokens of responses and feedback in all. ``reward``: of the ``last`` program, or
    ``max`` or ``mean`` over turns. ``every_turn``: every program is judged on all tests, not only the last.
    """

    turns: int
    max_turn_tokens: int
    response_length: int
    reward: Literal["last", "max", "mean"]
    stop_when_passed: bool
    prompts: Prompts
    every_turn: bool = False

    @classmethod
    def read(cls, config: Any) -> DialogueSettings:
        """From a composed training configuration. Raises InputError for values that cannot be used."""
        given, length = config.cobalt.dialogue, int(config.data.max_response_length)
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
            prompts=load(given.prompts),
            every_turn=bool(given.every_turn) or given.reward != "last",
        )


@dataclass
class Dialogue:
    """One rollout. All lists over response tokens have one length; ``mask`` is 1 on the policy's tokens.

    ``ends[t]``: place after turn t's last token; ``texts[t]``: what the policy wrote; ``said[t]``: the
    feedback on it; ``scores[t]``: its score on all tests, where it was judged.
    """

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
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


def served_context(dialogue: Dialogue, prompt: Sequence[Any], tokenizer: Any) -> list[int]:
    """Token ids that a server samples the last response after: the messages rendered anew, in which many
    templates leave out earlier thinking. ``prompt``: the messages that the dialogue opens with.
    """
    messages = list(prompt)
    for text, said in zip(dialogue.texts[:-1], dialogue.said, strict=False):
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": said}]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    return ids


class Judge:
    """Verdicts on the turns of dialogues."""

    def __init__(self, scorer: Scorer, tokenizer: Any, settings: DialogueSettings) -> None:
        self.scorer, self.tokenizer, self.settings = scorer, tokenizer, settings
        self.end = turn_end(tokenizer)

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
            dialogue.scores.append(await self.scorer.score_row(dialogue.texts[-1], row, best=False))

    async def _show(self, dialogue: Dialogue, row: Mapping[str, Any]) -> Score | None:
        """Run the last turn's program on the public tests and add the feedback; a score without a verdict."""
        from cobalt.evaluator.feedback import first_failure

        ended = self.end.of(dialogue.response_ids)
        code, prompts = extract_code(dialogue.texts[-1]), self.settings.prompts
        tests = TestCases.parse(row[PUBLIC], where=PUBLIC).to_mapping()
        result, faults = await self.scorer.verdict(code, tests)
        if result is None:
            return self.scorer.lost(faults, 0.0, validation=is_validation(row["extra_info"]))
        if self.settings.stop_when_passed and all(result["passing"]):
            dialogue.complete = True
            return None
        failed = first_failure(result, prompts.failing_tests)
        message = prompts.feedback_message(prompts.no_code if code is None else failed)
        dialogue.said.append(message)
        dialogue.add_feedback(next_turn_ids(self.tokenizer, message, self.end, ended), self.settings)
        return None

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
