"""The shaped reward: published golden values, every rule and border, and properties."""

from __future__ import annotations

import math
import re
import sys
import tempfile
import time
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
    rewarded_keywords,
    shaped_reward,
)
from cobalt.rewards.format import check_format
from cobalt.tokens import o200k_counter, o200k_path, tokenizer_counter

_TOKEN = re.compile(r"\d{1,3}| ?[A-Za-z]+|`+|\)\n|\n|.", re.DOTALL)


def tokens(text: str) -> int:
    """Stands in for the o200k_base encoding, with which it agrees on the texts of the golden table.

    There, numbers are split into groups of up to three digits, a space before a number is a token of its own
    but one before a word belongs to the word, and a closing parenthesis takes the newline after it.
    """
    return len(_TOKEN.findall(text))


def numbers(n: int) -> str:
    return " ".join(map(str, range(n)))


CODE = "```python\nprint(1)\n```"
C = "\n</think>\n" + CODE
A = numbers(100) + C
BLOCK = "abcdefghijklmnopqrstuvwxyz012345"
ALL_KEYWORDS = " ".join(KEYWORDS) + " "


def reward(text: str, p: float, b: float = 0.0, **kw: object) -> ShapedReward:
    return shaped_reward(text, p, prev_best_pass_rate=b, count_tokens=tokens, **kw)  # type: ignore[arg-type]


def total(text: str, p: float, b: float = 0.0, **kw: object) -> float:
    return reward(text, p, b, **kw).total


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers(100), 199),
        (numbers(512), 1023),
        ("wait but but error error error error error " + numbers(512), 1032),
        (ALL_KEYWORDS + numbers(512), 1033),
        (numbers(2000), 4999),
        (CODE, 8),
        (CODE + "\n" + numbers(1200), 2608),
    ],
)
def test_stand_in_counter_gives_the_stated_token_counts(text: str, expected: int) -> None:
    assert tokens(text) == expected


PUBLISHED_VALUES = [
    ("all passed", A, 1, 0, 1.0),
    ("explanation over 512", A + "\n" + numbers(300), 1, 0, 0.99),
    ("half", A, 0.5, 0, 0.2),
    ("quarter", A, 0.25, 0, 0.0),
    ("improved from half", A, 0.75, 0.5, 0.25),
    ("improved, low tier", A, 0.4, 0.2, 0.025),
    ("equal", A, 0.5, 0.5, -0.08560555909017863),
    ("equal, higher", A, 0.8, 0.8, -0.08560555909017863),
    ("regressed", A, 0.25, 0.5, -0.13560555909017863),
    ("regressed from perfect", A, 0.95, 1.0, -0.09060555909017863),
    ("lost everything", A, 0, 0.8, -0.18560555909017862),
    ("long thinking", numbers(512) + C, 0, 0, -0.042911221027481176),
    (
        "keyword seen too often",
        "wait but but error error error error error " + numbers(512) + C,
        0,
        0,
        -0.03263582003182633,
    ),
    ("keyword cap", ALL_KEYWORDS + numbers(512) + C, 0, 0, -0.01760544753414872),
    ("overlong thinking, wrong", numbers(2000) + C, 0, 0, -0.2),
    ("overlong thinking, right", numbers(2000) + C, 1, 0, 0.99),
    ("overlong response and explanation", A + "\n" + numbers(1200), 0, 0, -0.2856055590901786),
    ("no thinking, right", CODE, 1, 0, 0.09999999999999998),
    ("no thinking, wrong", CODE, 0, 0, -1.0),
    ("repetition", BLOCK * 8 + A, 1, 0, 0.09999999999999998),
    ("not quite repetition", BLOCK * 7 + A, 1, 0, 1.0),
    ("no block", numbers(100) + "\n</think>\nprose", 1, 0, -1.0),
]


@pytest.mark.parametrize(
    ("text", "p", "b", "expected"),
    [row[1:] for row in PUBLISHED_VALUES],
    ids=[row[0] for row in PUBLISHED_VALUES],
)
def test_published_values(text: str, p: float, b: float, expected: float) -> None:
    result = reward(text, p, b)
    assert result.total == pytest.approx(expected, abs=1e-12)
    parts = result.tier + result.improvement + result.format_penalty + result.thinking + result.length
    assert result.total == pytest.approx(max(-1.0, min(1.0, parts)), abs=1e-12)


