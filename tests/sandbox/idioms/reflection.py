# ruff: noqa: E501
"""Programs that look at themselves."""

TEXT = r"""
#: __name__ and __file__
import os
print(__name__, os.path.basename(__file__))

#: __spec__ and others
print(__spec__, __package__, __doc__, __cached__ if "__cached__" in globals() else None)

#: __loader__
print(type(__loader__).__name__ if __loader__ else None)

#: names of globals
print(sorted(globals()))

#: own names only
import sys
x = 1
def f(): pass
print([k for k in list(globals()) if not k.startswith("__")])

#: globals written
globals()["made"] = 5
print(made)
for i in range(3): globals()[f"v{i}"] = i
print(v0, v1, v2)

#: vars and locals
def f():
    a = 1
    return locals()
class A:
    def __init__(self): self.x = 1
print(f(), vars(A()), locals() is globals(), "f" in vars())

#: dir
print(dir() == sorted(globals()), "append" in dir([]))

#: __builtins__
print(type(__builtins__).__name__, __builtins__.len([1, 2]))
__builtins__.double = lambda x: x * 2
print(double(4))

#: builtins replaced
import builtins
old = builtins.print
builtins.print = lambda *a: old("<", *a, ">")
print("x")

#: number of builtins
import builtins
print([n for n in dir(builtins) if n not in ("exit", "quit", "copyright", "credits", "license", "help", "__debug__", "_")][-5:])

#: exec with globals
ns = {"x": 5}
exec("y = x * 2\nprint(__name__ if '__name__' in dir() else 'none')", ns)
print(ns["y"])

#: exec in a function
def f():
    ns = {}
    exec("def g(n): return n + 1", {}, ns)
    return ns["g"](1)
print(f())

#: eval with names
print(eval("a + b", {"a": 1}, {"b": 2}), eval("__name__"), eval("sum(range(5))"))

#: eval without builtins
try:
    eval("open('x')", {"__builtins__": {}})
except NameError as e:
    print(e)

#: stack
import inspect
def f(): return [each.function for each in inspect.stack()]
print(f())

#: frames
import sys
def f(): return sys._getframe().f_code.co_name, sys._getframe(1).f_code.co_name, sys._getframe(1).f_back is None
print(f())

#: depth of the stack
import sys
d, f = 0, sys._getframe()
while f:
    d, f = d + 1, f.f_back
print(d)

#: line numbers
import sys
print(sys._getframe().f_lineno)

#: file name of code
import sys, os
print(os.path.basename(sys._getframe().f_code.co_filename))

#: source of a function
import inspect
def f(x):
    return x + 1
print(inspect.getsource(f))

#: source of the module
import sys, inspect
print(len(inspect.getsource(sys.modules[__name__])) > 10)

#: source read by its name
import os
print(len(open(__file__).read()))

#: signature
import inspect
def f(a, b=1, *c, d, **e): pass
print(inspect.signature(f), inspect.getfullargspec(f).args, inspect.isfunction(f))

#: members of main
import inspect, sys
class A: pass
class B(A): pass
print([n for n, c in inspect.getmembers(sys.modules["__main__"], inspect.isclass) if not n.startswith("_")])

#: module of classes and functions
class A: pass
def f(): pass
print(A.__module__, f.__module__, A.__qualname__, repr(A), (lambda: 0).__qualname__)

#: module's repr
import sys, re
print(re.sub(r"'[^']*solution.py'", "FILE", repr(sys.modules["__main__"])))

#: type made
A = type("A", (), {"x": 1, "f": lambda self: self.x})
print(A().f(), A.__module__)

#: namedtuple and its module
from collections import namedtuple
P = namedtuple("P", "x")
print(P.__module__)

#: enum's pickle
import pickle, enum
class C(enum.Enum):
    A = 1
print(pickle.loads(pickle.dumps(C.A)) is C.A)

#: dis
import dis
def f(x): return x
print([i.opname for i in dis.get_instructions(f)][-1])

#: code objects
def f(a, b):
    c = a
    return c
print(f.__code__.co_varnames, f.__code__.co_argcount, f.__defaults__)

#: function made of code
import types
def f(x): return x + 1
g = types.FunctionType(f.__code__.replace(co_name="g"), globals(), "g")
print(g(1), g.__name__)

#: SimpleNamespace
from types import SimpleNamespace as N
n = N(a=1)
n.b = 2
print(n, vars(n))

#: traceback as text
import traceback
def f(): 1 / 0
try:
    f()
except Exception:
    print([line.split('"')[-1].strip() if '"' in line else line for line in traceback.format_exc().splitlines() if "^" not in line and "~" not in line])

#: traceback positions
import sys
def f(): raise ValueError("v")
try:
    f()
except ValueError:
    tb = sys.exc_info()[2]
    lines = []
    while tb:
        lines.append((tb.tb_lineno, tb.tb_frame.f_code.co_name))
        tb = tb.tb_next
    print(lines)

#: extract_stack
import traceback
def f(): return [(x.lineno, x.name, x.line) for x in traceback.extract_stack()]
print(f())

#: linecache
import linecache
print(repr(linecache.getline(__file__, 1)))

#: warnings show the line
import warnings, sys
warnings.showwarning = lambda m, c, f, line, *a: print(m, c.__name__, line)
warnings.warn("w")

#: current exception
import sys
try:
    1 / 0
except ZeroDivisionError as e:
    print(sys.exc_info()[0].__name__, sys.exc_info()[1] is e)
print(sys.exc_info())

#: references of main
import sys, gc
a = []
print(any(x is globals() for x in gc.get_referrers(a)))

#: objects seen by gc
import gc
class A: pass
a = A()
print(sum(isinstance(x, A) for x in gc.get_objects()), a is not None)

#: last value of underscore
print("_" in globals())

#: threading's main thread
import threading, os
print(threading.main_thread().native_id == os.getpid(), threading.get_native_id() == os.getpid())

#: recursion limit left
import sys
def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
print(depth())
"""
