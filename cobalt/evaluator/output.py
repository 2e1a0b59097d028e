"""What a program wrote, as text: megabytes of hostile bytes are read piece by piece, never as a whole.

Every operation takes time linear in the bytes. Beside them it holds a few pieces, or a copy of one byte per
byte: the text of 16 MiB can take 64 MiB by itself (four bytes per character once a single one needs them).
"""

import functools
import re
from collections.abc import Iterator

_PIECE = 1 << 16  # bytes
_SHOWN = 400  # characters: what `cobalt.text.middle_truncate` leaves
_WIDEST = 4  # bytes of one character in UTF-8
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def decode(data: bytes) -> str:
    """Text of what a program wrote, newlines made uniform as a text-mode pipe does.

    Lone surrogates written as UTF-8 survive (a test may hold them); other invalid bytes become U+FFFD.
    """
    return Output(data).text


def encode(text: str) -> bytes:
    """Bytes of a test's input; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


class Output:
    """Bytes of a program, to be read as `decode` reads them. `text` of all of it costs memory; ask for parts.

    `errors`: how bytes that are not UTF-8 are read; None: as `decode` says, found when first needed.
    """

    def __init__(self, data: bytes, errors: str | None = None) -> None:
        self.data = data
        self._given_errors = errors

    @functools.cached_property
    def errors(self) -> str:
        """`surrogatepass` if all bytes are UTF-8, lone surrogates included; else `replace`."""
        if self._given_errors is not None:
            return self._given_errors
        valid = self.data.isascii() or all(_is_utf8(self.data[a:b]) for a, b in self._cuts())
        return "surrogatepass" if valid else "replace"

    @property
    def text(self) -> str:
        return self._read(0, len(self.data))

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The text of the bytes from `start` to `stop`, part after part; both must be ends of a character."""
        for a, b in self._cuts(start, stop):
            yield self._read(a, b)

    @functools.cached_property
    def stripped(self) -> tuple[int, int]:
        """First byte, and the one behind the last, of the text without whitespace at both ends."""
        start, stop = 0, len(self.data)
        for a, b in self._cuts():
            raw = self._raw(a, b)
            left = raw.lstrip()
            if left:
                start = a + len(encode(raw[: len(raw) - len(left)]))
                break
        else:
            return 0, 0
        while stop > start:
            begin = self._boundary(max(start, stop - _PIECE), start)
            raw = self._raw(begin, stop)
            left = raw.rstrip()
            if left:
                return start, stop - len(encode(raw[len(left) :]))
            stop = begin
        return start, start  # not reached: a character that is no whitespace was found above

    def brief(self) -> str:
        """A text of which `cobalt.text.middle_truncate` leaves the same as of the whole."""
        start, stop = self.stripped
        ends = 8 * _WIDEST * _SHOWN
        if stop - start <= 2 * ends:
            return self._read(start, stop)
        half = _SHOWN // 2
        head = self._read(start, self._boundary(start + ends, start))
        tail = self._read(self._boundary(stop - ends, start), stop)
        return head[: half + 1] + tail[-half:]

    def last_line(self) -> "Output":
        """The last line that is not empty, after all others; empty if there is none."""
        data = self.data.rstrip(b"\r\n")
        start = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        return Output(data[start:] if start else data, self.errors)

    def _raw(self, start: int, stop: int) -> str:
        return self.data[start:stop].decode("utf-8", self.errors)

    def _read(self, start: int, stop: int) -> str:
        text = self._raw(start, stop)
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def _cuts(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int]]:
        stop = len(self.data) if stop is None else stop
        while start < stop:
            end = min(stop, start + _PIECE)
            if end < stop:
                end = self._boundary(end, start)
            yield start, end
            start = end

    def _boundary(self, at: int, least: int) -> int:
        """The last place up to `at` where the bytes can be parted so that the parts read as the whole does.

        That is before a byte that begins a character (or is none's part), or after three that continue one:
        a character has at most three. And never between the two bytes of a newline.
        """
        data = self.data
        for back in range(4):
            if at - back <= least or data[at - back] & 0xC0 != 0x80:
                at -= back
                break
        if least < at - 1 and data[at - 1 : at + 1] == b"\r\n":
            at -= 1
        return max(at, least)


def _is_utf8(data: bytes) -> bool:
    """Whether a piece is UTF-8, lone surrogates included (the codec takes a microsecond for each of them)."""
    try:
        (_SURROGATE.sub(b"?", data) if b"\xed" in data else data).decode()
    except UnicodeDecodeError:
        return False
    return True
