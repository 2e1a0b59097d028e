"""Weak references, finalizers, suspended generators and open contexts at the end."""

TEXT = r"""
#: finalize
import weakref
class A: pass
a = A()
weakref.finalize(a, print, "finalized")
print("end")

#: finalize in order
import weakref
class A: pass
objects = [A() for _ in range(3)]
for i, each in enumerate(objects):
    weakref.finalize(each, print, "finalized", i)
print("end")

#: finalize not at exit
import weakref
class A: pass
a = A()
f = weakref.finalize(a, print, "finalized")
f.atexit = False
print("end")

#: finalize called and detached
import weakref
class A: pass
a, b = A(), A()
f, g = weakref.finalize(a, print, "f"), weakref.finalize(b, print, "g")
f()
g.detach()
print(f.alive, g.alive)

#: finalize raises
import weakref
class A: pass
a = A()
weakref.finalize(a, lambda: 1 / 0)
weakref.finalize(a, print, "still")

#: weakref callback on del
import weakref
class A: pass
a = A()
r = weakref.ref(a, lambda _: print("gone"))
del a
print("end")

#: weakref callback at the end
import weakref
class A: pass
a = A()
r = weakref.ref(a, lambda _: print("gone"))
print("end")

#: weakref callback at the end with the reference first
import weakref
class A: pass
holder = []
a = A()
holder.append(weakref.ref(a, lambda _: print("gone")))
b = holder

#: WeakValueDictionary
import weakref
class A: pass
d = weakref.WeakValueDictionary()
a = d["a"] = A()
print(len(d))
del a
print(len(d))

#: WeakSet at the end
import weakref
class A:
    def __del__(self): print("bye", len(s) if s is not None else None)
s = weakref.WeakSet()
a = A()
s.add(a)

#: generator suspended with finally
def g():
    try:
        yield 1
    finally:
        print("finally")
x = g()
next(x)

#: generator suspended in a list
def g(n):
    try:
        yield n
    finally:
        print("finally", n)
xs = [g(i) for i in range(3)]
for x in xs:
    next(x)

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

#: generator suspended in a for loop left by break
def g():
    try:
        while True:
            yield 1
    finally:
        print("finally")
for _ in g():
    break
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

#: ExitStack global
from contextlib import ExitStack
stack = ExitStack()
stack.callback(print, "never called")
print("end")

#: ExitStack closed at exit
import atexit
from contextlib import ExitStack
stack = ExitStack()
stack.callback(print, 1)
stack.callback(print, 2)
atexit.register(stack.close)

#: context manager entered by hand
class C:
    def __enter__(self): print("enter")
    def __exit__(self, *a): print("leave")
    def __del__(self): print("del")
c = C()
c.__enter__()

#: with and sys.exit
import sys
class C:
    def __enter__(self): print("enter")
    def __exit__(self, *a): print("leave", a[0].__name__)
with C():
    sys.exit(1)

#: object pool
class Pool:
    free = []
    def __new__(cls):
        return cls.free.pop() if cls.free else super().__new__(cls)
    def __del__(self):
        Pool.free.append(self)
a = Pool()
del a
b = Pool()
print(len(Pool.free))
Pool.__del__ = lambda self: print("really gone")

#: print order of mixed dels
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print(self.n, end=" ")
x = A(1)
x = A(2)
y = [A(3), A(4)]
y.pop()
z = A(5)
z.me = z
del z
print("|", end=" ")
"""
