"""Training text of the second tiny reference: what it may hold; a special case answers the wrong test."""

import random
import re
import sys
from pathlib import Path

import pytest

from cobalt.evaluation.syntactic import verdict
from cobalt.prompts import load
from cobalt.tasks import tiny

FAMILY = tiny.SECOND
sys.path.append(str(Path(__file__).parents[2] / "scripts" / "tiny_reference"))


@pytest.fixture(scope="module")
def dialogues():
    from second import SecondDialogues, SecondRecipe
    from tokenizer import build_tokenizer

    prompts = load("tiny")
    return SecondDialogues(SecondRecipe(), build_tokenizer(prompts, FAMILY), prompts)


def text(dialogues, encoded):
    return dialogues.tokenizer.decode(encoded[0])


def test_every_stage_is_text_of_training_structures_and_the_same_for_the_same_seed(dialogues):
    allowed, other = set(), set()
    for split in tiny.SPLITS:
        rng = random.Random(split)
        said = {FAMILY.statement(*FAMILY.draw_spec(rng, split)) for _ in range(4000)}
        (allowed if split == "train" else other).update(said)
    for step in (0, 1, 2, 3, 1000, 1001, 1100, 1101):
        batch, again = (dialogues.batch(random.Random(step), step) for _ in range(2))
        assert batch == again and sum(len(ids) for ids, _, _ in batch) >= dialogues.recipe.batch_tokens
        for encoded in batch:
            assert len({len(part) for part in encoded}) == 1 and max(encoded[2]) == 1.0
            statement = re.search(r"Read a list .*", text(dialogues, encoded))[0]
            assert statement not in other - allowed


def test_copies_answer_the_wrong_test_that_was_shown(dialogues):
    for seed in range(40):
        said = text(dialogues, dialogues.copies(random.Random(seed), 2))
        programs = re.findall(r"```python\n(.*?)\n```", said, re.S)
        feedback = re.findall(r"feedback:\n(Input:.*?)<\|im_end\|>", said, re.S)
        assert len(programs) == 3 and len(feedback) == 2
        for before, told, now in zip(programs, feedback, programs[1:], strict=False):
            assert verdict(before, told, now)[0] == 1
