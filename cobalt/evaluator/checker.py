"""Does a program's output answer a test? Decided from bytes, outside the sandbox, by named rules.

A program may write megabytes made to be costly: time is linear in its bytes, and memory a few times theirs
and those of what is expected. So output that is too long to be right is left before anything is made of it.
"""

import codecs
import json
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any, NamedTuple

from cobalt.errors import BadRequest
from cobalt.sandbox.limits import Limits

LIVECODEBENCH = "livecodebench"

_WIDEST = 4  # bytes of one character in UTF-8
_SHOWN = 400  # characters: what `cobalt.text.middle_truncate` leaves
_ENDS = 8 * _WIDEST * _SHOWN  # bytes that are read of either end of a long output that is shown
_HEAD = 1 << 12  # bytes or characters that are compared before all are
# Lone surrogates included, which a test may hold.
_UTF8 = re.compile(
    rb"(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
)
_CONTINUING = bytes(range(0x80, 0xC0))

# Whitespace as `str.isspace` means it; its wide characters forwards and backwards.
_NARROW = b"\t\n\v\f\r\x1c\x1d\x1e\x1f "
_WIDE = rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe3\x80\x80|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x81\x9f"
_WIDE_BACKWARDS = rb"[\x80-\x8a\xa8\xa9\xaf]\x80\xe2|\x80\x80\xe3|[\x85\xa0]\xc2|\x80\x9a\xe1|\x9f\x81\xe2"
_BLANK_BYTES = _NARROW + bytes(
    [*range(0x80, 0x8B), 0x9A, 0x9F, 0xA0, 0xA8, 0xA9, 0xAF, 0xC2, 0xE1, 0xE2, 0xE3]
)
_RUN = re.compile(b"(?:%b|[%b]++)++" % (_WIDE, _NARROW))
_RUN_BACKWARDS = re.compile(b"(?:%b|[%b]++)++" % (_WIDE_BACKWARDS, _NARROW))

