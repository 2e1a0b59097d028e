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
"""
