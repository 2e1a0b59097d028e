"""Judging megabytes made to be costly: the same verdicts as of plain code, in bounded time and memory."""

import json
import subprocess
import sys
import textwrap
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
    return all(_close(one, other, within) for one, other in zip(given, wanted, strict=True))


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
    """Every JSON text is looked at as a long one is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "_SHORT", -(1 << 40))
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, {"b": "x"}], "a": 1}', {"a": 1}),
        ('{"a": [1, {"b": x}], "a": 1}', {"a": 1}),
        ('{"a": 2, "c": 1, "a": 1}', {"a": 1}),
        ('{"a": {"c": 1}, "a": {"b": 2, "\\u0062": 1}}', {"a": {"b": 1}}),
        ("[" * 100_000, [1]),
        ('{"a": ' + "[" * 100_000 + '"', {"a": 1}),
        ("9" * 5000, 1),
        ("-", 1),
        ("1 2", 1),
        ("[1,]", [1]),
        ("\ufeff1", 1),
        ('"\\ud83d\\ude00"', "😀"),
        ('"' + "\\u0061" * 5000 + '"', "a" * 5000),
        ('"' + "\\u0061" * 5001 + '"', "a" * 5000),
        ('"\\x"', "x"),
        ("[NaN]", [float("nan")]),
        ("NaN", [float("nan")]),
        ("true", 1),
        ("[true, 1.0]", [1, 1]),
        ("1." + "0" * 10_000, 1),
    ],
)
def test_odd_values(text, expected):
    assert value_equal(encode(text), expected) is plain_value_equal(text, expected)


def test_an_endless_row_of_doubled_keys_is_left():
    """The one text that plain code would find equal: it holds far more values than the expected one."""
    text = "{" + '"a": 2, ' * 100_000 + '"a": 1}'
    assert plain_value_equal(text, {"a": 1}) and not value_equal(text.encode(), {"a": 1})
    few = "{" + '"a": 2, ' * 60_000 + '"a": 1}'
    assert value_equal(few.encode(), {"a": 1})


HOSTILE = {
    "words": "b'a ' * (8 << 20)",
    "spaces": "b' ' * (16 << 20)",
    "wide spaces": "'\\u3000'.encode() * (5 << 20)",
    "newlines": "b'\\n' * (16 << 20)",
    "returns": "b'\\r' * (16 << 20)",
    "not utf-8": "b'\\xff' * (16 << 20)",
    "not utf-8 at the end": "b'a' * (16 << 20) + b'\\xff'",
    "astral": "'\\U0001f600'.encode() * (4 << 20)",
    "one astral": "b'a' * (16 << 20) + '\\U0001f600'.encode()",
    "surrogates": "b'\\xed\\xa0\\x80' * (5 << 20)",
    "surrogates apart": "b'\\xed\\xa0\\x80a' * (4 << 20)",
    "surrogates, not utf-8": "b'\\xed\\xa0\\x80a' * (4 << 20) + b'\\xff'",
    "lists": "b'[' + b'[],' * (5 << 20)",
    "lists in an object": "b'{\"a\":[' + b'[],' * (5 << 20) + b'\"'",
    "keys": "b'{' + b'\"a\":1,' * (2 << 20)",
    "deep": "b'[' * (16 << 20)",
    "text": "b'\"' + b'a' * (16 << 20)",
    "wide text": "b'\"' + b'a' * (16 << 20) + '\\U0001f600\"'.encode()",
    "escapes": "b'\"' + b'\\\\n' * (8 << 20) + b'\"'",
    "escapes in an object": "b'{\"a\": \"' + b'a\\\\n' * (5 << 20) + b'\", \"a\": 1}'",
    "number": "b'1' * (16 << 20)",
    "fraction": "b'1.' + b'0' * (16 << 20)",
}
MEASURE = """
import time
from pathlib import Path
from cobalt.evaluator import checker
from cobalt.evaluator.checker import Rule
from cobalt.evaluator.feedback import show
data = {data}
def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) >> 10
EXPECTED = ("1", "a b c", "\\n".join(map(str, range(1000))))
Path("/proc/self/clear_refs").write_text("5")  # what making the bytes took does not count
before, began = resident("VmRSS"), time.process_time()
for expected in EXPECTED:
    for rule in ("strip", "lines", "tokens", "float"):
        assert not Rule(rule).accepts(data, expected) or not expected
    show(checker.brief(data))
for value in (1, [1], [[], []], "a", {{"a": 1}}, {{"a": [[]], "b": 2}}):
    checker.value_equal(data, value)
    show(checker.brief(data))
print(resident("VmHWM") - before, time.process_time() - began)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_sixteen_hostile_mebibytes_cost_little(name):
    """18 judgements of each: less than 100 MiB more than the bytes themselves, seconds in all."""
    script = textwrap.dedent(MEASURE).format(data=HOSTILE[name])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak_mib, seconds = map(float, done.stdout.split())
    assert peak_mib < 100
    assert seconds < 60  # linear: a second or so for each judgement, on the slowest of machines
