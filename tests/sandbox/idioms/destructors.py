"""What objects do when they go at the end: __del__, weak references, suspended generators, open contexts."""

TEXT = r"""
#: global
class A:
    def __del__(self): print("bye")
a = A()

#: several globals in order
class A:
    def __init__(self, name): self.name = name
    def __del__(self): print("bye", self.name)
b, a, _c, d = A("b"), A("a"), A("_c"), A("d")

#: private and dunder globals
class A:
    def __init__(self, name): self.name = name
    def __del__(self): print("bye", self.name)
a, _b, __c, __d__ = A("a"), A("_b"), A("__c"), A("__d__")

#: class defined after what uses it
def make(): return A()
class A:
    def __del__(self): print("bye")
x = make()

#: uses a global helper
def helper(x): return x * 2
class A:
    def __del__(self): print(helper(21))
a = A()

#: uses a global helper defined late
class A:
    def __del__(self): print(helper(21))
a = A()
def helper(x): return x * 2

#: uses a global that is gone
class A:
    def __del__(self):
        print(table is None)
table = [1, 2]
a = A()

#: uses an imported module
import math
class A:
    def __del__(self): print(math.sqrt(16))
a = A()

#: imports inside
class A:
    def __del__(self):
        import string
        print(string.digits)
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

#: cycle
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye from a cycle")
A()

#: cycle kept in a global
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye from a cycle")
a = A()

#: cycle that uses globals and builtins
import math
items = [3, 1, 2]
class A:
    def __init__(self): self.me = self
    def __del__(self):
        try:
            print(sorted(items), math.pi, len(items))
        except Exception as e:
            print(type(e).__name__)
a = A()

#: cycle of two
class Node:
    def __init__(self, name): self.name, self.other = name, None
    def __del__(self): print("bye", self.name)
a, b = Node("a"), Node("b")
a.other, b.other = b, a
del a, b

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

#: doubly linked list
class Node:
    def __init__(self, v): self.v, self.prev, self.next = v, None, None
    def __del__(self): print("free", self.v)
head = Node(0)
cur = head
for i in range(1, 4):
    new = Node(i)
    cur.next, new.prev = new, cur
    cur = new
del cur, new

#: gc.collect by hand
import gc
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye")
A()
print(gc.collect() > 0)
print("end")

#: gc disabled
import gc
gc.disable()
class A:
    def __init__(self): self.me = self
    def __del__(self): print("bye")
A()
print("end")

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

#: resurrection
kept = []
class A:
    def __del__(self):
        print("dying")
        kept.append(self)
a = A()
del a
print(len(kept))

#: resurrection at the end
class A:
    def __del__(self):
        global again
        print("dying")
        again = self
a = A()

#: in a list
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("bye", self.n)
items = [A(i) for i in range(4)]

#: in a dict and a set and a tuple
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("bye", self.n)
d = {1: A(1)}
t = (A(2), A(3))
s = frozenset([A(4)])

#: on the class itself
class Meta(type):
    def __del__(cls): print("class gone", cls.__name__)
class A(metaclass=Meta): pass
print("end")

#: instance of a deleted class
class A:
    def __del__(self): print("bye")
a = A()
del A

#: raises
class A:
    def __del__(self): raise ValueError("in del")
a = A()
print("end")

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

#: sys.exit then del
import sys
class A:
    def __del__(self): print("bye")
a = A()
sys.exit(2)

#: exception then del
class A:
    def __del__(self): print("bye")
def f():
    a = A()
    raise KeyError("k")
f()

#: local of a function that raised
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("bye", self.n)
g = A("global")
def f():
    a = A("local")
    raise KeyError("k")
try:
    f()
except KeyError as e:
    keep = e
print("end")

#: starts output with end=""
class A:
    def __del__(self): print("tail", end="")
a = A()
print("head", end="")

#: writes with os.write
import os
class A:
    def __del__(self): os.write(1, b"written\n")
a = A()
print("printed")

#: writes with sys.stdout
import sys
class A:
    def __del__(self): sys.stdout.write("written\n")
a = A()

#: in the attribute of a module
import math
class A:
    def __del__(self): print("bye")
math.a = A()

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

#: in the attribute of builtins
import builtins
class A:
    def __del__(self):
        import os
        os.write(1, b"bye\n")
builtins.a = A()
print("end")

#: in sys.modules
import sys
class A:
    def __del__(self): print("bye")
sys.modules["a"] = A()
print("end")

#: in a default argument
class A:
    def __del__(self): print("bye")
def f(a=A()): pass

#: in a closure
class A:
    def __del__(self): print("bye")
def outer():
    a = A()
    return lambda: a
f = outer()

#: in an lru_cache
from functools import lru_cache
class A:
    def __del__(self): print("bye")
@lru_cache
def f(): return A()
f()

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

#: globals cleared
class A:
    def __del__(self): print("bye")
a = A()
out = print
globals().clear()
"""
