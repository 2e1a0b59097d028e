"""sys.stdout is an object of a class of the program's own, or leads elsewhere."""

TEXT = r"""
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
