"""Comparing outputs with expectations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.evaluator.checker import PUBLISHED, decode, encode, value_equal


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
