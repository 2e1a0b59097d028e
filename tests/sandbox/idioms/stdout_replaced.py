# ruff: noqa: E501
"""sys.stdout is another object than the interpreter's own, or writes elsewhere."""

TEXT = r"""
#: StringIO then __stdout__
import sys, io
sys.stdout = io.StringIO()
print("first")
print("second")
text = sys.stdout.getvalue()
sys.__stdout__.write(text.upper())

#: StringIO and never written
import sys, io
sys.stdout = io.StringIO()
print("this is lost")

#: StringIO and restored
import sys, io
old = sys.stdout
sys.stdout = buffer = io.StringIO()
for i in range(5):
    print(i, end=" ")
sys.stdout = old
print(buffer.getvalue().strip())

#: StringIO written by atexit
import sys, io, atexit
sys.stdout = io.StringIO()
atexit.register(lambda: sys.__stdout__.write(sys.stdout.getvalue()))
print("at the end")

#: StringIO written by os.write at exit
import sys, io, os, atexit
sys.stdout = io.StringIO()
atexit.register(lambda: os.write(1, sys.stdout.getvalue().encode()))
print("at the end")

#: BytesIO behind a TextIOWrapper
import sys, io
raw = io.BytesIO()
sys.stdout = io.TextIOWrapper(raw, encoding="utf-8")
print("wörld")
sys.stdout.flush()
sys.__stdout__.buffer.write(raw.getvalue())

#: open 1 with closefd False
import sys
sys.stdout = open(1, "w", closefd=False)
print("hello")
print("there")

#: open 1 closing
import sys
sys.stdout = open(1, "w")
print("hello")

#: open 1 closing with encoding and newline
import sys
sys.stdout = open(1, "w", encoding="utf-8", newline="\r\n")
print("hällo")
print("x")

#: open 1 in a with statement
import sys
with open(1, "w") as out:
    out.write("inside\n")

#: open 1 in a with statement then print
with open(1, "w") as out:
    out.write("inside\n")
print("after")

#: open 1 closefd False in a with statement then print
with open(1, "w", closefd=False) as out:
    out.write("inside\n")
print("after")

#: fdopen large buffer
import os, sys
sys.stdout = os.fdopen(1, "w", 1 << 16)
for i in range(1000):
    print(i)

#: fdopen of a dup
import os, sys
sys.stdout = os.fdopen(os.dup(1), "w")
print("through a copy")

#: fdopen binary unbuffered
import os, sys
out = os.fdopen(1, "wb", 0)
out.write(b"raw ")
out.write(b"bytes\n")

#: fdopen line buffered
import os, sys
sys.stdout = os.fdopen(sys.stdout.fileno(), "w", 1)
print("line")
print("buffered", end="")

#: TextIOWrapper over the buffer
import sys, io
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
print("wörld")

#: TextIOWrapper over the buffer write through
import sys, io
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", write_through=True, line_buffering=True)
print("wörld")
sys.stdout.write("no newline")

#: TextIOWrapper over the detached buffer
import sys, io
sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="ascii", errors="backslashreplace")
print("wörld")

#: TextIOWrapper twice
import sys, io
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
print("one")
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
print("two")

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

#: TextIOWrapper over BufferedWriter over FileIO
import sys, io
sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False), 1 << 15))
print("layers")

#: codecs writer
import sys, codecs
sys.stdout = codecs.getwriter("utf-8")(sys.stdout.buffer)
print("wörld", 1)

#: codecs writer of a detached stream
import sys, codecs
sys.stdout = codecs.getwriter("utf-8")(sys.stdout.detach())
sys.stdout.write("wörld\n")

#: codecs open
import codecs, sys
out = codecs.getwriter("latin-1")(sys.stdout.buffer, errors="replace")
out.write("wörld ☃\n")

#: BufferedWriter with bytes
import sys, io
sys.stdout = io.BufferedWriter(io.FileIO(1, "w"))
sys.stdout.write(b"bytes\n")

#: BufferedWriter and print fails
import sys, io
sys.stdout = io.BufferedWriter(io.FileIO(1, "w"))
print("text")

#: FileIO
import sys, io
sys.stdout = io.FileIO(1, "w")
sys.stdout.write(b"bytes\n")

#: stdout is the binary buffer
import sys
sys.stdout = sys.stdout.buffer
sys.stdout.write(b"bytes\n")

#: stdout is stderr
import sys
sys.stdout = sys.stderr
print("nobody reads this")

#: stderr is stdout
import sys
sys.stderr = sys.stdout
print("a", file=sys.stderr)
print("b")
sys.stderr.write("c\n")

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

#: redirect_stdout
import io
from contextlib import redirect_stdout
out = io.StringIO()
with redirect_stdout(out):
    print("caught")
print(out.getvalue()[::-1])

#: redirect_stdout never left
import io, contextlib, sys
stack = contextlib.ExitStack()
out = io.StringIO()
stack.enter_context(contextlib.redirect_stdout(out))
print("caught")
sys.__stdout__.write("[" + out.getvalue().strip() + "]\n")

#: redirect_stdout to stderr
import contextlib, sys
with contextlib.redirect_stdout(sys.stderr):
    print("debug")
print("answer")

#: redirect_stderr to stdout
import contextlib, sys
with contextlib.redirect_stderr(sys.stdout):
    print("debug", file=sys.stderr)
print("answer")

#: redirect_stdout and exit inside
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()) as out:
    print("lost")
    sys.exit(0)

#: tee
import sys
class Tee:
    def __init__(self, *files):
        self.files = files
    def write(self, text):
        for file in self.files:
            file.write(text)
        return len(text)
    def flush(self):
        for file in self.files:
            file.flush()
sys.stdout = Tee(sys.stdout, sys.stderr)
print("both")

#: tee with attribute forwarding
import sys
class Tee(object):
    def __init__(self):
        self.stdout = sys.stdout
        self.log = []
        sys.stdout = self
    def write(self, data):
        self.log.append(data)
        self.stdout.write(data)
    def __getattr__(self, name):
        return getattr(self.stdout, name)
    def __del__(self):
        sys.stdout = self.stdout
tee = Tee()
print("both", len(tee.log))

#: only write
import sys
class Out:
    def write(self, text):
        sys.__stdout__.write(text.upper())
sys.stdout = Out()
print("no flush and no closed attribute")

#: only write and collected
import sys
class Out:
    def __init__(self): self.parts = []
    def write(self, text): self.parts.append(text)
out = sys.stdout = Out()
print("a", "b")
print("c")
sys.stdout = sys.__stdout__
print(out.parts)

#: collected and printed at exit
import sys, atexit
class Out:
    def __init__(self, real):
        self.real, self.parts = real, []
    def write(self, text):
        self.parts.append(text)
    def flush(self):
        pass
sys.stdout = Out(sys.stdout)
def done():
    out = sys.stdout
    sys.stdout = out.real
    print("".join(out.parts), end="")
atexit.register(done)
for i in range(5):
    print(i * i)

#: collected and written in __del__
import sys
class Out:
    def __init__(self, real):
        self.real, self.parts = real, []
    def write(self, text):
        self.parts.append(text)
    def flush(self):
        pass
    def __del__(self):
        self.real.write("".join(self.parts))
        self.real.flush()
sys.stdout = Out(sys.stdout)
print("held back")

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

#: counting lines
import sys
class Counter:
    lines = 0
    def write(self, text):
        Counter.lines += text.count("\n")
        return sys.__stdout__.write(text)
    flush = sys.__stdout__.flush
sys.stdout = Counter()
print("a")
print("b\nc")
sys.__stdout__.write("%d lines\n" % Counter.lines)

#: subclass of StringIO
import io, sys
class Out(io.StringIO):
    def close(self):
        sys.__stdout__.write(self.getvalue())
        super().close()
sys.stdout = Out()
print("in close")
sys.stdout.close()
sys.stdout = sys.__stdout__
print("on")

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

#: dup2 of stderr
import os, sys
print("kept", flush=True)
os.dup2(2, 1)
print("gone to stderr")

#: dup2 of null before the flush
import os
print("lost, since it is flushed too late")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

#: stdout is devnull and back
import os, sys
sys.stdout = open(os.devnull, "w")
print("silent")
sys.stdout.close()
sys.stdout = sys.__stdout__
print("loud")

#: stdout is devnull
import os, sys
sys.stdout = open(os.devnull, "w")
print("silent")

#: __stdout__ replaced too
import sys, io
real = sys.stdout
sys.stdout = sys.__stdout__ = io.StringIO()
print("x")
real.write("real\n")

#: print replaced by a list
out = []
def print(*args, sep=" ", end="\n"):
    out.append(sep.join(map(str, args)) + end)
print(1, 2)
print("a", "b", sep="-")
import sys
sys.stdout.write("".join(out))

#: print is sys.stdout.write
import sys
print = sys.stdout.write
print("one\n")
print("two\n")

#: displayhook
import sys
sys.displayhook(42)
exec(compile("1 + 1\n'x'\nNone", "s", "single"))
"""
