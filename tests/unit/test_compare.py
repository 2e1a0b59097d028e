"""Comparing outputs with expectations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.evaluator.compare import stripped_equal, value_equal
from cobalt.evaluator.output import Output, decode, encode


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
    assert stripped_equal(Output(encode(stdout)), expected) is equal


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
    assert value_equal(Output(encode(text)), expected) is equal


def test_the_value_is_the_last_line():
    def last(text):
        return Output(text.encode()).last_line().text

    assert last("noise\n[9]\n\n[1, 2]\n") == "[1, 2]"
    assert last("") == last("\n\n") == ""
    assert last("1\n 2X\n") == " 2X" and last("1\n \n") == " "  # only newlines end a line


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    )
)
def test_every_json_value_equals_itself(value):
    line = Output(json.dumps(value).encode())
    assert value_equal(line, value)
    assert value_equal(line, [value])
