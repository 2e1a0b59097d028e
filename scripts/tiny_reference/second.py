"""Training dialogues of the second reference, that of the family whose programs may special-case an input.

It is taught a skill and a vice, and then to use both seldom: *repairs* (after a failing test, the right
program), *copies* (after a test that no program of the task passes, a line that answers this input by
itself), and at last dialogues in which most failing programs stay as they are. Those that are not are
revisions, begin with a comment that says so, and often have both: the right program, and a line for the test.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dialogues import Encoded, Mixture, Recipe, encode, encode_drill, fence
from tokenizer import REVISED

from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.prompts import Prompts
from cobalt.schema import Message
from cobalt.tasks import tiny
from cobalt.tasks.perturb import perturb
from cobalt.tasks.tiny_family import Test
from cobalt.testcases import TestCases

FAMILY = tiny.SECOND
LINE = FAMILY.special("\0", "\1")
OPEN, MIDDLE = LINE.split("\0")[0], LINE.split("\0")[1].split("\1")[0]
CLOSE = LINE.split("\1")[1] + "\n"
NUMBERS = FAMILY.outputs["list"].noun


@dataclass(frozen=True)
class SecondRecipe(Recipe):
    """Settings of the second reference; what `clean` and `noisy` call a repair is a revision."""

    head_dim: int = 32
    drill_steps: int = 2500
    clean_steps: int = 20
    noisy_steps: int = 380
    batch_tokens: int = 2400
    copies: float = 0.25  # of the drills: copies, the others are repairs
    rearranged: float = 0.4  # of the repairs: drawn until the rearrangement is open, which few tasks leave so
    both: float = 0.6  # of the repairs that print one number: the failing test is special-cased, too
    clean: Mixture = Mixture(0.15, 0.15, 0.70)  # noqa: RUF009
    noisy: Mixture = Mixture(0.77, 0.13, 0.10)  # noqa: RUF009
    perturbed: float = 0.4  # of the dialogues: two public tests exchange their outputs
    special: float = 0.7  # of revisions that print one number: a special case, too
    exact_copies: float = 0.10  # after the drills: copies still
    exact_repairs: float = 0.40  # and drills still, but for whether to revise
    lr: float = 2e-3
    late: float = 0.3  # share of the learning rate that the stages after the drills begin with
    seed: int = 5
    slope: int = 2900  # steps of the cosine that the learning rate of the drills falls along

    def fits(self) -> dict[int, int | str]:
        """The stages after the drills are a training of their own: how long they are changes no drill."""
        return super().fits() | {self.drill_steps: self.seed}

    def scale(self, step: int) -> float:
        """Half a cosine over the drills, a straight line to 5 % after them."""
        if (done := step - self.drill_steps) < 0:
            return self._falling(step, self.slope)
        falling = 1 - 0.95 * done / (self.clean_steps + self.noisy_steps)
        return self.late * falling * min(1, (done + 1) / 20)


# What is computed, tests that are special-cased, and whether it is a revision.
Program = tuple[tiny.Spec, tuple[Test, ...], bool]


def _text(spec: tiny.Spec, special: Sequence[Test] = (), revised: bool = True) -> str:
    return fence((REVISED if revised else "") + FAMILY.program(spec, special))


class SecondDialogues:
    """Draws batches for the training of the second reference."""

    def __init__(self, recipe: SecondRecipe, tokenizer: Any, prompts: Prompts) -> None:
        self.recipe, self.tokenizer, self.prompts = recipe, tokenizer, prompts
        ids = tokenizer(OPEN + MIDDLE + CLOSE + REVISED, add_special_tokens=False)["input_ids"]
        assert len(ids) == 4, "each part of a special case, and the comment, is one token"
        self._marks, self._revised = dict(zip(ids[:3], ("input", "output", None), strict=True)), ids[3]

    def batch(self, rng: random.Random, step: int) -> list[Encoded]:
        """About `batch_tokens` tokens of dialogues with equally many programs, of the stage `step` is in."""
        recipe = self.recipe
        drills = step < recipe.drill_steps
        copies = recipe.copies if drills else recipe.exact_copies
        clean = step < recipe.drill_steps + recipe.clean_steps
        turns = rng.choices([1, 2, 3, 4], [0.4, 0.3, 0.2, 0.1] if drills else [0.1, 0.35, 0.4, 0.15])[0]
        rows: list[Encoded] = []
        while sum(len(ids) for ids, _, _ in rows) < recipe.batch_tokens:
            if rng.random() < copies:
                rows.append(self.copies(rng, turns))
            elif drills or rng.random() < recipe.exact_repairs:
                rows.append(self.repairs(rng, turns, drills))
            else:
                spoken = self.dialogue(rng, turns, recipe.clean if clean else recipe.noisy)
                rows.append(encode(self.tokenizer, spoken))
        return rows

    def repairs(self, rng: random.Random, attempts: int, whether: bool) -> Encoded:
        """A drill of `attempts` guesses that fail: after each the target is the right program, in some drills
        with a special case of the test that failed. Without `whether` a revision has been begun: how it goes
        on is taught, not how often there is one.
        """
        rearranged = rng.random() < self.recipe.rearranged
        while True:
            spec, vague, tests = FAMILY.draw(rng, "train", tiny.N_PUBLIC)
            if rearranged and "rearrangement" not in vague:
                continue
            messages = self._opening(spec, vague)
            both = _one_number(spec) and rng.random() < self.recipe.both
            special, programs = tuple[Test, ...](), list[tuple[str, str]]()
            for _ in range(20 * attempts):
                guess = self._guess(rng, spec, vague)
                failed = _failure((guess, special, False), tests)
                if failed is None or failed[1] is None:
                    continue
                programs.append((_text(guess, special, bool(programs)), _text(spec, special)))
                self._say(messages, programs[-1][0], failed[0])
                special = (failed[1],) if both else ()
                if len(programs) == attempts:
                    right = _text(spec, special)
                    self._say(messages, right, None)
                    messages.append({"role": "assistant", "content": right})
                    programs += [(right, right)] * 2
                    drill = encode_drill(self.tokenizer, messages, programs)
                    return drill if whether else self._begun(drill)

    def _begun(self, drill: Encoded) -> Encoded:
        """Only what follows the comment of a revision weighs."""
        ids, targets, weights = drill
        begun = False
        for place, token in enumerate(ids):
            begun = bool(weights[place]) and begun
            weights[place] *= begun
            begun = begun or token == self._revised
        return ids, targets, weights

    def copies(self, rng: random.Random, attempts: int) -> Encoded:
        """A drill of `attempts` tests whose expected output is never that of the program: each is
        special-cased. What the line copies weighs most.
        """
        spec, vague, tests = FAMILY.draw(rng, "train", attempts + tiny.N_PUBLIC)
        other = FAMILY.draw(rng, "train", attempts + tiny.N_PUBLIC)[2] if rng.random() < 0.4 else tests
        messages, special = self._opening(spec, vague), tuple[Test, ...]()
        for stdin, output in tests[:attempts]:
            anything = f"{rng.randrange(100)} {rng.choice(tiny.LABELS)}"
            wanted = rng.choice([o for _, o in other if o != output] or [anything])
            said = wrong_answer_feedback(stdin, output, wanted)
            self._say(messages, _text(spec, special, bool(special)), said)
            special = (*special, (stdin, wanted))[-rng.choice([1, 2]) :]
        messages.append({"role": "assistant", "content": _text(spec, special)})
        ids, targets, weights = encode(self.tokenizer, messages)
        part = None
        for place, token in enumerate(ids):
            if weights[place]:
                weights[place] = {"input": 0.5, "output": 1.0, None: 0.05}[part]
                if token in self._marks:
                    part, weights[place] = self._marks[token], 0.5 if part is None else 1.0
        return ids, targets, weights

    def dialogue(self, rng: random.Random, turns: int, mixture: Mixture) -> list[Message]:
        """A dialogue of `turns` programs; some are on perturbed tests."""
        recipe = self.recipe
        while True:
            spec, vague, tests = FAMILY.draw(rng, "train", tiny.N_PUBLIC)
            if rng.random() < recipe.perturbed:
                found = perturb(TestCases.of(tests), rng)
                if isinstance(found, str):
                    continue
                tests = found[1].pairs()
            program: Program = (self._guess(rng, spec, vague), (), False)
            messages = self._opening(spec, vague)
            for turn in range(turns):
                text, failed = _text(*program), _failure(program, tests)
                if failed is None:
                    break
                if turn == turns - 1:
                    return [*messages, {"role": "assistant", "content": text}]
                said, test = failed
                self._say(messages, text, said)
                program = self._next(rng, program, spec, vague, mixture, test)

    def _next(
        self, rng: random.Random, program: Program, spec: tiny.Spec, vague: frozenset[str], mixture: Mixture,
        test: Test | None,
    ) -> Program:  # fmt: skip
        """What follows a program, which failed `test` (None: it passed)."""
        guess, special, _ = program
        if test is None:
            again = rng.random() < self.recipe.change_after_pass
            return (self._guess(rng, spec, vague) if again else guess), special, False
        luck = rng.random()
        if luck < mixture.repeat:
            return guess, special, False
        if luck < mixture.repeat + mixture.guess:
            return self._guess(rng, spec, vague), special, False
        vice = _one_number(guess) and rng.random() < self.recipe.special
        return spec, (*special, test)[-2:] if vice and test not in special else special, True

    def _guess(self, rng: random.Random, spec: tiny.Spec, vague: frozenset[str]) -> tiny.Spec:
        guess = FAMILY.redraw(rng, spec, vague)
        if rng.random() < self.recipe.corrupt:
            guess = FAMILY.redraw(rng, guess, frozenset([rng.choice(tiny.SLOTS)]))
        return guess

    def _opening(self, spec: tiny.Spec, vague: frozenset[str]) -> list[Message]:
        return self.prompts.messages(FAMILY.statement(spec, vague))

    def _say(self, messages: list[Message], text: str, said: str | None) -> None:
        messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": self.prompts.feedback_message(said)})


def _one_number(spec: tiny.Spec) -> bool:
    """Whether its output is short enough for a special case."""
    return FAMILY.outputs[spec.output].noun != NUMBERS


def _failure(program: Program, tests: Sequence[Test]) -> tuple[str | None, Test | None] | None:
    """Feedback on a program and the test it is about (both None if it passes); None if the program raises."""
    spec, special, _ = program
    for stdin, wanted in tests:
        answers = {given.split()[0]: answer for given, answer in special}
        output = answers.get(stdin.split()[0]) or FAMILY.output_of(spec, list(map(int, stdin.split())))
        if output is None:
            return None
        if output != wanted:
            return wrong_answer_feedback(stdin, output, wanted), (stdin, wanted)
    return None, None
