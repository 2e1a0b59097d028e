"""How input is read."""

TEXT = r"""
#: input
n = int(input())
a = list(map(int, input().split()))
print(n, a, input())

#: input with a prompt
x = input("n? ")
print(x)

#: input with a prompt and stdout replaced
import sys, io
sys.stdout = io.StringIO()
x = input("prompt ")
sys.__stdout__.write(repr(sys.stdout.getvalue()) + x + "\n")

#: input with stdin replaced
import sys, io
sys.stdin = io.StringIO("replaced\n")
print(input(), sys.__stdin__.readline())

#: input until EOFError
lines = []
while True:
    try:
        lines.append(input())
    except EOFError:
        break
print(len(lines), lines)

#: input until the blank line
while line := input():
    print(line)

#: iter of input with a sentinel
for line in iter(input, ""):
    print(line.upper())

#: for line in sys.stdin
import sys
for i, line in enumerate(sys.stdin):
    print(i, repr(line))

#: stdin read
import sys
data = sys.stdin.read()
print(len(data), data.split())

#: stdin read twice
import sys
print(len(sys.stdin.read()), repr(sys.stdin.read()))

#: stdin readlines
import sys
print([line.rstrip() for line in sys.stdin.readlines()])

#: stdin read some characters
import sys
print(repr(sys.stdin.read(3)), repr(sys.stdin.read(1)), repr(sys.stdin.readline(4)))

#: stdin read splitlines
import sys
n, *rest = sys.stdin.read().splitlines()
print(n, rest)

#: input then stdin
import sys
first = input()
print(first, sys.stdin.readline(), list(sys.stdin))

#: stdin then input
import sys
print(next(sys.stdin))
print(input())

#: buffer read
import sys
data = list(map(bytes, sys.stdin.buffer.read().split()))
print(data)

#: buffer readline after input
import sys
print(input())
try:
    print(sys.stdin.buffer.readline())
except Exception as e:
    print(type(e).__name__)

#: buffer readinto and peek
import sys
print(sys.stdin.buffer.peek(1)[:1])
b = bytearray(4)
print(sys.stdin.buffer.readinto(b), b)

#: buffer read1
import sys
print(len(sys.stdin.buffer.read1(4)), len(sys.stdin.buffer.read()))

#: raw read
import sys
print(len(sys.stdin.buffer.raw.readall()))
"""
