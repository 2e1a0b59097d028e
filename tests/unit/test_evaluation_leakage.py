"""Tasks that give their hidden tests away, and tasks that do not."""

import json

import pytest

from cobalt.evaluation.leakage import count_kinds, leaks


def pairs_of(*pairs):
    return json.dumps({"inputs": [a for a, _ in pairs], "outputs": [b for _, b in pairs]})


LONG = "a quite long line of output"


@pytest.mark.parametrize(
    "statement, public, hidden, kinds",
    [
        (
            "Example\n3 4\n  \n7 \nthe end",
            [("1", "1")],
            [("3 4", "7")],
            ["stated"],
        ),  # spaces do not matter
        ("Add. Input\n3 4\nOutput\n7", [("1", "1")], [("3 4\n", "7\n")], ["stated"]),
        ("Add. Input\n3 4\nOutput\n7", [("3 4", "7")], [("5 4", "9")], []),  # the public example is stated
        ("Print 7 when 3 4 comes.", [("1", "1")], [("3 4", "7")], []),  # not on lines of their own
        (f"It prints {LONG} then", [("1", "1")], [("9", LONG)], ["stated"]),
        ("x" * 60, [("1", "1")], [("9", "x" * 40)], []),  # nothing but one letter
        ("Add", [("3 4", "7")], [("5 5", "10"), (" 3 4\n", "7")], ["repeated"]),
        ("Add", [("3 4", "7")], [("5 5", "10"), ("5 5", "10")], ["repeated"]),
        ("Add", [("3 4", "7")], [("3 4", "8")], ["contradicted"]),
        ("Add", [("3 4", "7"), ("3 4", "8")], [("1 1", "2")], ["contradicted"]),
        ("Add", [("3 4", "7")], [("5 5", "10")], []),
    ],
)
def test_what_is_flagged(statement, public, hidden, kinds):
    row = {
        "question": statement,
        "public_test_cases": pairs_of(*public),
        "hidden_test_cases": pairs_of(*hidden),
    }
    assert [flag["kind"] for flag in leaks(row)] == kinds


def test_indices_counts_and_solutions():
    row = {
        "instruction": "x",
        "hidden_test_cases": pairs_of(("1", "a"), ("2", "b"), ("1", "a")),
        "verified": False,
    }
    first, second = leaks(row)
    assert first["kind"] == "repeated" and first["tests"] == [2] and "hidden test 3: 'a'" in first["detail"]
    assert second["kind"] == "unsolved"
    assert [leaks({"verified": value}) for value in (True, None)] == [[], []]
    assert count_kinds([[first], [first, second], []]) == {
        "stated": 0, "repeated": 2, "contradicted": 0, "unsolved": 1,
    }  # fmt: skip


def test_other_shapes_are_left_alone():
    for value in ("not JSON", 3, None, {"inputs": "x"}, {"inputs": [1]}, "[]"):
        assert leaks({"hidden_test_cases": value}) == []
    calls = json.dumps({"fn_name": "f", "inputs": [[1, 2], [1, 2]], "outputs": [3, 4]})
    assert [flag["kind"] for flag in leaks({"hidden_test_cases": calls})] == ["contradicted"]
