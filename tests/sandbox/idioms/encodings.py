# ruff: noqa: E501
"""Encodings, newlines and buffering modes of the standard streams."""

TEXT = r"""
#: names
import sys
print(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding, sys.stdin.errors, sys.stdout.errors, sys.stderr.errors)

#: defaults
import sys, locale
print(sys.getdefaultencoding(), sys.getfilesystemencoding(), locale.getpreferredencoding(False), sys.flags.utf8_mode)

#: buffering
import sys
print(sys.stdout.line_buffering, sys.stdout.write_through, sys.stderr.line_buffering, sys.stdin.line_buffering)

#: newlines
import sys
sys.stdin.read()
print(sys.stdin.newlines)

#: latin-1
import sys
sys.stdout.reconfigure(encoding="latin-1")
print("wörld")

#: latin-1 error
import sys
sys.stdout.reconfigure(encoding="latin-1")
print("☃")

#: ascii with replace
import sys
sys.stdout.reconfigure(encoding="ascii", errors="replace")
print("wörld ☃")

#: ascii with xmlcharrefreplace
import sys
sys.stdout.reconfigure(encoding="ascii", errors="xmlcharrefreplace")
print("wörld ☃")

#: errors ignore
import sys
sys.stdout.reconfigure(errors="ignore")
print("a\ud800b")

#: errors surrogatepass
import sys
sys.stdout.reconfigure(errors="surrogatepass")
print("a\ud800b")

#: utf-8-sig
import sys
sys.stdout.reconfigure(encoding="utf-8-sig")
print("x")
print("y")

#: utf-16
import sys
sys.stdout.reconfigure(encoding="utf-16")
print("x")

#: newline CRLF
import sys
sys.stdout.reconfigure(newline="\r\n")
print("x\ny")

#: newline CR
import sys
sys.stdout.reconfigure(newline="\r")
print("x\ny")

#: line buffering and os._exit
import sys, os
sys.stdout.reconfigure(line_buffering=True)
print("kept")
print("lost", end="")
os._exit(0)

#: write through and os._exit
import sys, os
sys.stdout.reconfigure(write_through=True)
print("in the binary buffer", end="")
os._exit(0)

#: stdin latin-1
import sys
sys.stdin.reconfigure(encoding="latin-1")
print(ascii(sys.stdin.read()))

#: stdin ascii
import sys
sys.stdin.reconfigure(encoding="ascii")
print(sys.stdin.read())

#: stdin reconfigured too late
import sys
input()
try:
    sys.stdin.reconfigure(encoding="latin-1")
except Exception as e:
    print(type(e).__name__)

#: stdin newline
import sys
sys.stdin.reconfigure(newline="")
print(repr(sys.stdin.readline()))

#: unicode of all planes
print("é ☃ 𝄞 \N{SNOWMAN} \x00 \x7f \u200b|")

#: carriage returns
print("a\rb\r\nc\n\rd")

#: byte order mark
print("\ufeffx")

#: encode and decode
s = "wörld"
print(s.encode("utf-16-le"), s.encode("cp1252"), b"\xc3\xb6".decode(), s.encode("idna"), s.encode("punycode"))

#: rot13
import codecs
print(codecs.encode("Hello", "rot13"), codecs.decode("68 69".replace(" ", ""), "hex"))

#: bytes printed
print(b"w\xc3\xb6rld", "wörld".encode())

#: repr and ascii
print(repr("wö\ud800\n"[:2]), ascii("wö\ud800"))

#: east asian width
import unicodedata
print([unicodedata.east_asian_width(c) for c in "aö漢"], unicodedata.normalize("NFD", "ö").encode())

#: casefold and upper
print("ß".upper(), "ß".casefold(), "ǅ".lower(), "İ".lower().encode())

#: surrogates in argv style
import os
print(os.fsencode("\udcff"), ascii(os.fsdecode(b"\xff")))

#: coding cookie
# -*- coding: utf-8 -*-
print("wörld")

#: form feeds and vertical tabs
print("a\x0bb\x0cc\x1cd\x85e\u2028f".splitlines())

#: print with sep and end
print(1, 2, 3, sep=", ", end=".\n")
print(*"abc", sep="\n")
print()
print("", end="")
print(None, True, 1.0, 1e100, float("inf"), -0.0)

#: many small writes
import sys
for i in range(3000):
    sys.stdout.write(str(i % 10))

#: one huge write
print("x" * 300000)

#: writelines
import sys
sys.stdout.writelines(["a\n", "b\n"])
sys.stdout.writelines(map(str, range(5)))

#: fileno and os.write
import os, sys
os.write(sys.stdout.fileno(), "wörld\n".encode())

#: print to a file object of no kind
import sys
class F:
    def __init__(self): self.n = 0
    def write(self, s): self.n += len(s)
f = F()
print("abc", "d", file=f)
print(f.n)

#: pprint
from pprint import pprint
pprint({"b": list(range(30)), "a": {"x": "y" * 40, "z": ["w" * 40]}})
"""