def test_validation_asks_only_for_all_tests() -> None:
    assert total(A, 1, training=False) == 1.0
    assert total(A, 0.95, training=False) == 0.0
    assert total(CODE, 1, training=False) == 1.0  # malformed, but right
    assert total(numbers(100) + "\n</think>\nprose", 1, training=False) == 0.0
    assert total(A, 0.9, 0.95, training=False) == 0.0


def never(_: str) -> int:
    raise AssertionError("tokens must not be counted here")


@pytest.mark.parametrize(
    ("text", "kw"),
    [("prose", {}), (CODE, {}), (A, {"training": False}), (A, {"profile": PLAIN})],
    ids=["no code", "broken format", "validation", "plain profile"],
)
def test_tokens_are_counted_only_where_they_matter(text: str, kw: dict[str, object]) -> None:
    shaped_reward(text, 0.5, count_tokens=never, **kw)  # type: ignore[arg-type]


# --- Correctness


@pytest.mark.parametrize(
    ("p", "tier"), [(1.0, 1.0), (0.999, 0.2), (0.5, 0.2), (0.499, 0.0), (1e-9, 0.0), (0.0, -0.1)]
)
def test_tiers_and_their_borders(p: float, tier: float) -> None:
    assert reward(A, p, profile=PLAIN) == ShapedReward(total=tier, tier=tier)


@pytest.mark.parametrize(
    ("p", "b", "expected"),
    [
        (1.0, 1.0, 1.0),  # a perfect program is never a regression
        (1.0, 0.5, 1.0),
        (0.6, 0.0, 0.2),  # nothing to improve on
        (0.0, 0.0, -0.1),
        (0.6, 0.2, 0.25),
        (0.3, 0.2, 0.0125),
        (0.9, 0.9, -0.1),
        (0.45, 0.9, -0.15),
        (0.0, 1e-6, -0.2),
        (0.5, 1.0, -0.15),
    ],
)
def test_improvement_adds_and_regression_replaces_the_tier(p: float, b: float, expected: float) -> None:
    assert total(A, p, b, profile=PLAIN) == pytest.approx(expected, abs=1e-12)


def test_regression_is_told_apart_from_its_value() -> None:
    equal = reward(A, 0.5, 0.5)
    assert (equal.tier, equal.improvement, equal.regressed) == (-0.1, 0.0, True)
    assert not reward(A, 1.0, 1.0).regressed
    assert not reward(A, 0.0, 0.0).regressed


# --- Format

