# ruff: noqa: E501
"""Writers of the program's own on descriptor 1, by who keeps them to the end; C's buffers; writes in a mix."""

TEXT = r"""
#: global
import io
out = io.open(1, "wb", buffering=1 << 16)
out.write(b"never closed\n")

#: global text
out = open(1, "w", closefd=False)
out.write("never closed\n")

#: global and print after it
out = open(1, "w", closefd=False)
out.write("the writer\n")
print("the printer")

#: private global
_out = open(1, "wb", closefd=False)
_out.write(b"x\n")

#: dunder global
__out__ = open(1, "wb", closefd=False)
__out__.write(b"x\n")

#: class attribute
class IO:
    out = open(1, "w", closefd=False)
    @classmethod
    def say(cls, *words):
        cls.out.write(" ".join(map(str, words)) + "\n")
IO.say("class", 1)

#: instance in a cycle
class IO:
    def __init__(self):
        self.out = open(1, "w", closefd=False)
        self.me = self
IO().out.write("cycle\n")

#: instance in a global cycle
class IO:
    def __init__(self):
        self.out = open(1, "w", closefd=False)
        self.me = self
io = IO()
io.out.write("cycle\n")

#: default argument
def say(text, out=open(1, "w", closefd=False)):
    out.write(text + "\n")
say("default")

#: closure
def make():
    out = open(1, "w", closefd=False)
    def say(text):
        out.write(text + "\n")
    return say
say = make()
say("closure")

#: thread local
import threading
local = threading.local()
local.out = open(1, "w", closefd=False)
local.out.write("local\n")

#: thread local of another thread
import threading
local = threading.local()
def f():
    local.out = open(1, "w", closefd=False)
    local.out.write("local\n")
t = threading.Thread(target=f)
t.start()
t.join()
print("main")

#: bound method only
write = open(1, "w", closefd=False).write
write("bound\n")

#: attribute of a module
import math
math.out = open(1, "w", closefd=False)
math.out.write("module\n")

#: in sys.modules
import sys, types
m = types.ModuleType("fast")
m.out = open(1, "w", closefd=False)
sys.modules["fast"] = m
import fast
fast.out.write("own module\n")
del m, fast

#: attribute of builtins
import builtins
builtins.out = open(1, "w", closefd=False)
out.write("builtins\n")

#: suspended generator
def writer():
    out = open(1, "w", closefd=False)
    while True:
        out.write((yield) + "\n")
w = writer()
next(w)
w.send("generator")

#: lru_cache
from functools import lru_cache
@lru_cache(None)
def out():
    return open(1, "w", closefd=False)
out().write("cached\n")

#: context variable
import contextvars
var = contextvars.ContextVar("out")
var.set(open(1, "w", closefd=False))
var.get().write("context\n")

#: ExitStack
from contextlib import ExitStack
stack = ExitStack()
out = stack.enter_context(open(1, "w", closefd=False))
out.write("stack\n")

#: weakly held
import weakref
out = open(1, "w", closefd=False)
ref = weakref.ref(out)
ref().write("weak\n")
print(ref() is out)

#: frame of an exception
import sys
def f():
    out = open(1, "w", closefd=False)
    out.write("kept by the traceback\n")
    1 / 0
try:
    f()
except ZeroDivisionError as e:
    saved = e

#: uncaught exception's frame
def f():
    out = open(1, "w", closefd=False)
    out.write("kept by the traceback\n")
    1 / 0
f()

#: closing descriptor 1 before stdout's flush
out = open(1, "w")
out.write("writer\n")
print("printer")

#: two writers
a = open(1, "w", closefd=False)
b = open(1, "w", closefd=False)
b.write("b\n")
a.write("a\n")

#: two writers flushed in turn
a = open(1, "w", closefd=False)
b = open(1, "w", closefd=False)
b.write("b\n")
b.flush()
a.write("a\n")
a.flush()
print("end")

#: os.write after print
import os
print("printed")
os.write(1, b"written\n")

#: os.write after a flushed print
import os
print("printed", flush=True)
os.write(1, b"written\n")
print("end")

#: os.write loop
import os
for i in range(5):
    os.write(1, str(i).encode())
os.write(1, b"\n")

#: os.writev
import os
os.writev(1, [b"a", b"bc", b"\n"])

#: buffer write after print
import sys
print("printed")
sys.stdout.buffer.write(b"written\n")
sys.stdout.buffer.flush()
print("end")

#: raw write after print
import sys
print("printed")
sys.stdout.buffer.raw.write(b"written\n")

#: large writes and small ones
import sys
for i in range(200):
    sys.stdout.write("x" * i + "\n")
sys.stdout.buffer.write(b"y" * 20000)
print("end")

#: ctypes printf
import ctypes
ctypes.CDLL(None).printf(b"from C\n")

#: ctypes puts and print
import ctypes
print("from Python")
ctypes.CDLL(None).puts(b"from C")

#: ctypes printf with fflush
import ctypes
libc = ctypes.CDLL(None)
libc.printf(b"from C %d\n", 7)
libc.fflush(None)
print("from Python")

#: ctypes printf then os._exit
import ctypes, os
ctypes.CDLL(None).printf(b"lost\n")
os._exit(0)

#: ctypes printf then sys.exit
import ctypes, sys
ctypes.CDLL(None).printf(b"kept\n")
sys.exit(3)

#: ctypes printf then an exception
import ctypes
ctypes.CDLL(None).printf(b"kept\n")
raise ValueError

#: ctypes exit
import ctypes
print("lost")
ctypes.CDLL(None).exit(3)

#: ctypes atexit
import ctypes
libc = ctypes.CDLL(None)
CALL = ctypes.CFUNCTYPE(None)
print(libc.puts(b"x") >= 0)

#: ctypes write
import ctypes
libc = ctypes.CDLL(None)
libc.write(1, b"written\n", 8)
print("printed")

#: SpooledTemporaryFile in memory
import sys
from tempfile import SpooledTemporaryFile
out = SpooledTemporaryFile(1 << 20, "w+")
out.write("spooled\n")
out.seek(0)
sys.stdout.write(out.read())

#: dup kept in a global
import os
out = os.fdopen(os.dup(1), "w")
out.write("copy\n")
print("original")

#: sendfile like copy
import os, sys
data = os.read(0, 1 << 16)
while data:
    os.write(1, data)
    data = os.read(0, 1 << 16)

#: shutil copyfileobj
import shutil, sys
shutil.copyfileobj(sys.stdin, sys.stdout)

#: writer with __del__ of the program's own
import os
class Writer:
    def __init__(self): self.parts = []
    def __call__(self, *words): self.parts.append(" ".join(map(str, words)))
    def __del__(self): os.write(1, "\n".join(self.parts).encode() + b"\n")
out = Writer()
out("a", 1)
out("b", 2)

#: writer with close of the program's own by finalize
import weakref, os
class Writer: pass
parts = []
w = Writer()
weakref.finalize(w, lambda: os.write(1, "".join(parts).encode()))
parts.append("a\n")
parts.append("b\n")

#: BufferedRandom of a pipe
import io, os
r, w = os.pipe()
f = io.open(w, "wb")
f.write(b"through a pipe")
f.close()
print(io.open(r, "rb").read())

#: dev stdout
out = open("/dev/stdout", "w")
out.write("device\n")

#: dev stdout after a flushed print
print("first", flush=True)
with open("/dev/stdout", "w") as out:
    out.write("second\n")
print("third")

#: dev stdout appended
print("first", flush=True)
with open("/dev/stdout", "a") as out:
    out.write("second\n")
print("third")

#: dev fd 1
with open("/dev/fd/1", "w") as out:
    out.write("device\n")

#: proc self fd 1
with open("/proc/self/fd/1", "w") as out:
    out.write("device\n")

#: dev stderr
with open("/dev/stderr", "w") as err:
    err.write("device\n")
print("x")
"""
