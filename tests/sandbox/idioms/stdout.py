"""Streams that are replaced, wrapped, duplicated or silenced."""

TEXT = r"""
#: BytesIO behind a TextIOWrapper
import sys, io
raw = io.BytesIO()
sys.stdout = io.TextIOWrapper(raw, encoding="utf-8")
print("wörld")
sys.stdout.flush()
sys.__stdout__.buffer.write(raw.getvalue())

#: fdopen binary unbuffered
import os, sys
out = os.fdopen(1, "wb", 0)
out.write(b"raw ")
out.write(b"bytes\n")

#: TextIOWrapper local to a function and gone
import sys, io
def speak():
    out = io.TextIOWrapper(sys.stdout.buffer)
    out.write("from a function\n")
speak()
try:
    print("after")
except ValueError as e:
    sys.stderr.write(str(e))

#: BufferedWriter and print fails
import sys, io
sys.stdout = io.BufferedWriter(io.FileIO(1, "w"))
print("text")

#: stdout is the binary buffer
import sys
sys.stdout = sys.stdout.buffer
sys.stdout.write(b"bytes\n")

#: stderr is stdout and an exception
import sys
sys.stderr = sys.stdout
print("x")
raise SystemExit("message on stdout")

#: stderr is a StringIO and an exception
import sys, io
sys.stderr = io.StringIO()
print("x")
raise ValueError("unseen")

#: redirect_stdout never left
import io, contextlib, sys
stack = contextlib.ExitStack()
out = io.StringIO()
stack.enter_context(contextlib.redirect_stdout(out))
print("caught")
sys.__stdout__.write("[" + out.getvalue().strip() + "]\n")

#: redirect_stdout and exit inside
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()) as out:
    print("lost")
    sys.exit(0)

#: written by flush only
import sys
class Out:
    def __init__(self, real):
        self.real, self.parts = real, []
    def write(self, text):
        self.parts.append(text)
    def flush(self):
        self.real.write("".join(self.parts))
        self.parts.clear()
sys.stdout = Out(sys.stdout)
print("held back until the interpreter flushes")

#: flush that fails
import sys
class Out:
    def __init__(self, real): self.real = real
    def write(self, text): self.real.write(text)
    def flush(self): raise OSError("cannot")
sys.stdout = Out(sys.stdout)
print("x")

#: flush that exits
import sys
class Out:
    def __init__(self, real): self.real = real
    def write(self, text): self.real.write(text)
    def flush(self): raise SystemExit(4)
sys.stdout = Out(sys.stdout)
print("x")

#: write that fails
import sys
class Out:
    def write(self, text): raise IOError("no")
    def flush(self): pass
sys.stdout = Out()
print("x")

#: an object of no use
import sys
sys.stdout = object()
try:
    print("x")
except AttributeError as e:
    sys.__stdout__.write("no write\n")

#: subclass of TextIOWrapper
import io, sys
class Out(io.TextIOWrapper):
    def write(self, text):
        return super().write(text.replace(" ", "_"))
sys.stdout = Out(sys.stdout.buffer, encoding="utf-8")
print("a b c")

#: dup2 of a pipe and back
import os, sys
r, w = os.pipe()
saved = os.dup(1)
os.dup2(w, 1)
print("through the pipe", flush=True)
os.dup2(saved, 1)
os.close(w)
print(os.read(r, 100))

#: dup2 of null before the flush
import os
print("lost, since it is flushed too late")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

#: __stdout__ replaced too
import sys, io
real = sys.stdout
sys.stdout = sys.__stdout__ = io.StringIO()
print("x")
real.write("real\n")

#: displayhook
import sys
sys.displayhook(42)
exec(compile("1 + 1\n'x'\nNone", "s", "single"))

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

#: stdin is BytesIO of os.read with fstat
import sys, os, io
sys.stdin = io.BytesIO(os.read(0, max(os.fstat(0).st_size, 1 << 16)))
input = lambda: sys.stdin.readline().rstrip(b"\r\n")
print(int(input()), [int(x) for x in input().split()])
"""
