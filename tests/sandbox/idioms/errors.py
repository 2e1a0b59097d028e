"""Exceptions that nobody catches, and what is said of them."""

TEXT = r"""
#: custom
class WrongInput(Exception): pass
print("x")
raise WrongInput("bad")

#: __str__ raises
class E(Exception):
    def __str__(self): raise ValueError("in str")
raise E("e")

#: __str__ returns no text
class E(Exception):
    def __str__(self): return 5
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

#: text that looks like an exception
raise ValueError("x\nKeyError: 'k'")

#: text with surrogates
raise ValueError("\ud800")

#: text that is huge
raise ValueError("x" * 100000)

#: group nested
raise ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1)]), OSError(2)])

#: chained
try:
    1 / 0
except ZeroDivisionError:
    {}["x"]

#: from None
try:
    int("x")
except ValueError:
    raise RuntimeError("later") from None

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

#: RecursionError after a raised limit
import sys
sys.setrecursionlimit(5000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(4900))
f(6000)

#: recursion deep through lru_cache
import sys
from functools import lru_cache
sys.setrecursionlimit(10 ** 5)
@lru_cache(None)
def f(n): return 0 if n == 0 else f(n - 1) + n
print(f(5000))

#: SyntaxError of odd kinds
e = SyntaxError("m")
e.text, e.lineno, e.offset = 5, "x", []
raise e

#: ImportError with a fallback
try:
    from sortedcontainers import SortedList
except ImportError:
    from bisect import insort
    SortedList = list
a = SortedList()
print(a)

#: exception whose module is odd
class E(Exception): pass
E.__module__ = None
raise E("e")

#: exception renamed
class E(Exception): pass
E.__name__ = E.__qualname__ = "Renamed"
raise E("e")

#: print to stderr then raise
import sys
print("debug", file=sys.stderr)
raise ValueError("v")

#: deep nesting of exceptions
e = None
for i in range(50):
    try:
        raise ValueError(i) from e
    except ValueError as new:
        e = new
raise e
"""
