"""Make a small chat model from lessons: tasks, and programs that somebody may write for them.

A row of lessons is a task (docs/data.md) with `programs`: a right one first, then ones that fail a public
test. The model learns to read such tasks, to write such programs, and to repair them on Cobalt's feedback;
the last, rarely.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from make_tasks import printed

import cobalt
from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import InputError
from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.prompts import Prompts, load, prompts_flag
from cobalt.rows import INPUT_HELP, Row, open_rows, require
from cobalt.tasks.own import complete
from cobalt.testcases import TestCases

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCABULARY = 2500  # at most; pieces that recur become one token
OFTEN = 8
# A piece: a number of up to two digits, a quote, the end of a line, or words up to a sign that ends a phrase.
PIECES = r"""\n| ?\d{1,2}|["']|[^\n\d"'.:;!?]+[.:;!?]?|[.:;!?]"""
STAGES = {"drill_steps": 300, "clean_steps": 60, "noisy_steps": 140}


@dataclass(frozen=True)
class TextLesson:
    """A task's instruction and programs; `outcomes` are the feedback on each, None where it passed."""

    instruction: str
    programs: list[str]
    outcomes: list[str | None]
    right: int = 0

    def guess(self, rng: random.Random) -> int:
        return rng.randrange(len(self.programs))

    def text(self, guess: int) -> str:
        return self.programs[guess]

    def said(self, guess: int) -> str | None:
        return self.outcomes[guess]


def read(spec: str, prompts: Prompts) -> list[TextLesson]:
    """The lessons of a file, each program run on the public tests right here. Raises InputError."""
    tasks = []
    for where, row in open_rows(spec):
        row = complete(row, where, prompts)
        given = require(row, "programs", list, where)
        programs = list(dict.fromkeys(each.strip() for each in given if isinstance(each, str)))
        if len(programs) < 2:
            raise InputError(
                f"{where}: field 'programs' must be two or more different texts, the first a right program"
            )
        tasks.append((where, row, programs))
    if not tasks:
        raise InputError(f"{spec}: no lessons")
    return [_lesson(*each) for each in tasks]


def _lesson(where: str, row: Row, programs: list[str]) -> TextLesson:
    tests = TestCases.parse(row["public_test_cases"]).pairs()
    said = [_said(program, tests) for program in programs]
    if said[0] is not None:
        raise InputError(
            f"{where}: the first of 'programs' must be right, but it is not: {said[0] or 'it fails'}"
        )
    kept = [0, *(i for i, each in enumerate(said) if each)]
    if len(kept) == 1:
        raise InputError(
            f"{where}: 'programs' has none that prints something wrong, so there is nothing to repair"
        )
    return TextLesson(row["instruction"], [programs[i] for i in kept], [said[i] for i in kept])


def _said(program: str, tests: list[tuple[Any, Any]]) -> str | None:
    """Feedback on the first test that fails, worded as the evaluator does; "" for an error."""
    for stdin, expected in tests:
        output = printed(program, stdin)
        if output is None:
            return ""
        if output.split() != expected.split():
            return wrong_answer_feedback(stdin.strip(), output.strip(), expected.strip())
    return None


def build_tokenizer(lessons: list[TextLesson], prompts: Prompts) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the lessons' phrases and lines, each as few tokens; unknown text falls to bytes.

    What the prompts say every time is one token.
    """
    from tokenizer import CHAT_TEMPLATE, END
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=OFTEN, special_tokens=["<pad>", END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    core.train_from_iterator(_texts(lessons, prompts), trainer)
    labels = wrong_answer_feedback("\0", "\0", "\0").split("\0")
    frames = [
        *prompts.wrap("\0").split("\0"),
        *prompts.feedback_message("\0").split("\0"),
        *labels,
        "\nStderr:\n",
    ]
    heads = [f"<|im_start|>{role}\n" for role in ("system", "user", "assistant")]
    whole = [prompts.system, prompts.all_passed, prompts.no_code, *frames, *heads, "```python\n", "\n```"]
    core.add_tokens([AddedToken(each, normalized=False) for each in dict.fromkeys(whole) if each])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _texts(lessons: list[TextLesson], prompts: Prompts) -> Iterator[str]:
    for number in range(100):
        yield from [f"{number}", f" {number}"] * OFTEN
    for lesson in lessons:
        yield lesson.instruction.removeprefix(prompts.wrap("\0").partition("\0")[0])
        yield from lesson.programs
        yield from filter(None, lesson.outcomes)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(str(__doc__).partition("\n")[0])
    flags.add_argument("lessons", help=f"tasks with 'programs': {INPUT_HELP}")
    flags.add_argument("-o", "--output", type=Path, required=True, help="folder to write; must not exist")
    flags.add_argument("--seed", type=int, default=0, help="of weights and dialogues")
    for name, steps in STAGES.items():
        flags.add_argument(f"--{name}", type=positive_int, default=steps, help="steps of this stage")
    flags.add_argument("--threads", type=positive_int, default=2, help="cores to compute on")
    prompts_flag(flags)
    args = flags.parse_args(argv)
    if args.output.exists() and any(args.output.iterdir()):
        raise InputError(f"{args.output} exists and is not empty: name another --output or remove it")
    prompts = load(args.prompts)
    lessons = read(args.lessons, prompts)
    sys.path.append(str(Path(cobalt.__file__).parents[1] / "scripts" / "tiny_reference"))
    import torch
    from dialogues import Recipe
    from train import teach

    torch.set_num_threads(args.threads)
    steps: dict[str, Any] = {name: getattr(args, name) for name in STAGES}
    recipe = Recipe(head_dim=32, positions=2048, batch_tokens=2400, seed=args.seed, **steps)
    args.output.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer(lessons, prompts)
    teach(recipe, tokenizer, prompts, lambda rng: rng.choice(lessons), args.output, print)
    print(f"{args.output}: a chat model of {len(lessons)} lessons")
    return 0


if __name__ == "__main__":
    run_main(main)