SOUND = {
    "plain": A,
    "nothing before the tag": "</think>" + CODE,
    "prose around the block": "x</think>\nThe idea:\n" + CODE + "\nDone.",
    "another language name after python": "x</think>```python3\nprint(1)\n```",
    "empty program": "x</think>```python\n```",
    "closing fence with trailing text": "x</think>```python\nprint(1)\n```tail",
    "backticks in thinking": "```python\nx\n```\n``` and `y`</think>" + CODE,
    "inline code in the explanation": "x</think>" + CODE + "\nuses `print`",
}
BROKEN = {
    "no tag": ("thinking", CODE),
    "two tags": ("thinking", "a</think>b</think>" + CODE),
    "tag in the explanation": ("thinking", "a</think>" + CODE + "</think>"),
    "block only before the tag": ("opening_fence", "x" + CODE + "</think>the end"),
    "other language": ("opening_fence", "x</think>```py\nprint(1)\n```"),
    "no language": ("opening_fence", "x</think>```\nprint(1)\n```"),
    "two blocks": ("opening_fence", "x</think>" + CODE + "\n" + CODE),
    "closing fence not on its own line": ("closing_fence", "x</think>```python\nprint(1)```"),
    "two closing fences": ("closing_fence", "x</think>" + CODE + "\n```"),
    "second, unnamed block": ("closing_fence", "x</think>" + CODE + "\n```\nout\n```"),
    "backtick in the code": ("backtick", "x</think>```python\nprint('`')\n```"),
    "indented inner fence": ("backtick", "x</think>```python\ns = '''\n  ```x\n'''\n```"),
    "repetition in the code": ("repetition", "x</think>```python\n" + BLOCK * 8 + "\n```"),
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_sound_formats(text: str) -> None:
    assert check_format(text).defect is None
    assert total(text, 1) == 1.0


@pytest.mark.parametrize(("defect", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_formats(defect: str, text: str) -> None:
    result = reward(text, 1)
    assert (result.format_ok, result.defect, result.format_penalty) == (False, defect, -0.9)
    assert result.total == pytest.approx(0.1, abs=1e-12)


def test_repetition_is_found_before_other_defects() -> None:
    assert check_format(BLOCK * 8).defect == "repetition"
    assert check_format("a" * 256).defect == "repetition"
    assert check_format("a" * 255).defect == "thinking"


def test_parts_of_a_sound_answer_are_stripped() -> None:
    check = check_format("\n think \n</think>\n\n Idea.\n" + CODE + " \n\n After. \n")
    assert (check.thinking, check.explanation) == ("think", "After.")
    assert check.response == "Idea.\n" + CODE + " \n\n After."


def test_without_thinking_the_response_is_everything() -> None:
    check = check_format(" Idea.\n" + CODE + "\nAfter.", require_thinking=False)
    assert (check.thinking, check.response, check.explanation) == (
        "",
        "Idea.\n" + CODE + "\nAfter.",
        "After.",
    )
    broken = check_format("Idea.", require_thinking=False)
    assert (broken.thinking, broken.response, broken.explanation) == ("", "", "")


def test_code_comes_from_the_whole_text_and_format_from_the_answer() -> None:
    # A block in the thinking is enough to be run, not enough to be well-formed.
    result = reward("try\n```python\nprint(1)\n```\n</think>No block here.", 1)
    assert (result.has_code, result.defect) == (True, "opening_fence")


def test_the_opening_line_matters_to_the_extraction_only() -> None:
    text = "x</think>```python  # answer\nprint(1)\n```"
    assert check_format(text).ok
    assert total(text, 1) == -1.0  # no code block, so the format is not even asked for


def test_missing_code_is_punished_whatever_was_scored() -> None:
    for text in ("", "</think>", "x</think>```python\nprint(1)", "```python print(1)```"):
        result = reward(text, 1.0, 0.5)
        assert (result.total, result.has_code, result.format_ok) == (-1.0, False, False)


# --- Lengths and thinking


def by_length(**lengths: int):  # type: ignore[no-untyped-def]
    """A counter that returns a chosen length for each part of `think</think>...`."""
    return lambda text: lengths["thinking" if text == "t" else "explanation" if text == "e" else "response"]


PARTED = "t</think>" + CODE + "\ne"


@pytest.mark.parametrize(
    ("thinking", "response", "explanation", "right", "wrong"),
    [
        (4096, 2048, 512, 1.0, -0.1 + 0.075 * math.tanh(4)),
        (4097, 2048, 512, 0.99, -0.2),
        (4096, 2049, 512, 0.99, -0.2 + 0.075 * math.tanh(4)),
        (4096, 2048, 513, 0.99, -0.2 + 0.075 * math.tanh(4)),
        (4097, 2049, 513, 0.99, -0.4),
        (0, 2049, 513, 0.99, -0.3),
        (0, 8, 0, 1.0, -0.1),
    ],
)
def test_length_limits_are_inclusive(
    thinking: int, response: int, explanation: int, right: float, wrong: float
) -> None:
    count = by_length(thinking=thinking, response=response, explanation=explanation)
    assert shaped_reward(PARTED, 1, count_tokens=count).total == pytest.approx(right, abs=1e-12)
    assert shaped_reward(PARTED, 0, count_tokens=count).total == pytest.approx(wrong, abs=1e-12)


def test_zero_reward_is_treated_as_not_negative() -> None:
    count = by_length(thinking=100, response=8, explanation=0)
    quarter = shaped_reward(PARTED, 0.25, count_tokens=count)
    assert (quarter.total, quarter.thinking) == (0.0, 0.0)


def test_keywords_are_whole_words_in_any_case() -> None:
    assert rewarded_keywords("Wait, BUT... However; re-verify. error-prone") == 5
    assert rewarded_keywords("waiting butter errors verified wrongly evaluated await _but") == 0
    assert rewarded_keywords("but " * 4) == 1
    assert rewarded_keywords("but\n" * 5) == 0
    assert rewarded_keywords("wait " * 5 + "wrong") == 1
    assert rewarded_keywords("") == 0


@pytest.mark.parametrize(("n", "bonus"), [(0, 0.0), (1, 0.005), (4, 0.02), (5, 0.025), (9, 0.025)])
def test_keyword_bonus_is_capped(n: int, bonus: float) -> None:
    text = " ".join(KEYWORDS[:n]) + "</think>" + CODE
    result = shaped_reward(text, 0, count_tokens=lambda _: 0)
    assert result.total == pytest.approx(-0.1 + bonus, abs=1e-12)
    assert result.keywords == n


def test_keywords_outside_the_thinking_earn_nothing() -> None:
    result = shaped_reward("</think>wait, but " + CODE, 0, count_tokens=lambda _: 0)
    assert result.total == pytest.approx(-0.1)


def test_every_part_is_reported() -> None:
    count = by_length(thinking=100, response=2049, explanation=513)
    bonus = 0.075 * math.tanh(100 / 1024)
    assert shaped_reward(PARTED, 0.25, prev_best_pass_rate=0.5, count_tokens=count) == ShapedReward(
        total=pytest.approx(-0.35 + bonus),
        tier=-0.1,
        improvement=-0.05,
        thinking=pytest.approx(bonus),
        length=-0.2,
        format_ok=True,
        regressed=True,
        thinking_tokens=100,
        response_tokens=2049,
        explanation_tokens=513,
    )
    wait = shaped_reward("wait</think>" + CODE, 0, count_tokens=lambda _: 0)
    assert wait == ShapedReward(
        total=pytest.approx(-0.095), tier=-0.1, thinking=0.005, format_ok=True, keywords=1,
        thinking_tokens=0, response_tokens=0, explanation_tokens=0,
    )  # fmt: skip
    assert reward("wait" + A, 1).keywords == 0  # keywords are looked for where they earn something
    # Nothing is counted for a broken format, nor in validation.
    assert reward(CODE, 0.5) == ShapedReward(
        total=pytest.approx(-0.7), tier=0.2, format_penalty=-0.9, format_ok=False, defect="thinking"
    )
    assert reward(A, 0.75, 0.5, training=False) == ShapedReward(
        total=0.0, tier=0.2, improvement=pytest.approx(0.05), format_ok=True
    )
    assert reward("prose", 0.5) == ShapedReward(total=-1.0, tier=-1.0, has_code=False, format_ok=False)
    assert reward("prose", 1.0, profile=PLAIN, training=False) == ShapedReward(
        total=0.0, tier=-1.0, has_code=False, format_ok=None
    )


def test_metrics_are_the_parts() -> None:
    count = by_length(thinking=100, response=2049, explanation=0)
    assert shaped_reward(PARTED, 0, prev_best_pass_rate=0.5, count_tokens=count).metrics() == {
        "tier": -0.1,
        "improvement": -0.1,
        "format_penalty": 0.0,
        "thinking": pytest.approx(0.075 * math.tanh(100 / 1024)),
        "length": -0.1,
        "has_code": 1.0,
        "regressed": 1.0,
        "format_ok": 1.0,
    }
    assert reward("prose", 0.5, profile=PLAIN).metrics() == {
        "tier": -1.0,
        "improvement": 0.0,
        "format_penalty": 0.0,
        "thinking": 0.0,
        "length": 0.0,
        "has_code": 0.0,
        "regressed": 0.0,
    }


# --- Profiles


def test_plain_profile_keeps_correctness_only() -> None:
    assert total(CODE, 1, profile=PLAIN) == 1.0
    assert total(BLOCK * 8 + CODE, 0, profile=PLAIN) == -0.1
    assert total("prose", 1, profile=PLAIN) == -1.0
    assert reward(CODE, 0.75, 0.5, profile=PLAIN).format_ok is None


def test_profile_without_thinking_judges_the_rest() -> None:
    assert total(CODE, 1, profile=NO_THINKING) == 1.0
    assert total(CODE, 0, profile=NO_THINKING) == pytest.approx(-0.1)
    assert total(A, 0, profile=NO_THINKING) == total(A, 0)
    assert reward("a</think>b</think>" + CODE, 1, profile=NO_THINKING).defect == "thinking"
    assert reward(CODE + "\n" + CODE, 1, profile=NO_THINKING).defect == "opening_fence"


def test_profiles_by_name() -> None:
    assert {name: profile.name for name, profile in PROFILES.items()} == {
        "published": "published",
        "plain": "plain",
        "no_thinking": "no_thinking",
    }


@pytest.mark.parametrize("rate", [-0.01, 1.0000001, math.nan, math.inf])
def test_rates_outside_the_unit_interval_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"^pass_rate must be in \[0, 1\], got"):
        reward(A, rate)
    with pytest.raises(ValueError, match=r"^prev_best_pass_rate must be in \[0, 1\], got"):
        reward(A, 0.5, rate)


# --- Properties

RATES = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0, 5e-324, 1 - 2**-53])
PIECES = st.lists(
    st.sampled_from(
        ["</think>", "```python", "```", "`", "\n", "\n```", "wait ", "x = 1", " ", CODE, "```py", BLOCK * 8]
    ),
    max_size=12,
).map("".join)
COUNTERS = st.integers(0, 6000).map(lambda n: lambda text: n if text else 0)


