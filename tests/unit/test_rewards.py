"""The shaped reward: published golden values, every rule and border, and properties; token counters."""

import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.rewards.cobalt import (
    KEYWORDS,
    NO_THINKING,
    PLAIN,
    PROFILES,
    ShapedReward,
    check_format,
    rewarded_keywords,
    shaped_reward,
)
from cobalt.text import o200k_counter, o200k_path, tokenizer_counter

_TOKEN = re.compile(r"\d{1,3}| ?[A-Za-z]+|`+|\)\n|\n|.", re.DOTALL)


def tokens(text):
    """Stands in for the o200k_base encoding, with which it agrees on the texts of the golden table.

    There, numbers are split into groups of up to three digits, a space before a number is a token of its own
    but one before a word belongs to the word, and a closing parenthesis takes the newline after it.
    """
    return len(_TOKEN.findall(text))


def numbers(n):
    return " ".join(map(str, range(n)))


CODE = "```python\nprint(1)\n```"
C = "\n</think>\n" + CODE
A = numbers(100) + C
BLOCK = "abcdefghijklmnopqrstuvwxyz012345"
SEEN_TOO_OFTEN = "wait but but error error error error error " + numbers(512)
ALL_KEYWORDS = " ".join(KEYWORDS) + " " + numbers(512)


def reward(text, p, b=0.0, **kw):
    return shaped_reward(text, p, prev_best_pass_rate=b, count_tokens=tokens, **kw)


def total(text, p, b=0.0, **kw):
    return reward(text, p, b, **kw).total


PUBLISHED_VALUES = {
    "all passed": (A, 1, 0, 1.0),
    "explanation over 512": (A + "\n" + numbers(300), 1, 0, 0.99),
    "half": (A, 0.5, 0, 0.2),
    "quarter": (A, 0.25, 0, 0.0),
    "improved from half": (A, 0.75, 0.5, 0.25),
    "improved, low tier": (A, 0.4, 0.2, 0.025),
    "equal": (A, 0.5, 0.5, -0.08560555909017863),
    "regressed": (A, 0.25, 0.5, -0.13560555909017863),
    "lost everything": (A, 0, 0.8, -0.18560555909017862),
    "long thinking": (numbers(512) + C, 0, 0, -0.042911221027481176),
    "keyword seen too often": (SEEN_TOO_OFTEN + C, 0, 0, -0.03263582003182633),
    "keyword cap": (ALL_KEYWORDS + C, 0, 0, -0.01760544753414872),
    "overlong thinking, wrong": (numbers(2000) + C, 0, 0, -0.2),
    "overlong thinking, right": (numbers(2000) + C, 1, 0, 0.99),
    "overlong response and explanation": (A + "\n" + numbers(1200), 0, 0, -0.2856055590901786),
    "no thinking, right": (CODE, 1, 0, 0.09999999999999998),
    "no thinking, wrong": (CODE, 0, 0, -1.0),
    "repetition": (BLOCK * 8 + A, 1, 0, 0.09999999999999998),
    "not quite repetition": (BLOCK * 7 + A, 1, 0, 1.0),
    "no block": (numbers(100) + "\n</think>\nprose", 1, 0, -1.0),
}


@pytest.mark.parametrize(("text", "p", "b", "expected"), PUBLISHED_VALUES.values(), ids=PUBLISHED_VALUES)
def test_published_values(text, p, b, expected):
    result = reward(text, p, b)
    assert result.total == pytest.approx(expected, abs=1e-12)
    parts = result.tier + result.improvement + result.format_penalty + result.thinking + result.length
    assert result.total == pytest.approx(max(-1.0, min(1.0, parts)), abs=1e-12)
    validation = reward(text, p, b, training=False)  # asks only for all tests
    assert validation.total == float(p == 1 and result.has_code)


@pytest.mark.parametrize(
    ("text", "kw"),
    [("prose", {}), (CODE, {}), (A, {"training": False}), (A, {"profile": PLAIN})],
    ids=["no code", "broken format", "validation", "plain profile"],
)
def test_tokens_are_counted_only_where_they_matter(text, kw):
    def never(_):
        raise AssertionError("tokens must not be counted here")

    shaped_reward(text, 0.5, count_tokens=never, **kw)


# --- Correctness


@pytest.mark.parametrize(
    ("p", "b", "expected"),
    [
        (1.0, 0.0, 1.0),
        (0.999, 0.0, 0.2),
        (0.5, 0.0, 0.2),
        (0.499, 0.0, 0.0),
        (0.0, 0.0, -0.1),
        (1.0, 1.0, 1.0),  # a perfect program is never a regression
        (1.0, 0.5, 1.0),
        (0.6, 0.2, 0.25),
        (0.3, 0.2, 0.0125),
        (0.45, 0.9, -0.15),
        (0.0, 1e-6, -0.2),
        (0.5, 1.0, -0.15),
    ],
)
def test_improvement_adds_and_regression_replaces_the_tier(p, b, expected):
    result = reward(A, p, b, profile=PLAIN)
    assert result.total == pytest.approx(expected, abs=1e-12) and result.format_ok is None
    assert result.regressed == (0 < b >= p < 1)


