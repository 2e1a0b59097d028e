"""Test suites in the published shape, and the checks on rows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import BadRequest, InputError
from cobalt.rows import require, row_id
from cobalt.testcases import TestCases

text = st.text(st.characters(codec=None), max_size=20)  # lone surrogates and null bytes included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | text, lambda v: st.lists(v, max_size=3), max_leaves=5
)


@given(st.lists(st.tuples(text, text), max_size=5))
def test_stdin_tests_survive_a_round_trip(pairs):
    tests = TestCases([a for a, _ in pairs], [b for _, b in pairs])
    assert TestCases.parse(tests.to_json()) == tests
    assert TestCases.parse(tests.to_mapping()) == tests
    assert len(tests) == len(pairs)
    assert "fn_name" not in json.loads(tests.to_json())


@given(st.lists(st.tuples(st.lists(values, max_size=3), values), max_size=4))
def test_function_tests_survive_a_round_trip(pairs):
    tests = TestCases([a for a, _ in pairs], [b for _, b in pairs], "solve")
    assert TestCases.parse(tests.to_json()) == tests


def test_parse_leaves_its_argument_alone():
    given_lists = {"inputs": ["1"], "outputs": ["2"]}
    parsed = TestCases.parse(given_lists)
    parsed.inputs.append("x")
    assert given_lists == {"inputs": ["1"], "outputs": ["2"]}


def test_public_and_hidden_join_in_order():
    both = TestCases(["1"], ["a"]) + TestCases(["2", "3"], ["b", "c"])
    assert both == TestCases(["1", "2", "3"], ["a", "b", "c"])
    with pytest.raises(ValueError, match="solve"):
        TestCases([], []) + TestCases([], [], "solve")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        (None, "expected an object.*null"),
        ({"inputs": []}, "'outputs' is missing"),
        ({"inputs": "ab", "outputs": "ab"}, "'inputs' must be a list, got a string"),
        ({"inputs": ["1"], "outputs": []}, "1 inputs but 0 outputs"),
        ({"inputs": [1], "outputs": ["1"]}, r"inputs\[0\] must be a string, got a whole number"),
        ({"inputs": ["1", "2"], "outputs": ["1", ["2"]]}, r"outputs\[1\] must be a string, got a list"),
        ({"inputs": [], "outputs": [], "fn_name": 3}, "'fn_name' must be a string"),
    ],
)
def test_wrong_shapes_name_place_and_field(value, message):
    with pytest.raises(BadRequest, match=f"^tasks.jsonl:7: test_cases: .*{message}"):
        TestCases.parse(value, where="tasks.jsonl:7: test_cases")


def test_an_empty_function_name_is_none():
    assert TestCases.parse({"inputs": [], "outputs": [], "fn_name": ""}).fn_name is None


@pytest.mark.parametrize("key", [0, -3, 10**30, "0", "a b"])
def test_ids(key):
    assert row_id({"id": key}, "f:1") == key
    assert type(row_id({"id": key}, "f:1")) is type(key)


@pytest.mark.parametrize("row", [{}, *({"id": bad} for bad in (None, "", True, 1.0, ["a"]))])
def test_what_is_no_id(row):
    with pytest.raises(InputError, match="f:1: 'id' must be"):
        row_id(row, "f:1")


def test_require_returns_the_value_or_names_the_field():
    row = {"n": 3, "flag": True, "s": "x", "rate": 1.5, "none": None}
    assert require(row, "n", int, "f:1") == 3
    assert require(row, "flag", bool, "f:1") is True
    assert require(row, "rate", (int, float), "f:1") == 1.5
    assert require(row, "none", (str, type(None)), "f:1") is None
    with pytest.raises(InputError, match="f:1: field 'gone' is missing"):
        require(row, "gone", str, "f:1")
    with pytest.raises(InputError, match="f:1: field 's' must be a list, got a string"):
        require(row, "s", list, "f:1")
    with pytest.raises(InputError, match="must be a whole number, got true or false"):
        require(row, "flag", int, "f:1")