@given(PIECES | st.text(max_size=60), RATES, RATES, COUNTERS, st.sampled_from(list(PROFILES.values())))
def test_range_and_sum_of_parts(text, p, b, counter, profile) -> None:  # type: ignore[no-untyped-def]
    result = shaped_reward(text, p, prev_best_pass_rate=b, count_tokens=counter, profile=profile)
    parts = result.tier + result.improvement + result.format_penalty + result.thinking + result.length
    assert -1.0 <= result.total <= 1.0
    assert result.total == pytest.approx(max(-1.0, min(1.0, parts)), abs=1e-12)
    assert result.metrics().keys() == reward("", 0.0, profile=profile).metrics().keys()
    verdict = shaped_reward(
        text, p, prev_best_pass_rate=b, count_tokens=counter, profile=profile, training=False
    )
    assert verdict.total == float(p == 1.0 and result.has_code)


@given(PIECES, st.tuples(RATES, RATES).map(sorted), COUNTERS)
def test_monotone_in_the_pass_rate_without_a_previous_best(text, rates, counter) -> None:  # type: ignore[no-untyped-def]
    low, high = (shaped_reward(text, p, count_tokens=counter).total for p in rates)
    if check_format(text).ok:
        # The bonus for thinking lifts p=0 to at most 0.0; an overlong text costs p>0 at most 0.01.
        assert low <= high + 0.01
    else:
        assert low <= high


