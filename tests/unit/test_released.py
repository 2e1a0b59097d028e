"""Ready tasks in the published columns: what may be missing, what follows, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT
from cobalt.tasks.own import complete, complete_perturbed, is_perturbed

PUBLIC = {"inputs": ["a", "b"], "outputs": ["1", "2"]}
HIDDEN = {"inputs": ["c", "d"], "outputs": ["3", "1"]}
ALL = {name: PUBLIC[name] + HIDDEN[name] for name in PUBLIC}
SWAPPED = {"inputs": ["b", "a"], "outputs": ["1", "2"]}
PARTS = {"test_cases": ALL, "public_test_cases": PUBLIC, "hidden_test_cases": HIDDEN}


def task(*names: str, **change: Any) -> dict[str, Any]:
    row = {"id": 3, "difficulty": "EASY", "instruction": "Do it.", "more": [1, None]}
    return row | {name: json.dumps(PARTS[name]) for name in names} | change


def found(row: dict[str, Any], *names: str) -> list[Any]:
    return [json.loads(row[name]) for name in names or PARTS]


def test_a_whole_task_stays_as_it_is() -> None:
    row = task(*PARTS)
    assert complete(row, "x:1", DEFAULT) == row


@pytest.mark.parametrize("missing", PARTS)
def test_one_set_of_tests_follows_from_the_others(missing: str) -> None:
    row = task(*(name for name in PARTS if name != missing))
    assert found(complete(row, "x:1", DEFAULT)) == [ALL, PUBLIC, HIDDEN]


def test_without_parts_the_first_tests_are_public() -> None:
    made = complete(task("test_cases"), "x:1", DEFAULT, num_public=1)
    assert found(made, "public_test_cases") == [{"inputs": ["a"], "outputs": ["1"]}]
    assert found(made, "hidden_test_cases")[0]["inputs"] == ["b", "c", "d"]


def test_optional_keys_and_tests_that_are_no_text() -> None:
    row = {"id": "k", "question": "What?", "difficulty": None, **PARTS}
    made = complete(row, "x:1", DEFAULT)
    assert made["instruction"] == DEFAULT.wrap("What?") and made["difficulty"] == "UNKNOWN"
    assert found(made) == [ALL, PUBLIC, HIDDEN]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (task("public_test_cases"), "x:1: field 'test_cases' is missing"),
        (task(*PARTS, id=None), "x:1: 'id' must be"),
        (task(*PARTS, instruction=None), "x:1: field 'instruction' is missing (and 'question'"),
        (task(*PARTS, instruction=5), "x:1: field 'instruction' must be"),
        (task(*PARTS, difficulty=5), "x:1: field 'difficulty' must be"),
        (task("test_cases", public_test_cases='{"inputs": ["z"], "outputs": ["1"]}'),
         "x:1: field 'public_test_cases' holds a test that 'test_cases' does not"),
        (task("test_cases", public_test_cases=ALL), "none is left as hidden"),
        (task("test_cases", hidden_test_cases="{"), "x:1: field 'hidden_test_cases': not valid JSON"),
        (task(*PARTS, modified_test_cases=SWAPPED), "x:1: field 'modified_test_cases': a perturbed task"),
    ],
)  # fmt: skip
def test_tasks_that_cannot_be_used(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        complete(row, "x:1", DEFAULT)
    assert said in str(error.value)


BOTH_SHAPES = {
    "the perturbed set as public tests": {"public_test_cases": SWAPPED, "modified_test_cases": SWAPPED},
    "both sets, the true one public": {
        "public_test_cases": PUBLIC, "modified_test_cases": SWAPPED, "perturbed_public_test_cases": SWAPPED,
    },
    "both keys of one set": {
        "public_test_cases": SWAPPED, "modified_test_cases": SWAPPED, "perturbed_public_test_cases": SWAPPED,
    },
    "the exchanged pairs follow": {"public_test_cases": PUBLIC, "perturbed_public_test_cases": SWAPPED},
}  # fmt: skip


@pytest.mark.parametrize("shape", BOTH_SHAPES)
@pytest.mark.parametrize("held", ["test_cases", "hidden_test_cases"])
def test_perturbed_tasks_of_every_shape(shape: str, held: str) -> None:
    row = task(held, **BOTH_SHAPES[shape])
    assert is_perturbed(row)
    made = complete_perturbed(row, "x:1", DEFAULT)
    names = ("perturbed_public_test_cases", "hidden_test_cases")
    assert found(made, *names) == [SWAPPED, HIDDEN]
    assert json.loads(made["public_test_cases"]) == row["public_test_cases"]
    swapped = found(made, "modified_test_cases")[0]
    assert sorted(zip(swapped["inputs"], swapped["outputs"], strict=True)) == [("a", "2"), ("b", "1")]
    assert made["more"] == row["more"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (task(*PARTS), "x:1: fields 'modified_test_cases' and 'perturbed_public_test_cases' are missing"),
        (task(*PARTS, modified_test_cases=SWAPPED), "these tests are not among the perturbed ones ('public_"),
        (task("hidden_test_cases", perturbed_public_test_cases=SWAPPED), "'modified_test_cases' is missing"),
        (task("hidden_test_cases", modified_test_cases=SWAPPED), "'public_test_cases' is missing"),
        (task(public_test_cases=SWAPPED, modified_test_cases=SWAPPED), "'hidden_test_cases' is missing, and"),
    ],
)
def test_perturbed_tasks_that_cannot_be_used(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        complete_perturbed(row, "x:1", DEFAULT)
    assert str(error.value).startswith("x:1: ") and said in str(error.value)
