"""Training dialogues of the tiny reference: messages, and tokens with targets and weights; its recipe."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.prompts import Prompts
from cobalt.schema import Message
from cobalt.tasks import tiny


@dataclass(frozen=True)
class Mixture:
    """What follows a failing program in a training dialogue; the shares sum to 1."""

    repeat: float
    guess: float
    repair: float


@dataclass(frozen=True)
class Recipe:
    """Settings of the reference: model size, optimiser, stages."""

    hidden: int = 96
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 24
    mlp: int = 256
    positions: int = 1024
    drill_steps: int = 1600  # repairs only, see `drill`
    clean_steps: int = 200
    noisy_steps: int = 250
    clean: Mixture = Mixture(0.05, 0.20, 0.75)
    noisy: Mixture = Mixture(0.60, 0.25, 0.15)
    change_after_pass: float = 0.15  # of all-passed messages: another draw of the vague slots follows
    corrupt: float = 0.08  # share of guesses with one stated slot ignored
    batch_tokens: int = 3000
    lr: float = 3e-3
    seed: int = 2

    def fits(self) -> dict[int, int | str]:
        """First steps of the trainings that follow one another, each with an optimizer of its own, and what
        seeds their dialogues.
        """
        return {0: f"reference {self.seed}"}

    def scale(self, step: int) -> float:
        """Learning rate of a step as a share of `lr`: a warm-up, then half a cosine over all steps."""
        return self._falling(step, self.drill_steps + self.clean_steps + self.noisy_steps)

    def _falling(self, step: int, total: int) -> float:
        return min(1.0, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / total)))


def fence(code: str) -> str:
    """A completion: the program as a fenced block."""
    return f"```python\n{code}\n```"


class Lesson(Protocol):
    """A task, and what somebody who learns to solve it may write."""

    instruction: str
    right: Any

    def guess(self, rng: random.Random) -> Any:
        """A program that somebody may write who has only read the statement."""

    def text(self, guess: Any) -> str:
        """Its text."""

    def said(self, guess: Any) -> str | None:
        """Feedback on it: None if it passes. Raises ValueError if no dialogue is to show it."""


@dataclass(frozen=True)
class TinyLesson:
    """A task of the tiny family; `corrupt` is the share of guesses with one stated slot ignored."""

    right: tiny.Spec
    vague: frozenset[str]
    tests: list[tuple[str, str]]
    corrupt: float

    @classmethod
    def draw(cls, rng: random.Random, corrupt: float) -> TinyLesson:
        """A task of the training structures."""
        return cls(*tiny.draw(rng, "train", tiny.N_PUBLIC), corrupt)

    @property
    def instruction(self) -> str:
        return tiny.statement(self.right, self.vague)

    def guess(self, rng: random.Random) -> tiny.Spec:
        guess = tiny.redraw(rng, self.right, self.vague)
        if rng.random() < self.corrupt:
            guess = tiny.redraw(rng, guess, frozenset([rng.choice(tiny.SLOTS)]))
        return guess

    def text(self, guess: tiny.Spec) -> str:
        return tiny.program(guess)

    def said(self, guess: tiny.Spec) -> str | None:
        for stdin, expected in self.tests:
            output = tiny.output_of(guess, list(map(int, stdin.split())))
            if output is None:
                raise ValueError("the program raises")
            if output != expected.strip():
                return wrong_answer_feedback(stdin, output, expected)
        return None


Draw = Callable[[random.Random], Lesson]


def dialogue(
    rng: random.Random, turns: int, mixture: Mixture, change_after_pass: float, prompts: Prompts, draw: Draw
) -> list[Message]:
    """One training dialogue of ``turns`` programs."""
    while True:
        lesson = draw(rng)
        messages: list[Message] = prompts.messages(lesson.instruction)
        guess = lesson.guess(rng)
        try:
            for turn in range(turns):
                messages.append({"role": "assistant", "content": fence(lesson.text(guess))})
                said = lesson.said(guess)
                if turn == turns - 1:
                    return messages
                messages.append({"role": "user", "content": prompts.feedback_message(said)})
                luck = rng.random()
                if said is None:
                    if luck < change_after_pass:
                        guess = lesson.guess(rng)
                elif luck >= mixture.repeat + mixture.guess:
                    guess = lesson.right
                elif luck >= mixture.repeat:
                    guess = lesson.guess(rng)
        except ValueError:
            continue  # a guess that raises: such dialogues are left out of the training text


def drill(
    rng: random.Random, attempts: int, prompts: Prompts, draw: Draw
) -> tuple[list[Message], list[tuple[str, str]]]:
    """A dialogue of ``attempts`` guesses that all fail, then the right program, kept when it has passed.

    Returns the messages and, for each program, its text with the text of the right program: after a failure
    the model is trained towards the right program whatever guess stands there, so that one dialogue holds
    ``attempts`` repairs to learn from.
    """
    while True:
        lesson = draw(rng)
        messages: list[Message] = prompts.messages(lesson.instruction)
        right = fence(lesson.text(lesson.right))
        programs = []
        for _ in range(20 * attempts):
            guess = lesson.guess(rng)
            try:
                said = lesson.said(guess)
            except ValueError:
                continue
            if said is None:
                continue
            programs.append((fence(lesson.text(guess)), right))
            messages.append({"role": "assistant", "content": programs[-1][0]})
            messages.append({"role": "user", "content": prompts.feedback_message(said)})
            if len(programs) == attempts:
                programs += [(right, right)] * 2
                last: Message = {"role": "assistant", "content": right}
                return [
                    *messages,
                    last,
                    {"role": "user", "content": prompts.feedback_message(None)},
                    last,
                ], programs


Encoded = tuple[list[int], list[int], list[float]]  # token ids, targets, loss weights, all [tokens]


def encode(tokenizer: Any, messages: list[Message]) -> Encoded:
    """A dialogue as token ids; weight 1 for each token the model has to produce (the end marker included)."""
    ids: list[int] = []
    weights: list[float] = []
    for message in messages:
        head = _ids(tokenizer, f"<|im_start|>{message['role']}\n")
        body = [*_ids(tokenizer, message["content"]), tokenizer.eos_token_id]
        tail = _ids(tokenizer, "\n")
        mine = float(message["role"] == "assistant")
        ids += head + body + tail
        weights += [0.0] * len(head) + [mine] * len(body) + [0.0] * len(tail)
    return ids, ids, weights


def encode_drill(tokenizer: Any, messages: list[Message], programs: list[tuple[str, str]]) -> Encoded:
    """A drill: where a program's line leaves the right one, the target is the token of the right line."""
    ids, _, weights = encode(tokenizer, messages)
    targets = list(ids)
    at = 0
    for number, (guess, right) in enumerate(programs):
        at += weights[at:].index(1.0)
        length = weights[at:].index(0.0) if 0.0 in weights[at:] else len(weights) - at
        for i, token in _corrections(tokenizer, guess, right):
            targets[at + i] = token
        if number == 0:  # the first program is a guess: syntax to learn, no repair
            targets[at : at + length] = ids[at : at + length]
            weights[at : at + length] = [0.1] * length
        at += length
    return ids, targets, weights


def _corrections(tokenizer: Any, guess: str, right: str) -> list[tuple[int, int]]:
    """(position in the guess, token of the right program) where each line first differs."""
    out, position = [], 0
    lines = guess.splitlines(True), right.splitlines(True)
    for mine, theirs in zip(*lines, strict=False):
        a, b = _ids(tokenizer, mine), _ids(tokenizer, theirs)
        first = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), None)
        if first is not None:
            out.append((position + first, b[first]))
            if len(lines[0]) != len(lines[1]):  # the lines that follow may not stand for one another
                break
        position += len(a)
    return out


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
