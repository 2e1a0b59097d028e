"""Comparing outputs with expectations: rows of outputs and values."""

import json

import pytest

from cobalt.errors import BadRequest
from cobalt.evaluator.checker import Rule, decode, encode, value_equal
from cobalt.sandbox.limits import Limits

KINDS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\xff1", "\ufffd1"),
        (b"\xc3", "\ufffd"),
        (b"a\xed\xa0\x80", "a\ud800"),
    ],
)
def test_decoding_never_fails_and_keeps_lone_surrogates(data, text):
    assert decode(data) == text
    assert decode(encode(text)) == text


@pytest.mark.parametrize(
    ("text", "expected", "equal"),
    [
        ("3", 3, True), ("3.0", 3, True), ("3", [3], True), ("[3]", [3], True), ("[[3]]", [[3]], True),
        ("[3]", [[3]], True), ("3", [[3]], False), ("[1]", 1, False), ("[[1]]", [1], False),
        ("[1, 2]", (1, 2), True), ("1", [1, 2], False), ("[]", [[]], True), ("{}", [], False),
        ('"a"', "a", True), ('"a "', "a", False), ('"\\u0061"', "a", True), ('"\\ud83d\\ude00"', "😀", True),
        ('"\\ud800"', "\ud800", True), ("null", None, True), ("null", [None], True), ("null", 0, False),
        ("true", 1, True), ("0", False, True), ("1E2", 100, True), ("-0.0", 0, True),
        ('{"a": 1, "b": [2]}', {"b": [2.0], "a": True}, True), ('{"a": 1, "a": 2}', {"a": 2}, True),
        ("NaN", float("nan"), False), ("Infinity", float("inf"), True), ("1e999", float("inf"), True),
        (" \t[ 1 ,\r2 ] ", [1, 2], True), ("[1, 2,]", [1, 2], False), ("[1 2]", [1, 2], False),
        ("", 1, False), ("3 4", 3, False), ("01", 1, False), ("tru", True, False), ("\ufeff1", 1, False),
        ("9007199254740993", 9007199254740992.0, False), ("0.30000000000000004", 0.3, False),
        ("[" * 100_000, 1, False), ("9" * 5000, 1, False), ("1" * 4000, int("1" * 4000), True),
        ("[1, 1.0]", [True, 1], True),
    ],
)  # fmt: skip
def test_values(text, expected, equal):
    assert value_equal(encode(text), expected) is equal


@pytest.mark.parametrize(
    ("compare", "stdout", "expected", "equal"),
    [
        ("strip", "  3 \n\n", "\t3", True),
        ("strip", "", "\n", True),
        ("strip", "", "0", False),
        ("strip", "1  2", "1 2", False),
        ("strip", "1 \n2", "1\n2", False),
        ("strip", "yes", "YES", False),
        ("strip", f"{KINDS}1{KINDS}", "1", True),
        ("lines", "1 \n2\t\n\n", "1\n2", True),
        ("lines", "1\n\n2", "1\n2", False),
        ("lines", "x\n 1\n2", "x\n1\n2", False),
        ("lines", "1\u2003\n2\x1c\n\u3000\n\n", "1\n2", True),
        ("lines", "\u2003", "1", False),
        ("tokens", "1\n2   3", "1 2\n3", True),
        ("tokens", "1 2 3 4", "1 2 3", False),
        ("tokens", "1.0", "1", False),
        (
            "tokens",
            "".join(f"{n}{x}" for n, x in enumerate(KINDS)),
            " ".join(map(str, range(20))),
            True,
        ),
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
        # LiveCodeBench's: each by its published rule, by hand
        ("livecodebench", " \n1 2 \n  3\n\n", "1 2\n3", True),
        ("livecodebench", "1\r\n2\r\n", "1\n2", True),
        ("livecodebench", "1\n\n2", "1\n2", False),  # an empty line counts
        ("livecodebench", "1\n2", "1 2", False),
        ("livecodebench", "1  2", "1 2", True),  # the words are numbers
        ("livecodebench", "a  b", "a b", False),
        ("livecodebench", "a 1.0", "a 1", False),  # one word is none
        ("livecodebench", "1.0 2e0", "1 2", True),
        ("livecodebench", "+1 -0 .5 1_000", "1 0 0.50 1000", True),
        ("livecodebench", "0.1", "0.10000000000000001", False),
        ("livecodebench", "50000000000000000", "50000000000000001", False),
        ("livecodebench", "1 2 3", "1 2", False),
        ("livecodebench", "", "0", False),
        ("livecodebench", "\n", "", True),
        ("livecodebench", "1\r2", "1 2", True),  # a carriage return is a space within a line
        ("livecodebench", "1\r2", "1\n2", False),
        ("livecodebench", "nan", "nan", True),
        ("livecodebench", "NaN", "nan", False),  # equal to no number
        ("livecodebench", "sNaN 1", "sNaN  1", False),
        ("livecodebench", "Infinity -inf", "inf -Infinity", True),
        ("livecodebench", "1e400", "10e399", True),
        ("livecodebench", "1e99999999999999999999", "0", False),
        ("livecodebench", "٣", "3", True),
        ("livecodebench", "yes", "YES", False),
        ("livecodebench", "9" * 5000 + ".0", "9" * 5000, True),
    ],
)
def test_rules_of_comparison(compare, stdout, expected, equal):
    assert Rule(compare).accepts(encode(stdout), expected) is equal


