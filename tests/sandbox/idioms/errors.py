"""Uncaught exceptions of every kind."""

TEXT = r"""
#: custom
class WrongInput(Exception): pass
print("x")
raise WrongInput("bad")

#: custom without text
class WrongInput(Exception): pass
raise WrongInput

#: custom nested in a class
class Solver:
    class Failed(Exception): pass
raise Solver.Failed("f")

#: custom of a local class
def f():
    class Local(Exception): pass
    raise Local("l")
f()

#: __str__ raises
class E(Exception):
    def __str__(self): raise ValueError("in str")
raise E("e")

#: __str__ returns no text
class E(Exception):
    def __str__(self): return 5
raise E("e")

#: __repr__ raises
class E(Exception):
    def __repr__(self): raise ValueError
raise E("e")

#: __str__ exits
import sys
class E(Exception):
    def __str__(self): sys.exit(3)
raise E("e")

#: __str__ prints
class E(Exception):
    def __str__(self):
        print("asked for text")
        return "e"
raise E

#: multi line text
raise ValueError("first\nsecond\nthird")

#: text that looks like an exception
raise ValueError("x\nKeyError: 'k'")

#: text with surrogates
raise ValueError("\ud800")

#: text that is huge
raise ValueError("x" * 100000)

#: name with dots
import json
json.loads("{")

#: group
raise ExceptionGroup("g", [ValueError(1), TypeError(2)])

#: group nested
raise ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1)]), OSError(2)])

#: group split by except star
try:
    raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
except* ValueError as e:
    print("values", e.exceptions)

#: chained
try:
    1 / 0
except ZeroDivisionError:
    {}["x"]

#: from
try:
    int("x")
except ValueError as e:
    raise RuntimeError("later") from e

#: from None
try:
    int("x")
except ValueError:
    raise RuntimeError("later") from None

#: raised again
try:
    int("x")
except ValueError:
    print("seen")
    raise

#: raised again later
saved = None
try:
    int("x")
except ValueError as e:
    saved = e
raise saved

#: chain in a circle
a, b = ValueError("a"), TypeError("b")
a.__context__, b.__context__ = b, a
raise a

#: notes
e = ValueError("v")
e.add_note("a note")
raise e

#: notes of odd kinds
e = ValueError("v")
e.__notes__ = 5
raise e

#: no traceback
raise ValueError("v").with_traceback(None)

#: traceback limit
import sys
sys.tracebacklimit = 0
raise ValueError("v")

#: RecursionError
def f(n): return f(n + 1)
print("x")
f(0)

#: RecursionError caught
def f(n): return f(n + 1)
try:
    f(0)
except RecursionError as e:
    print(e)

#: RecursionError depth
depth = 0
def f():
    global depth
    depth += 1
    f()
try:
    f()
except RecursionError:
    print(depth)

#: RecursionError in a __repr__
a = []
class A:
    def __repr__(self): return repr(self)
print(A())

#: RecursionError in a comparison
a, b = [], []
a.append(b); b.append(a)
a == b

#: RecursionError after a raised limit
import sys
sys.setrecursionlimit(5000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(4900))
f(6000)

#: recursion deep with a raised limit
import sys
sys.setrecursionlimit(10 ** 6)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(10000))

#: recursion deep through lru_cache
import sys
from functools import lru_cache
sys.setrecursionlimit(10 ** 5)
@lru_cache(None)
def f(n): return 0 if n == 0 else f(n - 1) + n
print(f(5000))

#: recursion through lru_cache at the usual limit
from functools import lru_cache
@lru_cache(None)
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
print(f(300))
"""
