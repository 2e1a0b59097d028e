"""Comparing outputs with expectations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import BadRequest
from cobalt.evaluator.checker import PUBLISHED, Rule, decode, encode, value_equal


@pytest.mark.parametrize(
    ("stdout", "expected", "equal"),
    [
        ("3\n", "3", True),
        ("  3 \n\n", "\t3", True),
        ("", "\n", True),
        ("1\n2", "1\n2\n", True),
        ("1 \n2", "1\n2", False),  # no tolerance within lines
        ("1  2", "1 2", False),
        ("1.0", "1", False),
        ("yes", "YES", False),
        ("", "0", False),
    ],
)
def test_the_published_rule(stdout, expected, equal):
    assert PUBLISHED.accepts(encode(stdout), expected) is equal


@given(st.text(alphabet=st.characters(exclude_characters="\r", exclude_categories=())))
def test_text_travels_through_bytes_unchanged(text):
    assert decode(encode(text)) == text


def test_lone_surrogates_are_kept():
    assert encode("a\ud800") == b"a\xed\xa0\x80" and decode(b"a\xed\xa0\x80") == "a\ud800"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\xff1", "\ufffd1"),
        (b"\xed\xa0\x80", "\ud800"),
        (b"\xc3", "\ufffd"),
    ],
)
def test_decoding_never_fails(data, text):
    assert decode(data) == text


@pytest.mark.parametrize(
    ("text", "expected", "equal"),
    [
        ("3", 3, True),
        ("3.0", 3, True),
        ("3", [3], True),
        ("[3]", [3], True),
        ("[[3]]", [[3]], True),
        ("[3]", [[3]], True),
        ("3", [[3]], False),
        ("[1, 2]", (1, 2), True),
        ("[1, 2]", [1, 2], True),
        ("1", [1, 2], False),
        ('"a"', "a", True),
        ('"a "', "a", False),
        ("null", None, True),
        ("null", [None], True),
        ("true", True, True),
        ('{"1": [2]}', {"1": [2]}, True),
        ("NaN", 1.0, False),
        ("", 1, False),
        ("3 4", 3, False),
        ("[" * 100_000, 1, False),
        ("9" * 5000, 1, False),
    ],
)
def test_values(text, expected, equal):
    assert value_equal(encode(text), expected) is equal


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    )
)
def test_every_json_value_equals_itself(value):
    line = json.dumps(value).encode()
    assert value_equal(line, value)
    assert value_equal(line, [value])


@pytest.mark.parametrize(
    ("compare", "stdout", "expected", "equal"),
    [
        ("strip", " 1 2\n", "1 2", True),
        ("strip", "1  2", "1 2", False),
        ("strip", "1 \n2", "1\n2", False),
        ("lines", "1 \n2\t\n\n", "1\n2", True),
        ("lines", "1\n\n2", "1\n2", False),
        ("lines", "x\n 1\n2", "x\n1\n2", False),
        ("tokens", "1\n2   3", "1 2\n3", True),
        ("tokens", "1 2 3 4", "1 2 3", False),
        ("tokens", "1.0", "1", False),
        ("float", "1.0000004 yes", "1 yes", True),
        ("float", "1.1", "1", False),
        ("float", "1 no", "1 yes", False),
        ("float(0.1, 0)", "109", "100", True),
        ("float(0.1, 0)", "91", "100", True),
        ("float(0.1, 0)", "112", "100", False),
        ("float( 0 , 2 )", "102", "100", True),
        ("float(0,2)", "103", "100", False),
        ("float(1,1)", "nan", "1", False),
        ("float(1,1)", "inf", "1", False),
        ("float(1,1)", "1e999", "1", False),
        ("float(1,1)", "1", "1e999", False),
        ("float(1,1)", "1_0", "10", False),
        ("float(1,1)", "nan", "nan", True),
        ("float", "9" * 500, "9" * 499 + "8", False),
        ("float", "٣", "3", False),
    ],
)
def test_rules_of_comparison(compare, stdout, expected, equal):
    assert Rule(compare).accepts(encode(stdout), expected) is equal


@pytest.mark.parametrize("compare", ["", "Strip", "float()", "float(1)x", "float(-1, 0)", "float(nan, 0)"])
def test_an_unknown_rule_is_refused(compare):
    with pytest.raises(BadRequest, match="must be strip, lines, tokens or float"):
        Rule(compare)
