"""Judging as plain code would, whatever is given. What it costs: tests/sandbox/test_host_work.py."""

import json
import re
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt.evaluator import checker
from cobalt.evaluator.checker import Rule, _close, brief, decode, encode, tolerance, value_equal
from cobalt.text import middle_truncate


def plain_decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def plain_accepts(rule: str, stdout: str, expected: str) -> bool:
    if stdout.strip() == expected.strip():
        return True
    if rule == "strip":
        return False
    if rule == "lines":
        return plain_lines(stdout) == plain_lines(expected)
    given, wanted = stdout.split(), expected.split()
    if rule == "tokens" or len(given) != len(wanted):
        return given == wanted
    within = tolerance(rule)
    return all(_close(within, one, other) for one, other in zip(given, wanted, strict=True))


def plain_lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def plain_value_equal(text: str, expected: Any) -> bool:
    try:
        value, wanted = json.loads(text), json.loads(json.dumps(expected))
        if bool(value == wanted):
            return True
        return isinstance(wanted, list) and len(wanted) == 1 and bool(value == wanted[0])
    except (ValueError, RecursionError):
        return False


@pytest.fixture(autouse=True, scope="module")
def all_are_long():
    """Every JSON text is looked at as a long one is, and the head of every output is compared first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "_SHORT", -(1 << 40))
        patch.setattr(checker, "_HEAD", 5)
        yield


PARTS = [
    b"a", b"1", b"1.0", b"-", b" ", b"  ", b"\n", b"\r", b"\r\n", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\x1f",
    b"\x85", b"\xa0", b"\xc2\x85", b"\xc2\xa0", b"\xe3\x80\x80", b"\xe2\x80\xa8", b"\xff", b"\x80", b"\xe2",
    b"\xe2\x80", b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\x9f\xbf", b"\xed", b"\xed\xa0", b"\xf0\x9f\x98\x80",
    b"\xf0\x9f\x98", b"\xf0", b"\xc0\xaf",
    b"\xf4\x90\x80\x80", b"\xe0\x80\x80", "é".encode(), b"\x80\x80\x80\x80\x80",
]  # fmt: skip
BYTES = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join) | st.binary(max_size=60)
TEXT = st.lists(
    st.sampled_from(["a", "1", "1.0", "1.0000001", " ", "\n", "\r", "\t", "\x1c", "\x85", "\u3000",
                      "\u2028", "\ufffd", "\ud800", "é", "😀"]),
    max_size=30,
).map("".join)  # fmt: skip
RULES = ["strip", "lines", "tokens", "float", "float(0.5, 1)"]


@given(BYTES)
@settings(max_examples=1000)
def test_text_is_read_as_a_pipe_in_text_mode_is(data):
    assert decode(data) == plain_decode(data)
    assert decode(checker._stripped(data)) == plain_decode(data).strip()


def test_whitespace_is_what_python_says_it_is():
    for code in range(sys.maxunicode + 1):
        data = encode(chr(code))
        blank = chr(code).isspace()
        assert (checker._RUN.fullmatch(data) is not None) is blank, hex(code)
        assert (checker._RUN_BACKWARDS.fullmatch(data[::-1]) is not None) is blank, hex(code)
        assert not blank or not data.translate(None, checker._BLANK_BYTES)


@given(BYTES, st.integers(0, 300), st.sampled_from(["", " ", "x", "é", "\n"]), st.booleans())
def test_a_brief_text_is_cut_as_the_whole_is(data, times, filler, after):
    data = data + times * filler.encode() + b"end" * after
    assert middle_truncate(brief(data)) == middle_truncate(plain_decode(data))


def test_a_long_text_is_cut_as_the_whole_is():
    for text in (
        "a" + " " * 90_000 + "b",
        " " * 90_000 + "a\r\n" + "é😀" * 9_000 + "\n\n",
        "x" * 30_000,
        "a" + " " * 90_000,
    ):
        assert middle_truncate(brief(text.encode())) == middle_truncate(text.replace("\r\n", "\n"))


@given(st.sampled_from(RULES), TEXT, TEXT)
@settings(max_examples=1000)
def test_the_rules_judge_as_plain_code_does(rule, one, other):
    for stdout, expected in ((one, other), (one, one), (one, " " + one + "\n"), (one.replace(" ", "  "), one),
                             (one + other, one), (one.replace("\n", " \n"), one)):  # fmt: skip
        found = Rule(rule).accepts(encode(stdout), expected)
        assert found is plain_accepts(rule, plain_decode(encode(stdout)), expected), (stdout, expected)


@given(st.sampled_from(RULES), BYTES, TEXT)
def test_any_bytes_are_judged_as_plain_code_does(rule, data, expected):
    assert Rule(rule).accepts(data, expected) is plain_accepts(rule, plain_decode(data), expected)
    own = plain_decode(data)
    assert Rule(rule).accepts(data, own) is plain_accepts(rule, own, own) is True


def number(word: str) -> Fraction | None:
    """What a word is as a decimal number, exactly; None if it is none."""
    found = re.fullmatch(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d+))?", word.replace("_", ""))
    if not found:
        return None
    sign, whole, part, only, power = (each or "" for each in found.groups())
    digits = part + only
    size = Fraction(int(whole + digits or "0"), 10 ** len(digits)) * Fraction(10) ** int(power or 0)
    return -size if sign == "-" else size


def livecodebench(stdout: str, expected: str) -> bool:
    """That benchmark's rule as its authors describe it, without their library for decimals."""
    ours, theirs = ([line.strip() for line in text.strip().split("\n")] for text in (stdout, expected))
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        pairs = [list(map(number, line.split())) for line in (one, other)]
        if one != other and (None in pairs[0] + pairs[1] or pairs[0] != pairs[1]):
            return False
    return True