@pytest.mark.parametrize("rule", ["strip", "lines", "tokens", "float", "livecodebench"])
def test_long_outputs(rule):
    lines = "\n".join(f"{n} {n * 7 % 1000}" for n in range(50_000)) + "\n"
    for stdout, rules in (
        (f"{lines}\n\n", ("strip", "lines", "tokens", "float", "livecodebench")),
        (lines.replace("\n", " \n"), ("lines", "tokens", "float", "livecodebench")),
        (lines.replace("\n", " "), ("tokens", "float")),
        (lines.replace("\n", ".0\n"), ("float", "livecodebench")),
        (lines.replace("49999 ", "49998 "), ()),
        (lines.removesuffix("\n") + "1\n", ()),
        (lines.replace("1 7\n", "1 8\n", 1), ()),
        (lines + "0\n", ()),
    ):
        assert Rule(rule).accepts(stdout.encode(), lines) is (rule in rules)
    assert Rule(rule).accepts(b"x" * (4 << 20), "x" * (4 << 20))


def test_long_values():
    numbers, text = [n % 1000 / 4 for n in range(150_000)], "a\n😀\\" * 100_000
    table = {f"key {n}": [n, str(n), None, {"x": n / 2}] for n in range(15_000)}
    for value, other in ((numbers, [*numbers[:-1], -1]), (numbers, [*numbers, 1]), (text, text + "a"),
                         (table, table | {"key 7": [7, "7", None, {"x": 3}]})):  # fmt: skip
        for line in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
            assert value_equal(line.encode(), value) and value_equal(line.encode(), [value])
        assert not value_equal(json.dumps(other).encode(), value)


@pytest.mark.parametrize("compare", ["", "Strip", "float()", "float(1)x", "float(-1, 0)", "float(nan, 0)"])
def test_an_unknown_rule_is_refused(compare):
    with pytest.raises(BadRequest, match="must be strip, lines, tokens or float"):
        Rule(compare)


def test_livecodebench_wants_a_list_where_it_expects_one_and_has_its_limits():
    theirs = Rule("livecodebench")
    assert (theirs.limits.cpu_s, theirs.limits.wall_limit_s) == (6, 6) and Rule("lines").limits == Limits()
    assert [theirs.accepts_value(text, [3]) for text in (b"[3]", b"3")] == [True, False]
    assert [Rule().accepts_value(text, [3]) for text in (b"[3]", b"3")] == [True, True]