_FLOAT = re.compile(r"float(?:\(\s*([^,()]+?)\s*(?:,\s*([^,()]+?)\s*)?\))?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 400  # longer ones are compared as text
_DEFAULT_TOLERANCE = 1e-6
_WIDE_NUMBERS = 1 << 16  # bytes of numbers in a line that may be of other digits than ASCII's

_SHORT = 1 << 16  # bytes of JSON text that are parsed at once, whatever is expected
_SPARE_VALUES = 1 << 16  # that a longer JSON text may hold for keys that come again
_LONGEST_ESCAPE = 12  # bytes of JSON text for one character: a pair of surrogates


def encode(text: str) -> bytes:
    """Bytes of a test's input; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Text of what a program wrote, newlines made uniform as a text-mode pipe does.

    Lone surrogates written as UTF-8 survive (a test may hold them); other invalid bytes become U+FFFD.
    """
    return _text(_uniform(data))


def brief(data: bytes) -> str:
    """A text of which `cobalt.text.middle_truncate` leaves the same as of all that a program wrote."""
    data = _stripped(data)
    if len(data) <= 2 * _ENDS:
        return decode(data)
    errors = _errors(data)
    head, tail = _uniform(data[:_ENDS]), _uniform(data[-_ENDS:])
    if errors == "surrogatepass":
        tail = tail.lstrip(_CONTINUING)  # of a character that was cut
    # What is cut at the end of the head is left out by this decoder.
    begin = codecs.getincrementaldecoder("utf-8")(errors).decode(head)
    half = _SHOWN // 2
    return begin[: half + 1] + tail.decode("utf-8", errors)[-half:]


class Tolerance(NamedTuple):
    """Numbers are equal within `absolute`, or within `relative` times the expected one."""

    relative: float
    absolute: float


@dataclass(frozen=True)
class Rule:
    """How to judge stdin tests, and when to stop. Function tests always compare values (`accepts_value`).

    `compare`: `strip` (the published rule: equal once whitespace at both ends is gone), `lines` (whitespace
    at the ends of lines and empty lines at the end do not count), `tokens` (no whitespace counts),
    `float(REL, ABS)` (as `tokens`, and numbers are equal within either tolerance; `float`: 1e-6 for both), or
    `livecodebench` (that benchmark's: of the stripped texts as many lines, which are equal once stripped, or
    whose words are equal decimal numbers, one by one; its limits are `limits`).
    `stop_on_first_failure`: tests after the first failed one are not run and are `skipped`.

    Raises BadRequest for another `compare`.
    """

    compare: str = "strip"
    stop_on_first_failure: bool = False

    def __post_init__(self) -> None:
        if self.compare not in ("strip", "lines", "tokens", LIVECODEBENCH):
            tolerance(self.compare)

    @property
    def limits(self) -> Limits:
        """The limits of an evaluator with this rule, unless it is given others.

        LiveCodeBench's are 6 s of wall time for a test and as good as none for a suite ((6 + 1) s per test).
        """
        return Limits(cpu_s=6.0, wall_s=6.0, suite_s=3600.0) if self.compare == LIVECODEBENCH else Limits()

    def accepts_value(self, line: bytes, expected: Any) -> bool:
        """Whether a function's value, JSON text `line`, is `expected` (see `value_equal`)."""
        return value_equal(line, expected, listed=self.compare != LIVECODEBENCH)

    def accepts(self, stdout: bytes, expected: str) -> bool:
        """Whether `stdout` answers a test that expects `expected`."""
        wanted = expected.strip()
        if self.compare == LIVECODEBENCH:
            return _same_lines(_stripped(stdout), wanted)
        stdout = _uniform(stdout)
        data = _stripped(stdout)
        if len(data) <= _WIDEST * len(wanted) and _text(data) == wanted:
            return True
        if self.compare == "strip":
            return False
        close = self.compare not in ("lines", "tokens")
        same: Callable[[str, str], bool] = operator.eq
        separator = None
        if close:
            same = partial(_close, tolerance(self.compare))
        elif self.compare == "lines":
            same, separator = _same_but_for_its_end, "\n"
            data, wanted = _stripped(stdout, left=False), expected.rstrip()
        # Most wrong outputs are wrong from the start. The last word there may have been cut.
        head = data[:_HEAD].decode() if data[:_HEAD].isascii() else ""
        if not all(map(same, head.split(separator)[:-1], wanted[:_HEAD].split(separator)[:-1])):
            return False
        longest = len(wanted) + (_LONGEST_NUMBER * len(wanted.split()) if close else 0)
        if len(data.translate(None, _BLANK_BYTES)) > _WIDEST * longest:
            return False  # these bytes are of characters that are no whitespace
        given, words = _text(data).split(separator), wanted.split(separator)
        return len(given) == len(words) and all(map(same, given, words))


PUBLISHED = Rule()


@cache
def tolerance(name: str) -> Tolerance:
    """The tolerances in `float(REL, ABS)`. Raises BadRequest for anything else."""
    found = _FLOAT.fullmatch(name)
    try:
        given = found.groups() if found else ()
        relative, absolute = (float(text) if text else _DEFAULT_TOLERANCE for text in given)
    except ValueError:
        relative = absolute = -1.0
    if not (0 <= relative < math.inf and 0 <= absolute < math.inf):
        known = f"strip, lines, tokens or float(REL, ABS), or {LIVECODEBENCH}"
        raise BadRequest(f"'compare' must be {known}, got {name[:80]!r}")
    return Tolerance(relative, absolute)


def value_equal(line: bytes, expected: Any, *, listed: bool = True) -> bool:
    """Whether JSON text `line` holds the expected value, or (`listed`) the one that a one-element list
    `expected` holds.

    Values are plain JSON on both sides, so tuples are lists, and no object of the program's is ever compared.
    """
    try:
        wanted_text = json.dumps(expected)
        wanted = json.loads(wanted_text)
        if _too_long(line, len(wanted_text)):
            return False
        value = json.loads(decode(line))
        one = listed and isinstance(wanted, list) and len(wanted) == 1
        choices = [wanted, wanted[0]] if one else [wanted]
        return any(bool(value == each) for each in choices)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return False


def _too_long(line: bytes, wanted: int) -> bool:
    """Whether JSON text is certain to differ from a value that takes `wanted` characters, and may be costly.

    Only keys that come again can make an equal text hold more values; they are bounded. What a function
    returns arrives as ASCII: one wide character in it would make a text of narrow ones four times as large.
    """
    if len(line) <= _SHORT + 2 * wanted:
        return False
    if sum(map(line.count, (b",", b"[", b"{"))) > wanted + _SPARE_VALUES:
        return True
    solid = b"" if line.isascii() else line.translate(None, _NARROW + b"0123456789+-.eE")
    return len(solid) > _LONGEST_ESCAPE * (wanted + _SPARE_VALUES)


def _uniform(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", _errors(data))


def _errors(data: bytes) -> str:
    """How to read bytes: those that are not UTF-8, lone surrogates included, are replaced one by one."""
    return "surrogatepass" if _UTF8.fullmatch(data) else "replace"


def _stripped(data: bytes, *, left: bool = True) -> bytes:
    """Without the whitespace at both ends, or only that at the right."""
    if left:
        data = data.lstrip(_NARROW)
        found = _RUN.match(data)
        data = data[found.end() :] if found else data
    data = data.rstrip(_NARROW)
    found = _RUN_BACKWARDS.match(data[::-1]) if data[-1:] > b"\x7f" else None
    return data[: len(data) - found.end()] if found else data


def _same_but_for_its_end(line: str, wanted: str) -> bool:
    return line.rstrip() == wanted.rstrip()


def _same_lines(data: bytes, wanted: str) -> bool:
    """LiveCodeBench's rule for an output and what is expected, both stripped."""
    if data.count(b"\n") != wanted.count("\n"):
        return False
    return all(map(_same_in_decimals, data.split(b"\n"), wanted.split("\n")))


def _same_in_decimals(line: bytes, wanted: str) -> bool:
    """Its rule for a line. Numbers may be of any length (beyond `_WIDE_NUMBERS` only in ASCII: one wide
    character would make a text four times as large), so words are counted before they are read.
    """
    wanted = wanted.strip()
    if len(line) > (longest := _WIDE_NUMBERS + _WIDEST * len(wanted)):
        line = _stripped(line)
        solid = line.translate(None, _BLANK_BYTES)
        if len(solid) > longest and not solid.isascii():
            return False
    text, words = _text(line).strip(), wanted.split()
    given = text.split(None, len(words)) if text != wanted else []
    try:
        return text == wanted or (
            len(given) == len(words) and all(map(operator.eq, map(Decimal, given), map(Decimal, words)))
        )
    except ArithmeticError:  # no number; nor can signalling NaNs be compared
        return False


def _close(within: Tolerance, given: str, wanted: str) -> bool:
    if given == wanted:
        return True
    if not (_is_number(given) and _is_number(wanted)):
        return False
    number = float(wanted)
    allowed = max(within.absolute, within.relative * abs(number))
    return math.isclose(float(given), number, rel_tol=0.0, abs_tol=allowed)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None
