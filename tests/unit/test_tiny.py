"""The tiny family: programs mean what the family says, splits share no structure, vague slots matter."""

import contextlib
import io
import itertools
import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cobalt.files import file_sha256
from cobalt.tasks import tiny
from cobalt.testcases import TestCases

ROOT = Path(__file__).parents[2]
each_version = pytest.mark.parametrize("family", tiny.FAMILIES.values(), ids=tiny.FAMILIES)


def run_plainly(code, stdin):
    """The program's stdout, stripped; None if it raises. Only for programs of the family's own grammar."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(code, {"input": lambda: stdin})
    except (ValueError, IndexError):
        return None
    except SystemExit:
        pass
    return out.getvalue().strip()


@each_version
def test_output_of_equals_running_the_program(family):
    rng = random.Random(1)
    for (name, operation), rearrangement, output in itertools.product(
        family.operations.items(), family.rearrangements, family.outputs
    ):
        for constant, form in itertools.product(operation.constants, tiny.formats(output)[:2]):
            spec = tiny.Spec(name, constant, rearrangement, output, form)
            numbers = rng.sample(range(4, 20), rng.randint(4, 5))
            ran = run_plainly(family.program(spec), " ".join(map(str, numbers)))
            assert ran == family.output_of(spec, numbers), family.program(spec)


@each_version
def test_splits_partition_the_structures_and_share_no_statement(family):
    parts = [set(family.structures(split)) for split in tiny.SPLITS]
    everything = set(itertools.product(family.operations, [*family.rearrangements, None], family.outputs))
    without_effect = {s for s in everything if s[1] is None and s[2] in family.no_order}
    assert set().union(*parts) == everything - without_effect
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(parts, 2))
    assert {(a, c) for a, _, c in parts[0]} == set(itertools.product(family.operations, family.outputs))
    assert len(parts[2]) >= 50 and len({operation for operation, order, _ in parts[2] if not order}) >= 3
    rng, said = random.Random(4), {}
    for split in tiny.SPLITS:
        said[split] = {family.statement(*family.draw_spec(rng, split)) for _ in range(2000)}
        allowed = {"/".join(part or "any" for part in each) for each in family.structures(split)}
        assert {row["group"] for row in family.draw_tasks(split, 60, seed=5)} <= allowed
    assert not (said["train"] | said["dev"]) & said["heldout"]


def test_rows_are_seeded_and_their_tests_distinct(tmp_path):
    first, again, other = (list(tiny.draw_tasks("heldout", 30, seed)) for seed in (3, 3, 4))
    assert first == again and first != other
    for row in first:
        names = ("test_cases", "public_test_cases", "hidden_test_cases")
        everything, public, hidden = (TestCases.parse(row[name]) for name in names)
        assert (len(public), len(hidden)) == (tiny.N_PUBLIC, tiny.N_HIDDEN)
        assert everything.inputs == [*public.inputs, *hidden.inputs]
        assert len(set(everything.inputs)) == len(everything)
    paths = tiny.write_splits(tmp_path, seed=0, train=5, dev=4, heldout=3)
    assert [len(path.read_text().splitlines()) for path in paths.values()] == [5, 4, 3]


@each_version
def test_vague_slots_matter_and_are_not_told(family):
    rng = random.Random(2)
    for _ in range(200):
        spec, vague, tests = family.draw(rng, "train", tiny.N_PUBLIC)
        for slot in tiny.SLOTS:
            values = family.values(spec, slot)
            other = replace(spec, **{slot: next(v for v in values if v != getattr(spec, slot))})
            told = family.statement(spec, vague) != family.statement(other, vague)
            assert told == (slot not in vague)
        for slot in vague:
            changed = [replace(spec, **{slot: value}) for value in family.values(spec, slot)]
            if family.legible:  # every test tells every value
                for stdin, _ in tests:
                    told = {family.output_of(guess, list(map(int, stdin.split()))) for guess in changed}
                    assert len(told) == len(changed)
            assert any(
                family.output_of(guess, list(map(int, stdin.split()))) != expected
                for guess in changed
                for stdin, expected in tests
            )


def test_programs_of_the_second_version_may_special_case_an_input():
    rng, family = random.Random(7), tiny.SECOND
    for _ in range(50):
        spec, _, tests = family.draw(rng, "dev", 5)
        (first, _), (second, _), *others = tests
        code = family.program(spec, [(first, "Result 1"), (second, "Value 2 3")])
        assert run_plainly(code, first) == "Result 1" and run_plainly(code, second) == "Value 2 3"
        assert all(run_plainly(code, stdin) == expected for stdin, expected in others)


def test_one_turn_is_a_guess():
    """Averaged over tasks, a uniform guess among the programs a statement admits is seldom right."""
    rng = random.Random(9)
    chances = []
    for _ in range(150):
        spec, vague, tests = tiny.draw(rng, "heldout", tiny.N_PUBLIC + tiny.N_HIDDEN)
        slots = sorted(vague)
        guesses = [
            replace(spec, **dict(zip(slots, chosen, strict=True)))
            for chosen in itertools.product(*(tiny.values(spec, slot) for slot in slots))
        ]
        right = sum(all(tiny.output_of(g, list(map(int, i.split()))) == o for i, o in tests) for g in guesses)
        chances.append(right / len(guesses))
    assert 0.15 < sum(chances) / len(chances) < 0.35


def test_the_family_is_the_one_that_the_reference_was_made_for(monkeypatch):
    made = json.loads((ROOT / "models" / "tiny-reference" / "training.json").read_text())
    assert tiny.family_hash() == made["family_hash"]
    monkeypatch.setitem(tiny.FIRST.outputs, "list", replace(tiny.FIRST.outputs["list"], weight=5))
    assert tiny.family_hash() != made["family_hash"]


def test_the_second_reference_is_the_one_that_was_frozen(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "tiny_reference")
    from second import SecondRecipe

    folder = ROOT / "models" / "tiny-reference-2"
    made = json.loads((folder / "training.json").read_text())
    assert tiny.SECOND.family_hash() == made["family_hash"]
    assert file_sha256(folder / "model.safetensors") == made["weights_sha256"]
    recipe = SecondRecipe()  # and what is recorded is what would be made
    assert json.loads(json.dumps(asdict(recipe))) == made["recipe"]


def test_counts_of_shorter_equal_and_longer_lists_tell_the_rearrangement_in_training():
    """Nothing is asked of held-out structures that has not been taught of others."""
    changes = {
        split: {
            len(tiny.SECOND.operations[operation].apply([4, 5, 6, 7], 1)) - 4
            for operation, rearrangement, output in tiny.SECOND.structures(split)
            if rearrangement is None and output == "count"
        }
        for split in tiny.SPLITS
    }
    assert changes == {"train": {-3, 0, 1}, "dev": {1}, "heldout": {0}}


@pytest.mark.parametrize("slot", tiny.SLOTS)
def test_each_slot_alone_is_open_in_a_hundred_held_out_tasks_of_the_second_version(slot):
    drawn = tiny.SECOND.draw_specs("heldout", 1500, 1)
    assert sum(vague == {slot} for _, vague, _ in drawn) >= 100
