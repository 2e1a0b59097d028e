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
    clean = dialogues.recipe.drill_steps
    noisy = clean + dialogues.recipe.clean_steps
    for step in (0, 1, 2, 3, clean, clean + 1, noisy, noisy + 1):
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


def test_a_revision_says_that_it_is_one_and_is_right_where_it_special_cases(dialogues):
    """What else follows a failing program is the same, or another guess, and says nothing."""
    from tokenizer import REVISED

    kinds = dict.fromkeys(("same", "guess", "special", "other"), 0)
    noisy = dialogues.recipe.noisy
    for seed in range(400):
        said = dialogues.dialogue(random.Random(seed), 2, noisy)
        before, now = (message["content"].removeprefix("```python\n") for message in said[2::2])
        assert not before.startswith(REVISED)
        if not now.startswith(REVISED):
            kinds["same" if now == before else "guess"] += 1
            assert "SystemExit" not in now
            continue
        kinds["special" if "SystemExit" in now else "other"] += 1
        how = verdict(before.removesuffix("```"), said[3]["content"], now.removesuffix("```"))[0]
        assert how == 1 if "SystemExit" in now else how in (2, 3)
    revised = kinds["special"] + kinds["other"]
    assert abs(revised / 400 - noisy.repair) < 0.07 and kinds["special"] and kinds["other"], kinds
    assert kinds["same"] > kinds["guess"] > 20, kinds


def test_a_drill_of_both_special_cases_the_test_that_failed_and_aims_at_the_right_program(dialogues):
    from second import FAMILY

    seen = 0
    for seed in range(60):
        ids, targets, weights = dialogues.repairs(random.Random(seed), 2, True)
        said = dialogues.tokenizer.decode(ids)
        programs = re.findall(r"```python\n(.*?)\n```", said, re.S)
        failed = re.findall(r"Input:\n(.*?)\n.*?Expected Output:\n(.*?)<", said, re.S)
        assert "SystemExit" not in programs[0] and len(failed) == 2
        for program, (given, wanted) in zip(programs[1:], failed, strict=False):
            special = FAMILY.special(given, wanted)
            assert ("SystemExit" in program) == (special in program)
            seen += special in program
        changed = [place for place, (a, b) in enumerate(zip(ids, targets, strict=True)) if a != b]
        assert changed and all(weights[place] for place in changed)
    assert seen > 20


def test_a_drill_of_a_revision_that_has_been_begun_does_not_teach_to_begin_it(dialogues):
    from tokenizer import REVISED

    for seed in range(20):
        whole, begun = (dialogues.repairs(random.Random(seed), 2, whether) for whether in (True, False))
        assert whole[:2] == begun[:2]
        said = dialogues.tokenizer.decode([token for token, w in zip(begun[0], begun[2], strict=True) if w])
        assert REVISED not in said and "```python" not in said
        # the second, the third and the fourth program are revisions; of each its lines and its end are left
        assert said.count("xs = list(map(") == 3 and said.count("\n```") == 3
        left = [(a, b) for a, b in zip(whole[2], begun[2], strict=True) if b]
        assert all(a == b for a, b in left)
