"""The uncaught exceptions of everyday."""

TEXT = r"""
#: MemoryError by hand
raise MemoryError

#: MemoryError for real
x = [0] * (1 << 60)

#: MemoryError caught
try:
    b = bytearray(1 << 62)
except (MemoryError, OverflowError) as e:
    print(type(e).__name__)

#: OverflowError
import math
math.exp(1000)

#: UnicodeEncodeError
print("x")
"\ud800".encode()

#: UnicodeEncodeError in print
import sys
sys.stdout.reconfigure(encoding="ascii")
print("wörld")

#: UnicodeDecodeError
b"\xff".decode()

#: SyntaxError in eval
eval("1 +")

#: SyntaxError in exec
exec("x = = 1")

#: SyntaxError in compile
compile("def f(:", "name", "exec")

#: SyntaxError by hand
raise SyntaxError("by hand")

#: SyntaxError by hand with details
raise SyntaxError("by hand", ("file.py", 3, 5, "some text", 3, 9))

#: SyntaxError of odd kinds
e = SyntaxError("m")
e.text, e.lineno, e.offset = 5, "x", []
raise e

#: IndentationError in exec
exec("if 1:\nprint(1)")

#: TabError in exec
exec("if 1:\n\tx = 1\n        y = 2")

#: SyntaxError of the program
print("never printed")
x = = 1

#: IndentationError of the program
print("never printed")
  x = 1

#: return outside of a function
print("never printed")
return 5

#: Python 2
print "never printed"

#: null byte in compile
compile("x = 1\0", "name", "exec")

#: ZeroDivisionError
print(1)
1 // 0

#: IndexError
[1, 2][5]

#: KeyError
{"a": 1}["b"]

#: AttributeError
"x".push("y")

#: AttributeError with a suggestion
import math
math.sqr(4)

#: NameError
print(undefined)

#: NameError with a suggestion
count = 1
print(cuont)

#: NameError of a missing import
print(math.pi)

#: UnboundLocalError
x = 1
def f():
    x += 1
f()

#: TypeError
"1" + 1

#: TypeError of a call
def f(a, b): pass
f(1)

#: ValueError of int
int("12a")

#: ValueError of unpacking
a, b = map(int, "1 2 3".split())

#: ValueError of int digits
print("x")
int("1" * 5000)

#: ValueError of str digits
print("x")
str(10 ** 5000)

#: AssertionError
assert 1 + 1 == 3, "wrong"

#: AssertionError without text
assert []

#: ImportError
import no_such_module

#: ImportError of a name
from math import no_such_name

#: ImportError of third parties
import sortedcontainers

#: ImportError with a fallback
try:
    from sortedcontainers import SortedList
except ImportError:
    from bisect import insort
    SortedList = list
a = SortedList()
print(a)

#: FileNotFoundError
open("no such file")

#: NotImplementedError
raise NotImplementedError

#: StopIteration in a generator
def g():
    next(iter([]))
    yield
list(g())

#: dictionary changed
d = {1: 1}
for k in d:
    d[k + 1] = 1

#: deque changed
from collections import deque
q = deque([1])
for x in q:
    q.append(x)

#: decimal error
from decimal import Decimal
Decimal("x")

#: fractions error
from fractions import Fraction
Fraction(1, 0)

#: re error
import re
re.compile("(")

#: struct error
import struct
struct.pack("B", 256)

#: frozen dataclass
from dataclasses import dataclass
@dataclass(frozen=True)
class P:
    x: int
P(1).x = 2

#: abstract class
from abc import ABC, abstractmethod
class A(ABC):
    @abstractmethod
    def f(self): ...
A()

#: raise of a class that is no exception
raise int

#: raise of a class with arguments
raise KeyError

#: exception with arguments missing
class E(Exception):
    def __init__(self, a, b): super().__init__(a)
raise E

#: exception whose module is odd
class E(Exception): pass
E.__module__ = None
raise E("e")

#: exception whose module is builtins
class E(Exception): pass
E.__module__ = "builtins"
raise E("e")

#: exception renamed
class E(Exception): pass
E.__name__ = E.__qualname__ = "Renamed"
raise E("e")

#: print to stderr then raise
import sys
print("debug", file=sys.stderr)
raise ValueError("v")

#: traceback printed and exit
import traceback, sys
try:
    1 / 0
except Exception:
    traceback.print_exc()
    sys.exit(1)

#: traceback's last line printed
import traceback, sys
try:
    1 / 0
except Exception:
    print(traceback.format_exc().splitlines()[-1])
print("end")

#: error in a thread only
import threading
t = threading.Thread(target=lambda: [][1])
t.start()
t.join()
print("main")

#: error in the frame's own line numbers
def f():

    raise ValueError(f.__code__.co_firstlineno)
f()

#: error in a lambda of sort
sorted([1, "a"])

#: error inside of finally
try:
    print("try")
finally:
    print("finally")
    [].pop()

#: exit code by else
try:
    pass
except ValueError:
    pass
else:
    raise KeyError("else")

#: deep nesting of exceptions
e = None
for i in range(50):
    try:
        raise ValueError(i) from e
    except ValueError as new:
        e = new
raise e

#: deep nesting of blocks
exec("\n".join(" " * i + "if 1:" for i in range(19)) + "\n" + " " * 20 + "print('deep')")

#: deep nesting of parentheses
print(eval("(" * 80 + "1" + ")" * 80))

#: too deep nesting of parentheses
eval("(" * 300 + "1" + ")" * 300)
"""