SPACES = st.sampled_from([" ", "  ", "\t", "\x0c", "\u3000", "\r", ""])
NUMBERS = st.sampled_from([
    "0", "-0", "1", "1.0", "01", "10e-1", "1_0", "10", "1e1", ".5", "0.50", "5e-1", "2", "٢", "-.5", "+1",
    "1.", "a", "é", "1a", "--1", ".", "e5", "1e", "0x1", "1/2", "\ud800",
])  # fmt: skip


@given(st.data())
@settings(max_examples=2000)
def test_livecodebench_judges_as_its_rule_in_other_words_does(data):
    draw = data.draw
    lines = draw(st.lists(st.lists(NUMBERS, max_size=3), min_size=1, max_size=3))
    same = {"1": "1.0", "10": "1e1", ".5": "5e-1", "2": "٢", "0": "-0"}
    texts = []
    for change in (False, True):
        written = []
        for words in lines:
            words = [same.get(word, word) if change and draw(st.booleans()) else word for word in words]
            if change and draw(st.integers(0, 5)) == 0:
                words = [*words, draw(NUMBERS)]
            gap = draw(SPACES.filter(bool)) if change else " "
            written.append(draw(SPACES) + gap.join(words) + draw(SPACES))
        texts.append(
            draw(st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n"]) if change else st.just("\n")).join(
                written
            )
        )
    expected, stdout = texts
    found = Rule("livecodebench").accepts(encode(stdout), expected)
    assert found is livecodebench(stdout, expected), (stdout, expected)


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3)
    | st.sampled_from([1.0, 0.5, 1e22, float("nan"), float("inf")])
    | st.text(st.sampled_from(['a', '"', "\\", "é", "😀", "\ud800", "\n"]), max_size=3)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3)
    ),
    max_leaves=8,
)
# JSON text with whitespace, doubled keys and faults in it.
SPACE = st.sampled_from(["", "", " ", "\n", "\t ", "\xa0"])


@st.composite
def json_texts(draw: Any) -> str:
    def write(depth: int) -> str:
        kind = draw(st.integers(0, 5 if depth < 3 else 2))
        space = draw(SPACE)
        if kind <= 2:
            return space + json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans())) + space
        items = range(draw(st.integers(0, 3)))
        if kind == 3:
            return space + "[" + ",".join(write(depth + 1) for _ in items) + "]" + space
        keys = [draw(st.sampled_from(['"a"', '"b"', '"\\u0061"', '"é"', "a"])) for _ in items]
        return "{" + ",".join(f"{space}{key}{space}:{write(depth + 1)}" for key in keys) + "}"

    text = write(0)
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from([",", "]", "}", "\x00", '"', "\\", ":"])) + text[at:]
    return text


@given(VALUES, VALUES, st.booleans())
@settings(max_examples=1000)
def test_values_are_judged_as_plain_code_does(value, other, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    for expected in (value, [value], other, (value, other), {"a": value}):
        found = value_equal(encode(text), expected)
        assert found is plain_value_equal(text, expected), (text, expected)


@given(json_texts(), VALUES)
@settings(max_examples=2000)
def test_any_json_text_is_judged_as_plain_code_does(text, other):
    try:
        own = json.loads(text)
    except ValueError:
        own = other
    for expected in (own, other, [own], {"a": own, "b": other}, {"a": 1}, [[1]]):
        found = value_equal(encode(text), expected)
        assert found is plain_value_equal(text, expected), (text, expected)


def test_an_endless_row_of_doubled_keys_is_left():
    """The one text that plain code would find equal: it holds far more values than the expected one."""
    text = "{" + '"a": 2, ' * 100_000 + '"a": 1}'
    assert plain_value_equal(text, {"a": 1}) and not value_equal(text.encode(), {"a": 1})
    few = "{" + '"a": 2, ' * 60_000 + '"a": 1}'
    assert value_equal(few.encode(), {"a": 1})
