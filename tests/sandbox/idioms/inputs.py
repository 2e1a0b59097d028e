"""Inputs at the edge of what programs expect."""

TEXT = r"""
#: no trailing newline
print(input(), input())

#: no trailing newline by lines
import sys
print(sys.stdin.readlines())

#: empty
import sys
print(repr(sys.stdin.read()))

#: empty and input
input()

#: empty and readline
import sys
print(repr(sys.stdin.readline()), list(sys.stdin))

#: empty and int of readline
import sys
int(sys.stdin.readline())

#: empty and os.read
import os
print(os.read(0, 10))

#: empty and fileinput
import fileinput
print(list(fileinput.input()))

#: empty and unpacked
a, b = map(int, input().split())

#: CRLF
print(repr(input()), repr(input()))

#: CRLF by bytes
import sys
print(sys.stdin.buffer.readlines())

#: CRLF by os.read
import os
print(os.read(0, 100).split(b"\n"))

#: CRLF by lines
import sys
print([line for line in sys.stdin], sys.stdin.newlines)

#: CR only
print(repr(input()), repr(input()))

#: blank lines
import sys
print([line.strip() for line in sys.stdin if line.strip()])

#: only blank lines
while input() == "": print("blank")

#: tabs and spaces
print(input().split(), input().split(" "), input().split("\t"))

#: unicode
s = input()
print(s[::-1], len(s), s.upper(), s.encode())

#: not UTF-8
print(ascii(input()))

#: not UTF-8 echoed
print(input())

#: not UTF-8 by bytes
import sys
print(sys.stdin.buffer.read())

#: byte order mark
print(repr(input()))

#: byte order mark and int
print(int(input()))

#: null bytes
print(repr(input()))

#: huge line
s = input()
print(len(s), s[-3:])

#: huge line by readline
import sys
print(len(sys.stdin.readline()), len(sys.stdin.buffer.readline()))

#: huge line by os.read
import os
n = 0
while b := os.read(0, 65536): n += len(b)
print(n)

#: huge line of numbers
print(sum(map(int, input().split())))

#: many lines
import sys
print(sum(int(x) for x in sys.stdin))

#: many lines by input
n = int(input())
print(sum(int(input()) for _ in range(n - 1)))

#: many lines echoed
import sys
for line in sys.stdin: sys.stdout.write(line)

#: many lines left unread
print(input())

#: many lines left unread and stdin closed
import sys
print(input())
sys.stdin.close()

#: EOFError uncaught
while True: print(input())

#: form feed and separators
import sys
print([line for line in sys.stdin], sys.stdin.read().splitlines())

#: digits of other scripts
print(int(input()) + 1)

#: number with underscores
print(int(input()))

#: integer too long
print(int(input()) % 7)

#: float spellings
print([float(x) for x in input().split()])

#: control Z
print(repr(input()))

#: stdin echoed by bytes
import sys
sys.stdout.buffer.write(sys.stdin.buffer.read())
"""

_LINE = b"x" * (1 << 20)
_MANY = b"20001\n" + b"".join(b"%d\n" % n for n in range(20000))

STDIN: dict[str, bytes] = {
    "no trailing newline": b"a\nb",
    "no trailing newline by lines": b"a\nb",
    **dict.fromkeys(("empty", "empty and input", "empty and readline", "empty and int of readline"), b""),
    **dict.fromkeys(("empty and os.read", "empty and fileinput", "empty and unpacked"), b""),
    **dict.fromkeys(("CRLF", "CRLF by bytes", "CRLF by os.read", "CRLF by lines"), b"1 2\r\n3\r\n"),
    "CR only": b"1\r2\r3",
    "blank lines": b"\n\na\n\n b \n\n",
    "only blank lines": b"\n\n\n",
    "tabs and spaces": b"1\t2  3\n1  2 \n\ta\t\tb\n",
    "unicode": "wörld ☃ 𝄞\n".encode(),
    **dict.fromkeys(("not UTF-8", "not UTF-8 echoed", "not UTF-8 by bytes"), b"a\xff\xfeb\n"),
    "byte order mark": b"\xef\xbb\xbf12\n",
    "byte order mark and int": b"\xef\xbb\xbf12\n",
    "null bytes": b"a\0b\n",
    **dict.fromkeys(("huge line", "huge line by readline", "huge line by os.read"), _LINE + b"\nend"),
    "huge line of numbers": b" ".join(b"%d" % n for n in range(100000)),
    **dict.fromkeys(("many lines", "many lines by input", "many lines echoed"), _MANY),
    **dict.fromkeys(("many lines left unread", "many lines left unread and stdin closed"), _MANY),
    "form feed and separators": "a\x0cb\x1cc\u2028d\ne\x85f\n".encode(),
    "digits of other scripts": "١٢\n".encode(),
    "number with underscores": b" 1_000 \n",
    "integer too long": b"7" * 5000,
    "float spellings": b"1e5 -0.0 inf nan 1_0.5 .5 5.\n",
    "control Z": b"a\x1ab\n",
    "stdin echoed by bytes": bytes(range(256)) * 40,
}
