"""Buffers of a program's own, C's among them, and writes past Python's."""

TEXT = r"""
#: private global
_out = open(1, "wb", closefd=False)
_out.write(b"x\n")

#: class attribute
class IO:
    out = open(1, "w", closefd=False)
    @classmethod
    def say(cls, *words):
        cls.out.write(" ".join(map(str, words)) + "\n")
IO.say("class", 1)

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

#: large writes and small ones
import sys
for i in range(200):
    sys.stdout.write("x" * i + "\n")
sys.stdout.buffer.write(b"y" * 20000)
print("end")

#: ctypes puts and print
import ctypes
print("from Python")
ctypes.CDLL(None).puts(b"from C")

#: ctypes printf then os._exit
import ctypes, os
ctypes.CDLL(None).printf(b"lost\n")
os._exit(0)

#: ctypes printf then sys.exit
import ctypes, sys
ctypes.CDLL(None).printf(b"kept\n")
sys.exit(3)

#: ctypes exit
import ctypes
print("lost")
ctypes.CDLL(None).exit(3)

#: ctypes atexit
import ctypes
libc = ctypes.CDLL(None)
CALL = ctypes.CFUNCTYPE(None)
print(libc.puts(b"x") >= 0)

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

#: dev stdout appended
print("first", flush=True)
with open("/dev/stdout", "a") as out:
    out.write("second\n")
print("third")

#: dev fd 1
with open("/dev/fd/1", "w") as out:
    out.write("device\n")
"""
