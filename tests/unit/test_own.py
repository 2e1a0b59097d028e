"""Ready tasks in the published columns: what may be missing, what follows, what is refused; statements."""

import json

import pytest

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT
from cobalt.tasks.own import complete, complete_perturbed, make_task, statement_key, statement_of

PUBLIC = {"inputs": ["a", "b"], "outputs": ["1", "2"]}
HIDDEN = {"inputs": ["c", "d"], "outputs": ["3", "1"]}
ALL = {name: PUBLIC[name] + HIDDEN[name] for name in PUBLIC}
SWAPPED = {"inputs": ["b", "a"], "outputs": ["1", "2"]}
PARTS = {"test_cases": ALL, "public_test_cases": PUBLIC, "hidden_test_cases": HIDDEN}


def task(*names, **change):
    row = {"id": 3, "difficulty": "EASY", "instruction": "Do it.", "more": [1, None]}
    return row | {name: json.dumps(PARTS[name]) for name in names} | change


def found(row, *names):
    return [json.loads(row[name]) for name in names or PARTS]


def test_one_set_of_tests_follows_from_the_others():
    assert complete(task(*PARTS), "x:1", DEFAULT) == task(*PARTS)
    for missing in PARTS:
        row = task(*(name for name in PARTS if name != missing))
        assert found(complete(row, "x:1", DEFAULT)) == [ALL, PUBLIC, HIDDEN]
    made = complete(task("test_cases"), "x:1", DEFAULT, num_public=1)
    assert found(made, "public_test_cases") == [{"inputs": ["a"], "outputs": ["1"]}]
    assert found(made, "hidden_test_cases")[0]["inputs"] == ["b", "c", "d"]
    made = complete({"id": "k", "question": "What?", "difficulty": None, **PARTS}, "x:1", DEFAULT)
    assert made["instruction"] == DEFAULT.wrap("What?") and made["difficulty"] == "UNKNOWN"
    assert found(made) == [ALL, PUBLIC, HIDDEN]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (task("public_test_cases"), "x:1: field 'test_cases' is missing"),
        (task(*PARTS, id=None), "x:1: 'id' must be"),
        (task(*PARTS, instruction=None), "x:1: field 'instruction' must be"),
        (task(*PARTS, instruction=5), "x:1: field 'instruction' must be"),
        (task(*PARTS, difficulty=5), "x:1: field 'difficulty' must be"),
        (task("test_cases", public_test_cases='{"inputs": ["z"], "outputs": ["1"]}'),
         "x:1: field 'public_test_cases' holds a test that 'test_cases' does not"),
        (task("test_cases", public_test_cases=ALL), "is left as public or hidden"),
        (task("test_cases", hidden_test_cases="{"), "x:1: field 'hidden_test_cases': not valid JSON"),
        (task(*PARTS, modified_test_cases=SWAPPED), "x:1: field 'modified_test_cases': a perturbed task"),
    ],
)  # fmt: skip
def test_tasks_that_cannot_be_used(row, said):
    with pytest.raises(InputError) as error:
        complete(row, "x:1", DEFAULT)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "shape",
    [
        {"public_test_cases": SWAPPED, "modified_test_cases": SWAPPED},  # as released
        {"public_test_cases": PUBLIC, "modified_test_cases": SWAPPED, "perturbed_public_test_cases": SWAPPED},
    ],
)
def test_perturbed_tasks_of_both_shapes(shape):
    made = complete_perturbed(task("hidden_test_cases", **shape), "x:1", DEFAULT)
    names = ("modified_test_cases", "perturbed_public_test_cases", "hidden_test_cases")
    assert found(made, *names) == [SWAPPED, SWAPPED, HIDDEN]
    assert json.loads(made["public_test_cases"]) == shape["public_test_cases"] and made["more"] == [1, None]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (task(*PARTS), "fields 'modified_test_cases' and"),
        (task(*PARTS, modified_test_cases=SWAPPED), "not among the perturbed"),
        (task("hidden_test_cases", modified_test_cases=SWAPPED), "'public_test_cases' is missing"),
        (task(public_test_cases=SWAPPED, modified_test_cases=SWAPPED), "'hidden_test_cases' is missing"),
    ],
)
def test_perturbed_tasks_that_cannot_be_used(row, said):
    with pytest.raises(InputError) as error:
        complete_perturbed(row, "x:1", DEFAULT)
    assert str(error.value).startswith("x:1: ") and said in str(error.value)


def test_statements_and_tasks_of_ones_own():
    assert statement_key("Add  two\nnumbers!") == statement_key("add two numbers")
    assert statement_key("add 2 numbers") != statement_key("add 3 numbers")
    assert statement_key("+-") != statement_key("*/")
    row = make_task("mine", "Add.", [([1, 2], 3), ([2, 2], 4)], public=5, fn_name="add", note="kept")
    assert [len(each["inputs"]) for each in found(row)] == [2, 1, 1]
    assert row["fn_name"] == "add" and "def add(" in row["instruction"] and row["note"] == "kept"
    plain = make_task("mine", "Add.", [("1 2", "3"), ("2 2", "4")])
    assert statement_of({"instruction": plain["instruction"]}, "x").strip() == "Add."
    for tests in ([("1", "2")], [("1", 2), ("1", "2")]):
        with pytest.raises(InputError, match="task 'mine'"):
            make_task("mine", "Add.", tests)
    with pytest.raises(InputError, match="'id' must be"):
        make_task("", "Add.", [("1 2", "3"), ("2 2", "4")])
    with pytest.raises(InputError, match="x:1: none of the fields"):
        statement_of({"id": 1}, "x:1")
