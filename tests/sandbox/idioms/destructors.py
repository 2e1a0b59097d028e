"""Finalizers, weak references and generators at the end."""

TEXT = r"""
#: in a list
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("bye", self.n)
items = [A(i) for i in range(4)]

#: uses a global that is gone
class A:
    def __del__(self):
        print(table is None)
table = [1, 2]
a = A()

#: imports a new module inside
class A:
    def __del__(self):
        try:
            import colorsys
            print(colorsys.rgb_to_hls(0, 0, 0))
        except ImportError:
            print("too late")
a = A()

#: cycle through its class
class A:
    instances = []
    def __init__(self, n):
        self.n = n
        A.instances.append(self)
    def __del__(self): print("bye", self.n)
A(1); A(2)

#: cycle with a function's globals
class A:
    def __del__(self): print("bye")
def f(): return a
a = A()
a.f = f

#: gc frozen
import gc
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye")
a = A()
gc.freeze()
print("end")

#: gc debugging saveall
import gc
gc.set_debug(gc.DEBUG_SAVEALL)
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye")
A()
gc.collect()
print(len(gc.garbage) > 0)

#: gc callbacks
import gc
calls = []
gc.callbacks.append(lambda phase, info: calls.append(phase))
gc.collect()
print(calls[:2])

#: raises SystemExit
class A:
    def __del__(self): raise SystemExit(5)
a = A()
print("end")

#: os._exit inside
import os
class A:
    def __del__(self):
        print("bye", flush=True)
        os._exit(9)
a = A()

#: in the attribute of sys
import sys
class A:
    def __del__(self):
        try:
            print("bye")
        except Exception:
            pass
sys.a = A()
print("end")

#: in sys.modules
import sys
class A:
    def __del__(self): print("bye")
sys.modules["a"] = A()
print("end")

#: in a thread local
import threading
class A:
    def __del__(self): print("bye")
local = threading.local()
local.a = A()
print("end")

#: in a finished thread's arguments
import threading
class A:
    def __del__(self): print("bye")
t = threading.Thread(target=lambda a: None, args=(A(),))
t.start()
t.join()
print("end")

#: __main__ deleted from sys.modules
import sys
class A:
    def __del__(self): print("bye")
a = A()
del sys.modules["__main__"]

#: finalize not at exit
import weakref
class A: pass
a = A()
f = weakref.finalize(a, print, "finalized")
f.atexit = False
print("end")

#: weakref callback at the end with the reference first
import weakref
class A: pass
holder = []
a = A()
holder.append(weakref.ref(a, lambda _: print("gone")))
b = holder

#: WeakSet at the end
import weakref
class A:
    def __del__(self): print("bye", len(s) if s is not None else None)
s = weakref.WeakSet()
a = A()
s.add(a)

#: generator suspended in a cycle
def g():
    me = yield
    try:
        yield
    finally:
        print("finally", me is not None)
x = g()
next(x)
x.send(x)
del x
print("end")

#: generator suspended in with
from contextlib import contextmanager
@contextmanager
def cm():
    print("enter")
    try:
        yield
    finally:
        print("leave")
def g():
    with cm():
        yield 1
x = g()
next(x)
print("end")

#: generator that yields when closed
def g():
    try:
        yield 1
    finally:
        yield 2
x = g()
next(x)
print("end")

#: generator that raises when closed
def g():
    try:
        yield 1
    finally:
        raise ValueError
x = g()
next(x)
print("end")

#: generator suspended in a list
def g(n):
    try:
        yield n
    finally:
        print("finally", n)
xs = [g(i) for i in range(3)]
for x in xs:
    next(x)
"""
