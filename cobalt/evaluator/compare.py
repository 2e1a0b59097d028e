"""Does a program's output answer a test? Decided from bytes, outside the sandbox."""

import json
from typing import Any

_TOO_DEEP = (ValueError, RecursionError)


def decode(data: bytes) -> str:
    """Text of what a program wrote, newlines made uniform as a text-mode pipe does.

    Lone surrogates written as UTF-8 survive (a test may hold them); other invalid bytes become U+FFFD.
    """
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def encode(text: str) -> bytes:
    """Bytes of a test's input; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


def stripped_equal(stdout: str, expected: str) -> bool:
    """The published rule: equal once whitespace at both ends is gone; nothing else is forgiven."""
    return stdout.strip() == expected.strip()


def value_text(stdout: str) -> str:
    """The line that holds a function task's value: the last one, after all that the program printed."""
    return stdout.rstrip("\n").rpartition("\n")[2]


def value_equal(text: str, expected: Any) -> bool:
    """Whether JSON `text` holds the expected value, or the one that a one-element list `expected` holds.

    Values are plain JSON on both sides, so tuples are lists, and no object of the program's is ever compared.
    """
    try:
        value = json.loads(text)
        wanted = json.loads(json.dumps(expected))
        if bool(value == wanted):
            return True
        return isinstance(wanted, list) and len(wanted) == 1 and bool(value == wanted[0])
    except _TOO_DEEP:
        return False
