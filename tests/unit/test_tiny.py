"""The tiny family: programs mean what the family says, splits share no structure, vague slots matter."""

import contextlib
import io
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from cobalt.tasks import tiny
from cobalt.testcases import TestCases

ROOT = Path(__file__).parents[2]


def run_plainly(code: str, stdin: str) -> str | None:
    """The program's stdout, stripped; None if it raises. Only for programs of the family's own grammar."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(code, {"input": lambda: stdin})
    except ValueError:
        return None
    return out.getvalue().strip()


def every_spec() -> list[tiny.Spec]:
    return [
        tiny.Spec(name, k, rearrangement, output, form)
        for name, operation in tiny.OPERATIONS.items()
        for k in operation.constants
        for rearrangement in tiny.REARRANGEMENTS
        for output in tiny.OUTPUTS
        for form in tiny.formats(output)[:2]
    ]


def test_output_of_equals_running_the_program() -> None:
    rng = random.Random(1)
    for spec in every_spec():
        numbers = rng.sample(range(4, 20), rng.randint(4, 5))
        ran = run_plainly(tiny.program(spec), " ".join(map(str, numbers)))
        assert ran == tiny.output_of(spec, numbers), tiny.program(spec)


def test_splits_partition_the_structures() -> None:
    parts = [set(tiny.structures(split)) for split in tiny.SPLITS]
    everything = set(itertools.product(tiny.OPERATIONS, [*tiny.REARRANGEMENTS, None], tiny.OUTPUTS))
    without_effect = {s for s in everything if s[1] is None and s[2] in ("largest", "smallest")}
    assert set().union(*parts) == everything - without_effect
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(parts, 2))
    assert {(a, c) for a, _, c in parts[0]} == set(itertools.product(tiny.OPERATIONS, tiny.OUTPUTS))
    assert len(parts[2]) >= 50


def test_held_out_statements_are_in_no_other_split() -> None:
    def statements(split: str) -> set[str]:
        rng = random.Random(4)
        return {tiny.statement(*tiny.draw_spec(rng, split)) for _ in range(2000)}

    seen = statements("train") | statements("dev")
    assert not seen & statements("heldout")


@pytest.mark.parametrize("split", tiny.SPLITS)
def test_tasks_stay_in_their_structures(split: str) -> None:
    allowed = {"/".join(part or "any" for part in each) for each in tiny.structures(split)}
    rows = list(tiny.draw_tasks(split, 60, seed=5))
    assert {row["group"] for row in rows} <= allowed
    assert len({row["id"] for row in rows}) == 60


def test_rows_are_repeatable_and_seeded() -> None:
    first, again, other = (list(tiny.draw_tasks("heldout", 30, seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_tests_are_split_and_distinct() -> None:
    for row in tiny.draw_tasks("train", 50, seed=0):
        everything = TestCases.parse(row["test_cases"], where="row")
        public = TestCases.parse(row["public_test_cases"], where="row")
        hidden = TestCases.parse(row["hidden_test_cases"], where="row")
        assert (len(public), len(hidden)) == (tiny.N_PUBLIC, tiny.N_HIDDEN)
        assert everything.inputs == [*public.inputs, *hidden.inputs]
        assert len(set(everything.inputs)) == len(everything)


def test_vague_slots_matter_and_are_not_told() -> None:
    rng = random.Random(2)
    for _ in range(200):
        spec, vague, tests = tiny.draw(rng, "train", tiny.N_PUBLIC)
        for slot in tiny.SLOTS:
            other = replace(
                spec, **{slot: next(v for v in tiny.values(spec, slot) if v != getattr(spec, slot))}
            )
            told = tiny.statement(spec, vague) != tiny.statement(other, vague)
            assert told == (slot not in vague)
        for slot in vague:
            changed = [replace(spec, **{slot: value}) for value in tiny.values(spec, slot)]
            assert any(
                tiny.output_of(guess, list(map(int, stdin.split()))) != expected
                for guess in changed
                for stdin, expected in tests
            )


def test_one_turn_is_a_guess() -> None:
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


def test_write_splits(tmp_path) -> None:
    paths = tiny.write_splits(tmp_path, seed=0, train=5, dev=4, heldout=3)
    counts = {split: len(path.read_text().splitlines()) for split, path in paths.items()}
    assert counts == {"train": 5, "dev": 4, "heldout": 3}
    row = json.loads(paths["train"].read_text().splitlines()[0])
    assert {
        "id",
        "instruction",
        "test_cases",
        "public_test_cases",
        "hidden_test_cases",
        "group",
        "slots",
    } <= set(row)


def test_the_family_is_the_one_that_the_reference_was_made_for(monkeypatch) -> None:
    made = json.loads((ROOT / "models" / "tiny-reference" / "training.json").read_text())
    assert tiny.family_hash() == made["family_hash"]
    monkeypatch.setitem(tiny.OUTPUT_WEIGHTS, "list", 5)
    assert tiny.family_hash() != made["family_hash"]