@pytest.mark.parametrize("rate", [-0.01, 1.0000001, math.nan, math.inf])
def test_rates_outside_the_unit_interval_are_refused(rate):
    for rates, name in (((rate, 0.0), "pass_rate"), ((0.5, rate), "prev_best_pass_rate")):
        with pytest.raises(ValueError, match=rf"^{name} must be in \[0, 1\], got"):
            reward(A, *rates)


# --- Format

SOUND = {
    "nothing before the tag": "</think>" + CODE,
    "prose around the block": "x</think>\nThe idea:\n" + CODE + "\nDone.",
    "empty program": "x</think>```python\n```",
    "closing fence with trailing text": "x</think>```python\nprint(1)\n```tail",
    "backticks in thinking": "```python\nx\n```\n``` and `y`</think>" + CODE,
}
BROKEN = {
    "no tag": ("thinking", CODE),
    "two tags": ("thinking", "a</think>b</think>" + CODE),
    "tag in the explanation": ("thinking", "a</think>" + CODE + "</think>"),
    # A block in the thinking is enough to be run, not enough to be well-formed.
    "block only before the tag": ("opening_fence", "x" + CODE + "</think>the end"),
    "other language": ("opening_fence", "x</think>```py\nprint(1)\n```"),
    "two blocks": ("opening_fence", "x</think>" + CODE + "\n" + CODE),
    "closing fence not on its own line": ("closing_fence", "x</think>```python\nprint(1)```"),
    "backtick in the code": ("backtick", "x</think>```python\nprint('`')\n```"),
    "repetition in the code": ("repetition", "x</think>```python\n" + BLOCK * 8 + "\n```"),
    "repetition before other defects": ("repetition", "a" * 256 + CODE),
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_sound_formats(text):
    assert check_format(text).ok and total(text, 1) == 1.0


@pytest.mark.parametrize(("defect", "text"), BROKEN.values(), ids=BROKEN)
def test_broken_formats(defect, text):
    result = reward(text, 1)
    assert (result.format_ok, result.defect, result.format_penalty) == (False, defect, -0.9)
    assert result.total == pytest.approx(0.1, abs=1e-12) and result.has_code


def test_parts_of_a_sound_answer_are_stripped():
    check = check_format("\n think \n</think>\n\n Idea.\n" + CODE + " \n\n After. \n")
    response = "Idea.\n" + CODE + " \n\n After."
    assert (check.thinking, check.response, check.explanation) == ("think", response, "After.")
    check = check_format(" Idea.\n" + CODE + "\nAfter.", require_thinking=False)
    assert (check.thinking, check.response) == ("", "Idea.\n" + CODE + "\nAfter.")


def test_missing_code_is_punished_whatever_was_scored():
    broken = ["", "</think>", "x</think>```python\nprint(1)", "```python print(1)```"]
    text = "x</think>```python  # answer\nprint(1)\n```"
    assert check_format(text).ok  # the opening line matters to the extraction only
    for each in (*broken, text):
        result = reward(each, 1.0, 0.5)
        assert (result.total, result.has_code, result.format_ok) == (-1.0, False, False)


# --- Lengths and thinking


def by_length(**lengths):
    """A counter that returns a chosen length for each part of `think</think>...`."""
    return lambda text: lengths["thinking" if text == "t" else "explanation" if text == "e" else "response"]


PARTED = "t</think>" + CODE + "\ne"


@pytest.mark.parametrize(
    ("thinking", "response", "explanation", "right", "wrong"),
    [
        (4096, 2048, 512, 1.0, -0.1 + 0.075 * math.tanh(4)),
        (4097, 2048, 512, 0.99, -0.2),
        (4096, 2049, 512, 0.99, -0.2 + 0.075 * math.tanh(4)),
        (4097, 2049, 513, 0.99, -0.4),
        (0, 8, 0, 1.0, -0.1),
    ],
)
def test_length_limits_are_inclusive(thinking, response, explanation, right, wrong):
    count = by_length(thinking=thinking, response=response, explanation=explanation)
    assert shaped_reward(PARTED, 1, count_tokens=count).total == pytest.approx(right, abs=1e-12)
    assert shaped_reward(PARTED, 0, count_tokens=count).total == pytest.approx(wrong, abs=1e-12)
    quarter = shaped_reward(PARTED, 0.25, count_tokens=by_length(thinking=100, response=8, explanation=0))
    assert (quarter.total, quarter.thinking) == (0.0, 0.0)  # zero is not negative


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Wait, BUT... However; re-verify. error-prone", 5),
        ("waiting butter errors verified wrongly evaluated await _but", 0),
        ("but " * 4, 1),
        ("but\n" * 5, 0),
        ("wait " * 5 + "wrong", 1),
    ],
)
def test_keywords_are_whole_words_in_any_case(text, count):
    assert rewarded_keywords(text) == count


