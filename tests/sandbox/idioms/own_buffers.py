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
"""
