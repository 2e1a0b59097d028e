"""Rules on model output, against plain oracles."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobalt.text import (
    TRUNCATION_MARK,
    after_thinking,
    extract_code,
    has_repetition,
    middle_truncate,
    shorten,
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no block", None),
        (None, None),
        ("```\nprint(1)\n```", "print(1)"),
        ("```python\na\n```\nthen\n```cpp\n  b\n\n```", "b"),
        ("```python\na\n```\n```python\nunfinished", "a"),
        ("```python\n```", ""),
        ("```python a=1\nx```", None),
        ("```py3\nif x:\n    '``'\n```", "if x:\n    '``'"),
    ],
)
def test_extract_code(text, code):
    assert extract_code(text) == code


@given(st.lists(st.sampled_from(["```", "python", "\n", "x", "`", " ", "``"]), max_size=14).map("".join))
def test_extract_code_agrees_with_a_scanner(text):
    """An oracle without regular expressions: find a fence, an optional word, a newline, the next fence."""
    found, position = None, 0
    while (start := text.find("```", position)) >= 0:
        body = start + 3
        while body < len(text) and re.fullmatch(r"\w", text[body]):
            body += 1
        end = text.find("```", body + 1) if text[body : body + 1] == "\n" else -1
        if end < 0:
            position = start + 1
        else:
            found, position = text[body + 1 : end].strip(), end + 3
    assert extract_code(text) == found


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a</think>b</think>c ", "c"),
        (" a ", "a"),
        ("<think>unfinished", "<think>unfinished"),
        ("</think>", ""),
    ],
)
def test_after_thinking(text, rest):
    assert after_thinking(text) == rest


@given(st.text(max_size=60), st.integers(1, 30))
def test_shortened_texts(text, limit):
    kept, cut = shorten(text, limit)
    assert text.startswith(kept) and len(kept) == min(limit, len(text)) and cut == (kept != text)
    result, stripped = middle_truncate(text, 2 * limit), text.strip()
    if len(stripped) <= 2 * limit:
        assert result == stripped
    else:
        assert result == stripped[:limit] + TRUNCATION_MARK + stripped[-limit:]


def _naive_repetition(text, block, times):
    return any(
        text[start : start + period] * times == text[start : start + period * times]
        for period in range(block, len(text) // times + 1)
        for start in range(len(text) - period * times + 1)
    )


words, unit = st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=6)


@given(words, unit, st.integers(1, 6), words, st.integers(1, 4), st.integers(3, 5))
@example("", "a", 12, "", 1, 3)
@example("b", "ab", 3, "a", 2, 3)
def test_repetition_agrees_with_brute_force(before, unit, count, after, block, times):
    text = before + unit * count + after
    assert has_repetition(text, block, times) == _naive_repetition(text, block, times)


block32 = "0123456789abcdefghijklmnopqrstu\n"


@pytest.mark.parametrize("before", ["", "prose " * 9])
@pytest.mark.parametrize("unit", [block32, block32 + "é\U0001f600", "\ud800" + block32 * 3 + "z"])
def test_eight_repeats_of_32_characters(before, unit):
    assert has_repetition(before + unit * 8 + "end")
    assert not has_repetition(before + unit * 7 + "end")
    assert not has_repetition(before + unit * 7 + unit[:-1] + "!")
    # A short period counts once its blocks reach 32 characters: blocks of 33, eight times.
    assert has_repetition("abc" * 88) and not has_repetition("abc" * 87)


def test_nothing_is_quadratic():
    numbers = " ".join(map(str, range(20_000)))  # 109k characters, no repetition
    near = "".join((block32 * 7 + str(i)) for i in range(400))  # many near misses
    started = time.process_time()
    assert not has_repetition(numbers) and not has_repetition(near)
    for text in ("```python " * 20_000, "`" * 200_000, "```" + "a" * 200_000):
        assert extract_code(text) is None
    assert time.process_time() - started < 6