@pytest.mark.parametrize(("n", "bonus"), [(0, 0.0), (1, 0.005), (4, 0.02), (5, 0.025), (9, 0.025)])
def test_keyword_bonus_is_capped_and_for_thinking_only(n, bonus):
    words = " ".join(KEYWORDS[:n])
    for text, expected in ((f"{words}</think>{CODE}", bonus), (f"</think>{words} {CODE}", 0.0)):
        result = shaped_reward(text, 0, count_tokens=lambda _: 0)
        assert result.total == pytest.approx(-0.1 + expected, abs=1e-12)


def test_every_part_is_reported():
    count = by_length(thinking=100, response=2049, explanation=513)
    bonus = 0.075 * math.tanh(100 / 1024)
    found = shaped_reward(PARTED, 0.25, prev_best_pass_rate=0.5, count_tokens=count)
    assert found == ShapedReward(
        total=pytest.approx(-0.35 + bonus), tier=-0.1, improvement=-0.05, thinking=pytest.approx(bonus),
        length=-0.2, format_ok=True, regressed=True,
    )  # fmt: skip
    assert found.metrics() == {
        "tier": -0.1, "improvement": -0.05, "format_penalty": 0.0, "thinking": pytest.approx(bonus),
        "length": -0.2, "has_code": 1.0, "regressed": 1.0, "format_ok": 1.0,
    }  # fmt: skip
    assert reward(A, 0.75, 0.5, training=False) == ShapedReward(
        total=0.0, tier=0.2, improvement=pytest.approx(0.05), format_ok=True
    )
    nothing = ShapedReward(total=-1.0, tier=-1.0, has_code=False)
    assert reward("prose", 1.0, profile=PLAIN) == nothing and "format_ok" not in nothing.metrics()


# --- Properties

RATES = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0, 5e-324, 1 - 2**-53])
PIECES = st.lists(
    st.sampled_from(
        ["</think>", "```python", "```", "`", "\n", "\n```", "wait ", "x = 1", " ", CODE, "```py", BLOCK * 8]
    ),
    max_size=12,
).map("".join)
COUNTERS = st.integers(0, 6000).map(lambda n: lambda text: n if text else 0)


def test_without_thinking_the_rest_is_judged():
    assert (total(CODE, 1, profile=NO_THINKING), total(A, 0, profile=NO_THINKING)) == (1.0, total(A, 0))
    assert reward("a</think>b</think>" + CODE, 1, profile=NO_THINKING).defect == "thinking"


@given(PIECES | st.text(max_size=60), RATES, RATES, COUNTERS, st.sampled_from(list(PROFILES.values())))
def test_range_and_sum_of_parts(text, p, b, counter, profile):
    result = shaped_reward(text, p, prev_best_pass_rate=b, count_tokens=counter, profile=profile)
    parts = result.tier + result.improvement + result.format_penalty + result.thinking + result.length
    assert -1.0 <= result.total <= 1.0
    assert result.total == pytest.approx(max(-1.0, min(1.0, parts)), abs=1e-12)
    assert result.metrics().keys() == reward("", 0.0, profile=profile).metrics().keys()


@given(PIECES, st.tuples(RATES, RATES).map(sorted), RATES, COUNTERS)
@example(CODE, [0.0, 0.5], 0.0, len)
def test_monotone_in_the_pass_rate_and_a_sound_format_never_scores_below_a_broken_one(
    text, rates, b, counter
):
    low, high = (shaped_reward(text, p, count_tokens=counter).total for p in rates)
    # The bonus for thinking lifts p=0 to at most 0.0; an overlong text costs p>0 at most 0.01.
    assert low <= high + (0.01 if check_format(text).ok else 0)
    low, high = (total(CODE, p, b, profile=PLAIN) for p in rates)
    assert low <= high + 1e-15
    broken = reward(text, rates[1], b)
    if broken.has_code and not broken.format_ok:
        assert total(A, rates[1], b) > broken.total


# --- Token counters


def test_tokenizer_counter_leaves_special_tokens_out():
    def tokenizer(text, *, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": text.encode().split()}

    assert tokenizer_counter(tokenizer)("a b \ud800") == 3


def test_o200k_is_read_from_its_cache_and_never_fetched(tmp_path, monkeypatch):
    asked = []

    def get_encoding(name):
        asked.append(name)
        return SimpleNamespace(encode_ordinary=str.split)

    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    for variable, folder in (("DATA_GYM_CACHE_DIR", "/gym"), ("TIKTOKEN_CACHE_DIR", tmp_path)):
        monkeypatch.setenv(variable, str(folder))
        assert o200k_path() == Path(folder) / "fb374d419588a4632f3f557e76b4b70aebbca790"
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InputError, match="needs the package tiktoken"):
        o200k_counter()
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=get_encoding))
    with pytest.raises(InputError, match=re.escape(f"not cached at {o200k_path()}")):
        o200k_counter()
    assert asked == []
    o200k_path().write_text("")
    assert o200k_counter()("a <|endoftext|> c") == 3 and asked == ["o200k_base"]
