"""Does a program's output answer a test? Decided from bytes, outside the sandbox.

A program may write megabytes made to be costly. Outputs are walked beside what is expected, part by part,
and left at the first difference; time is linear, and memory a small multiple of the bytes on both sides.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from cobalt.evaluator.output import Output, encode

_PIECE = 1 << 16  # characters
_TOO_DEEP = (ValueError, RecursionError)
_SHORT = 1 << 16  # bytes of JSON text that are parsed at once, whatever is expected
_SPARE_VALUES = 1 << 16  # that a longer JSON text may hold for keys that come again

Normal = Callable[[Iterator[str], int], Iterator[str]]


def output_of(output: Output | str) -> Output:
    """What a program wrote; text of it as well."""
    return Output(encode(output)) if isinstance(output, str) else output


def stripped_equal(stdout: Output | str, expected: str) -> bool:
    """The published rule: equal once whitespace at both ends is gone; nothing else is forgiven."""
    stdout = output_of(stdout)
    wanted = expected.strip()
    start, stop = stdout.stripped
    if stop - start > 4 * len(wanted):  # bytes: a character has at most four, a newline two
        return False
    place = 0
    for piece in stdout.pieces(start, stop):
        if not wanted.startswith(piece, place):
            return False
        place += len(piece)
    return place == len(wanted)


def lines_equal(stdout: Output, expected: str) -> bool:
    """Equal once whitespace at the ends of lines and empty lines at the end are gone."""
    return _normal_equal(stdout, expected, _lines)


def tokens_equal(stdout: Output, expected: str) -> bool:
    """Equal as lists of the words between whitespace."""
    return _normal_equal(stdout, expected, _spaced)


def words(pieces: Iterator[str], longest: int) -> Iterator[str]:
    """The words between whitespace. One of more than `longest` characters may come cut, as the last."""
    parts: list[str] = []  # of a word that goes on in the next piece
    size = 0
    for piece in pieces:
        found = piece.split()
        ended = piece[-1].isspace()
        if parts and found and not piece[0].isspace():
            parts.append(found.pop(0))
            size += len(parts[-1])
            if not found and not ended:
                if size > longest:
                    break
                continue
        if parts:
            yield "".join(parts)
            parts, size = [], 0
        if found and not ended:
            parts = [found.pop()]
            size = len(parts[0])
        yield from found
    if parts:
        yield "".join(parts)


def parts_of(text: str) -> Iterator[str]:
    """`text`, part after part."""
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _normal_equal(stdout: Output, expected: str, normal: Normal) -> bool:
    longest = len(expected)
    return _same(normal(stdout.pieces(), longest), normal(parts_of(expected), longest))


def _same(one: Iterator[str], other: Iterator[str]) -> bool:
    """Whether two texts in parts are equal; stops at the first difference."""
    left = right = ""
    i = j = 0  # what has been compared of each
    while True:
        if i == len(left):
            left, i = next(filter(None, one), ""), 0
        if j == len(right):
            right, j = next(filter(None, other), ""), 0
        size = min(len(left) - i, len(right) - j)
        if not size:
            return left == right  # both are at their ends
        if left[i : i + size] != right[j : j + size]:
            return False
        i, j = i + size, j + size


def _spaced(pieces: Iterator[str], _: int) -> Iterator[str]:
    """The words with one space between them."""
    begun = apart = False
    for piece in pieces:
        found = piece.split()
        if found:
            if begun and (apart or piece[0].isspace()):
                yield " "
            yield " ".join(found)
        apart = piece[-1].isspace() if found else True
        begun = begun or bool(found)


def _lines(pieces: Iterator[str], longest: int) -> Iterator[str]:
    """The lines without whitespace at their ends, without empty ones at the end of all.

    Whitespace is held back until something follows it; more of it than `longest` makes any text unequal, so
    it need not be kept in full.
    """
    newlines, blank, size = 0, [""], 0  # held back: newlines, then whitespace in the line begun
    for piece in pieces:
        left = piece.lstrip()
        core = left.rstrip()
        lead = piece[: len(piece) - len(left)] if core else piece
        _, newline, tail = lead.rpartition("\n")
        if newline:
            newlines, blank, size = newlines + lead.count("\n"), [], 0
        if size <= longest:
            blank.append(tail)
            size += len(tail)
        if not core:
            continue
        yield "\n" * min(newlines, longest + 1)
        yield from blank
        yield "\n".join(map(str.rstrip, core.split("\n")))
        end = left[len(core) :]
        newlines, blank = end.count("\n"), [end.rpartition("\n")[2]]
        size = len(blank[0])


def value_equal(line: Output | str, expected: Any) -> bool:
    """Whether JSON text `line` holds the expected value, or the one that a one-element list `expected` holds.

    Values are plain JSON on both sides, so tuples are lists, and no object of the program's is ever compared.
    """
    line = output_of(line)
    try:
        wanted_text = json.dumps(expected)
        wanted = json.loads(wanted_text)
        choices = [wanted, wanted[0]] if isinstance(wanted, list) and len(wanted) == 1 else [wanted]
        if len(line.data) > _SHORT + 2 * len(wanted_text):
            walk = _Walk(line, len(wanted_text) + _SPARE_VALUES)
            return any(walk.holds(each) for each in choices)
        value = json.loads(line.text)
        return any(bool(value == each) for each in choices)
    except _TOO_DEEP:
        return False


_ANY: Any = object()  # in place of a wanted value: what stands there no longer matters, but must be JSON
_SPACE = re.compile(r"[ \t\n\r]*")
_CHARACTERS = re.compile(r'(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})){1,4096}')
_LONGEST_ESCAPE = 12  # bytes of JSON text for one character: a pair of surrogates
_DECODER = json.JSONDecoder()


class _Frame:
    """A list or object of the text that has begun, and the one that is wanted there (or _ANY)."""

    def __init__(self, wanted: Any, closing: str) -> None:
        self.wanted = wanted
        self.closing = closing
        self.count = 0
        self.key = ""
        self.longest = max(map(len, wanted), default=0) if isinstance(wanted, dict) else 0  # of its keys
        self.found: dict[str, bool] = {}  # by key; the last value of a key counts, as it does for a parser

    def take(self, equal: bool) -> None:
        """Note whether the value that has just ended is the wanted one."""
        if self.wanted is _ANY:
            return
        if self.closing == "}":
            self.found[self.key] = equal
        elif not equal:
            self.wanted = _ANY

    def equal(self) -> bool:
        """Whether the value that ends here is the wanted one."""
        if self.wanted is _ANY:
            return False
        if self.closing == "}":
            return len(self.found) == len(self.wanted) and all(self.found.values())
        return self.count == len(self.wanted)


class _Walk:
    """Walks JSON text beside the value it should hold; nothing of the text is built but scalars.

    Structure is read in a view of one character per byte; all that is not ASCII is inside of texts. Only keys
    that come again can make an equal text hold more values than is wanted; `most` bounds them, so that the
    work depends on what is expected, not on what was written.
    """

    def __init__(self, line: Output, most: int) -> None:
        self._line = line
        self._most = most
        self._text = line.data.decode("latin-1")
        self._last_quote = self._text.rfind('"')
        self._stack: list[_Frame] = []

    def holds(self, wanted: Any) -> bool:
        """Whether the text is JSON for `wanted`. Raises ValueError if it is no JSON, or too deep."""
        text, stack = self._text, self._stack
        stack.clear()
        place = self._skip(0)
        for _ in range(self._most):
            opening = text[place : place + 1]
            if opening and opening in "[{":
                if len(stack) >= sys.getrecursionlimit():
                    raise RecursionError
                fits = isinstance(wanted, list if opening == "[" else dict)
                stack.append(_Frame(wanted if fits else _ANY, "]" if opening == "[" else "}"))
                if not fits and not self._matters(place):
                    return False
                place = self._skip(place + 1)
                if text[place : place + 1] != stack[-1].closing:
                    wanted, place = self._next(place)
                    continue
                equal, place = stack.pop().equal(), place + 1
            else:
                equal, place = self._scalar(wanted, place)
            while stack:  # a value has ended; so may those around it
                stack[-1].take(equal)
                if not equal and not self._matters(place):
                    return False
                place = self._skip(place)
                if text[place : place + 1] == ",":
                    wanted, place = self._next(self._skip(place + 1))
                    break
                if text[place : place + 1] != stack[-1].closing:
                    raise ValueError("neither a comma nor an end")
                equal, place = stack.pop().equal(), place + 1
            else:
                return equal and self._skip(place) == len(text)
        return False

    def _matters(self, place: int) -> bool:
        """Whether what follows can undo a difference: by a later value for the key of an object around it."""
        return place <= self._last_quote and any(
            frame.closing == "}" and frame.wanted is not _ANY for frame in self._stack
        )

    def _next(self, place: int) -> tuple[Any, int]:
        """What is wanted for the next value of the innermost frame, and where that value begins."""
        frame = self._stack[-1]
        if frame.closing == "]":
            index = frame.count
            frame.count += 1
            known = frame.wanted is not _ANY and index < len(frame.wanted)
            return (frame.wanted[index] if known else _ANY), place
        end = self._string_end(place)
        key = None
        if frame.wanted is not _ANY:
            key = self._string(place, end, frame.longest)
            if key not in frame.wanted:
                frame.wanted = _ANY
        place = self._skip(end)
        if self._text[place : place + 1] != ":":
            raise ValueError("a key without a value")
        if key is None or frame.wanted is _ANY:
            return _ANY, self._skip(place + 1)
        frame.key = key
        return frame.wanted[key], self._skip(place + 1)

    def _scalar(self, wanted: Any, place: int) -> tuple[bool, int]:
        """Whether the text, number or constant at `place` is the wanted one, and where it ends."""
        if self._text[place : place + 1] == '"':
            end = self._string_end(place)
            same = isinstance(wanted, str) and self._string(place, end, len(wanted)) == wanted
            return same, end
        value, end = _DECODER.raw_decode(self._text, place)
        # Containers hold the one NaN of the parser, and compare by identity first.
        return bool(value == wanted or (self._stack and value is wanted)), end

    def _string(self, place: int, end: int, longest: int) -> str | None:
        """The text between two quotes; None if it has more than `longest` characters for certain."""
        if end - place > _LONGEST_ESCAPE * longest + 2:
            return None
        return str(json.loads(Output(self._line.data[place:end], self._line.errors).text))

    def _string_end(self, place: int) -> int:
        if self._text[place : place + 1] != '"':
            raise ValueError("no text")
        place += 1
        while found := _CHARACTERS.match(self._text, place):
            place = found.end()
        if self._text[place : place + 1] != '"':
            raise ValueError("a text without end")
        return place + 1

    def _skip(self, place: int) -> int:
        """The first place from here on that is no whitespace."""
        found = _SPACE.match(self._text, place)
        return found.end() if found else place
