# ruff: noqa: E501
"""The templates for fast input and output of competitive programming, in their variants."""

TEXT = r"""
#: FastIO template
import os
import sys
from io import BytesIO, IOBase

BUFSIZE = 8192

class FastIO(IOBase):
    newlines = 0

    def __init__(self, file):
        self._fd = file.fileno()
        self.buffer = BytesIO()
        self.writable = "x" in file.mode or "r" not in file.mode
        self.write = self.buffer.write if self.writable else None

    def read(self):
        while True:
            b = os.read(self._fd, max(os.fstat(self._fd).st_size, BUFSIZE))
            if not b:
                break
            ptr = self.buffer.tell()
            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
        self.newlines = 0
        return self.buffer.read()

    def readline(self):
        while self.newlines == 0:
            b = os.read(self._fd, max(os.fstat(self._fd).st_size, BUFSIZE))
            self.newlines = b.count(b"\n") + (not b)
            ptr = self.buffer.tell()
            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
        self.newlines -= 1
        return self.buffer.readline()

    def flush(self):
        if self.writable:
            os.write(self._fd, self.buffer.getvalue())
            self.buffer.truncate(0), self.buffer.seek(0)

class IOWrapper(IOBase):
    def __init__(self, file):
        self.buffer = FastIO(file)
        self.flush = self.buffer.flush
        self.writable = self.buffer.writable
        self.write = lambda s: self.buffer.write(s.encode("ascii"))
        self.read = lambda: self.buffer.read().decode("utf-8")
        self.readline = lambda: self.buffer.readline().decode("utf-8")

sys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)
input = lambda: sys.stdin.readline().rstrip("\r\n")

def main():
    n = int(input())
    a = list(map(int, input().split()))
    print(n, sum(a))
    print(*sorted(a))
    print(len(input()))

main()

#: FastIO template with its own print
import sys, os
from io import BytesIO, IOBase

class FastIO(IOBase):
    newlines = 0
    def __init__(self, file):
        self._fd = file.fileno()
        self.buffer = BytesIO()
        self.writable = "x" in file.mode or "r" not in file.mode
        self.write = self.buffer.write if self.writable else None
    def readline(self):
        while self.newlines == 0:
            b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))
            self.newlines = b.count(b"\n") + (not b)
            ptr = self.buffer.tell()
            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
        self.newlines -= 1
        return self.buffer.readline()
    def flush(self):
        if self.writable:
            os.write(self._fd, self.buffer.getvalue())
            self.buffer.truncate(0), self.buffer.seek(0)

class IOWrapper(IOBase):
    def __init__(self, file):
        self.buffer = FastIO(file)
        self.flush = self.buffer.flush
        self.writable = self.buffer.writable
        self.write = lambda s: self.buffer.write(s.encode("utf-8"))
        self.readline = lambda: self.buffer.readline().decode("utf-8")

def print(*args, **kwargs):
    sep, file = kwargs.pop("sep", " "), kwargs.pop("file", sys.stdout)
    at_start = True
    for x in args:
        if not at_start:
            file.write(sep)
        file.write(str(x))
        at_start = False
    file.write(kwargs.pop("end", "\n"))
    if kwargs.pop("flush", False):
        file.flush()

sys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)
input = lambda: sys.stdin.readline().rstrip("\r\n")
if __name__ == "__main__":
    n = int(input())
    for x in map(int, input().split()):
        print(x, end=" ")
    print()
    print(input(), flush=True)
    print("unflushed", n)

#: FastIO template and sys.exit
import os, sys
from io import BytesIO, IOBase
class FastO(IOBase):
    def __init__(self, fd):
        self.fd, self.buffer = fd, BytesIO()
        self.write = lambda s: self.buffer.write(s.encode())
    def flush(self):
        os.write(self.fd, self.buffer.getvalue())
        self.buffer.truncate(0), self.buffer.seek(0)
sys.stdout = FastO(1)
print("before exit")
sys.exit(0)

#: FastIO template and an exception
import os, sys
from io import BytesIO, IOBase
class FastO(IOBase):
    def __init__(self, fd):
        self.fd, self.buffer = fd, BytesIO()
        self.write = lambda s: self.buffer.write(s.encode())
    def flush(self):
        os.write(self.fd, self.buffer.getvalue())
        self.buffer.truncate(0), self.buffer.seek(0)
sys.stdout = FastO(1)
print("before the error")
[][0]

#: IOBase stdout flushed by its close
import os, sys
from io import IOBase
class Out(IOBase):
    def __init__(self): self.parts = []
    def writable(self): return True
    def write(self, s):
        self.parts.append(s)
        return len(s)
    def flush(self):
        if self.parts:
            os.write(1, "".join(self.parts).encode())
            self.parts = []
out = Out()
out.write("never flushed by hand\n")

#: atexit flush
import sys, atexit, io
sys.stdout = io.StringIO()
@atexit.register
def write():
    sys.__stdout__.write(sys.stdout.getvalue())
for i in range(int(input())):
    print(i)

#: atexit with BytesIO
import sys, atexit, io, os
out = io.BytesIO()
atexit.register(lambda: os.write(1, out.getvalue()))
n = int(sys.stdin.buffer.readline())
for i in range(n):
    out.write(b"%d\n" % i)

#: atexit register sys.stdout.flush
import sys, atexit
from os import fstat, read, write
from io import BytesIO
buf = BytesIO()
sys.stdin = BytesIO(read(0, 1 << 20))
class Out:
    def write(self, s): buf.write(s.encode())
    def flush(self):
        write(1, buf.getvalue())
        buf.seek(0); buf.truncate()
sys.stdout = Out()
atexit.register(sys.stdout.flush)
input = lambda: sys.stdin.readline().decode().rstrip()
print(int(input()) + 1)

#: input is readline
import sys
input = sys.stdin.readline
n = int(input())
print(n, list(map(int, input().split())), repr(input()))

#: input is buffer readline
import sys
input = sys.stdin.buffer.readline
n = int(input())
print(n, sum(map(int, input().split())), input())

#: input is a lambda with strip
import sys
input = lambda: sys.stdin.readline().strip()
print([input() for _ in range(8)])

#: readline and writelines
import sys
r, w = sys.stdin.readline, sys.stdout.write
w(str(int(r()) * 2) + "\n")
sys.stdout.writelines(s[::-1] + "\n" for s in r().split())

#: getvalue template
import io, os, sys
_print, buffer = print, io.StringIO()
def print(*a, **k):
    _print(*a, file=buffer, **k)
try:
    print(1, 2, sep=",")
    print(3)
finally:
    os.write(1, buffer.getvalue().encode())

#: read ints at once
import os
I = list(map(int, os.read(0, 9).split()))
print(I)

#: token iterator
import sys
def tokens():
    for line in sys.stdin.buffer:
        yield from line.split()
it = tokens()
n = int(next(it))
a = [int(next(it)) for _ in range(n)]
print(a, next(it))

#: readers by map
import sys
II = lambda: int(input())
MII = lambda: map(int, input().split())
LMII = lambda: list(MII())
n = II()
print(max(LMII()), n)

#: stdin is BytesIO of os.read with fstat
import sys, os, io
sys.stdin = io.BytesIO(os.read(0, max(os.fstat(0).st_size, 1 << 16)))
input = lambda: sys.stdin.readline().rstrip(b"\r\n")
print(int(input()), [int(x) for x in input().split()])

#: stdin is StringIO of everything
import sys, io
sys.stdin = io.StringIO(sys.stdin.read())
print(input(), input())
for line in sys.stdin:
    print(repr(line))

#: input from BytesIO
import io, os
input = io.BytesIO(os.read(0, 1 << 20)).readline
print(int(input()), input().split()[-1].decode())

#: numpy free solve with main thread
import sys, threading
def main():
    read = sys.stdin.readline
    n = int(read())
    print(sum(map(int, read().split())) * n)
sys.setrecursionlimit(1 << 20)
threading.stack_size(1 << 26)
t = threading.Thread(target=main)
t.start()
t.join()

#: sys.stdout.write of a join
import sys
def solve():
    data = sys.stdin.read().split()
    n = int(data[0])
    out = []
    for x in data[1:1 + n]:
        out.append(str(int(x) ** 2))
    sys.stdout.write("\n".join(out))
solve()

#: stdout buffer write of a join
import sys
data = sys.stdin.buffer.read().split()
sys.stdout.buffer.write(b" ".join(sorted(data)) + b"\n")

#: print and flush
print(1, flush=True)
print(2, end="", flush=True)
print(3)

#: print bound with partial
from functools import partial
print = partial(print, flush=True, sep="-")
print(1, 2, 3)

#: __builtins__ input replaced
import builtins, sys
builtins.input = lambda prompt="": sys.stdin.readline().rstrip("\n")
def f():
    return input("prompt is not shown")
print(f(), f())

#: mode of the streams
import sys
print(sys.stdin.mode, sys.stdout.mode, sys.stdin.fileno(), sys.stdout.fileno(), sys.stdin.name, sys.stdout.name)

#: interactive problem
import sys
def ask(x):
    print("?", x)
    sys.stdout.flush()
    return sys.stdin.readline().strip()
print("!", ask(1), ask(2))
"""