@given(st.tuples(RATES, RATES).map(sorted), RATES)
def test_plain_reward_is_monotone_in_the_pass_rate(rates, b) -> None:  # type: ignore[no-untyped-def]
    low, high = (total(CODE, p, b, profile=PLAIN) for p in rates)
    assert low <= high + 1e-15


@given(RATES, RATES, PIECES)
@example(0.5, 0.0, CODE)
def test_a_sound_format_never_scores_below_a_broken_one(p, b, text) -> None:  # type: ignore[no-untyped-def]
    broken = reward(text, p, b)
    if broken.has_code and not broken.format_ok:
        assert total(A, p, b) > broken.total


def test_verdict_on_20k_characters_is_quick() -> None:
    text = numbers(4000) + C
    started = time.process_time()
    shaped_reward(text, 0, count_tokens=lambda _: 10)
    assert time.process_time() - started < 0.2  # the published scan takes about a second


# --- Token counters


def test_tokenizer_counter_leaves_special_tokens_out() -> None:
    def tokenizer(text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        text.encode()
        return {"input_ids": [1] * len(text.split())}

    assert tokenizer_counter(tokenizer)("a b \ud800") == 3


def test_where_the_encoding_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "fb374d419588a4632f3f557e76b4b70aebbca790"
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    assert o200k_path() == Path(tempfile.gettempdir()) / "data-gym-cache" / name
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "/gym")
    assert o200k_path() == Path("/gym") / name
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/tik")
    assert o200k_path() == Path("/tik") / name


def test_o200k_is_never_fetched_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get_encoding(name: str) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(encode_ordinary=str.split)

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InputError) as missing:
        o200k_counter()
    assert str(missing.value) == (
        "the o200k_base token counter needs the package tiktoken: install it, "
        "or count with the policy's tokenizer"
    )
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=get_encoding))
    with pytest.raises(InputError) as absent:
        o200k_counter()
    assert str(absent.value) == (
        f"the o200k_base encoding is not cached at {o200k_path()}: "
        "run `python -c \"import tiktoken; tiktoken.get_encoding('o200k_base')\"` once with network access "
        "and the same TIKTOKEN_CACHE_DIR, or count with the policy's tokenizer"
    )
    assert asked == []
    assert o200k_counter(allow_download=True)("a b") == 2
    o200k_path().write_text("")
    assert o200k_counter()("a <|endoftext|> c") == 3
    assert asked == ["o200k_base"] * 2
