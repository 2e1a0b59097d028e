# ruff: noqa: E501
"""What programs find around them: modules, frames, files."""

TEXT = r"""
#: argparse with a wrong call
import argparse
p = argparse.ArgumentParser()
p.add_argument("n")
p.parse_args()

#: unittest failing
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 2)
unittest.main()

#: doctest
import doctest
def f(x):
    '''
    >>> f(2)
    4
    '''
    return x * 2
print(doctest.testmod())

#: gc counts of fresh objects
import gc
gc.collect()
class A: pass
for _ in range(10):
    a = A()
    a.me = a
del a
print(gc.collect() >= 10, gc.garbage)

#: resource stack raised
import resource, sys
try:
    resource.setrlimit(resource.RLIMIT_STACK, (resource.getrlimit(resource.RLIMIT_STACK)[1],) * 2)
except (ValueError, OSError):
    pass
print("ok")

#: resource stack unlimited
import resource, sys
try:
    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ValueError, OSError) as e:
    pass
sys.setrecursionlimit(10 ** 6)
print("ok")

#: main module imported
import __main__
x = 5
print(__main__.x, __main__.__name__)

#: mmap anonymous
import mmap
m = mmap.mmap(-1, 4096)
m.write(b"hello")
m.seek(0)
print(m.read(5))

#: umask
import os
os.umask(0o77)
print(oct(os.umask(0)))

#: socket made
import socket
try:
    s = socket.socket()
    s.close()
except OSError:
    pass
print("ok")

#: urllib tried
import urllib.request
try:
    urllib.request.urlopen("http://127.0.0.1:9/", timeout=0.2)
except OSError:
    print("no network")

#: help
try:
    help
    print("there")
except NameError:
    print("none")

#: annotations of the main module
x: int = 1
y: "undefined"
print(__annotations__)

#: dataclasses
from dataclasses import dataclass, field, asdict, replace
@dataclass(order=True)
class P:
    x: int
    y: list = field(default_factory=list, compare=False)
print(sorted([P(2), P(1, [5])]), asdict(P(1)), replace(P(1), x=3), P(1) == P(1))

#: __builtins__
print(type(__builtins__).__name__, __builtins__.len([1, 2]))
__builtins__.double = lambda x: x * 2
print(double(4))

#: source of a function
import inspect
def f(x):
    return x + 1
print(inspect.getsource(f))

#: module of classes and functions
class A: pass
def f(): pass
print(A.__module__, f.__module__, A.__qualname__, repr(A), (lambda: 0).__qualname__)

#: enum's pickle
import pickle, enum
class C(enum.Enum):
    A = 1
print(pickle.loads(pickle.dumps(C.A)) is C.A)

#: traceback as text
import traceback
def f(): 1 / 0
try:
    f()
except Exception:
    print([line.split('"')[-1].strip() if '"' in line else line for line in traceback.format_exc().splitlines() if "^" not in line and "~" not in line])

#: references of main
import sys, gc
a = []
print(any(x is globals() for x in gc.get_referrers(a)))

#: objects seen by gc
import gc
class A: pass
a = A()
print(sum(isinstance(x, A) for x in gc.get_objects()), a is not None)

#: recursion limit left
import sys
def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
print(depth())

#: written and read back
with open("x.txt", "w") as f:
    f.write("hello\n")
print(open("x.txt").read())

#: written and never flushed
f = open("x.txt", "w")
f.write("hello\n")
print("end")

#: TemporaryDirectory at the end
import tempfile, os
d = tempfile.TemporaryDirectory()
open(os.path.join(d.name, "x"), "w").close()
print(os.listdir(d.name))

#: own module written and imported
import sys
with open("helper.py", "w") as f: f.write("x = 5\n")
sys.path.insert(0, ".")
import helper
print(helper.x)

#: file with del
class A:
    def __init__(self): self.f = open("x", "w")
    def __del__(self): self.f.close(); print("closed")
a = A()

#: sqlite3 file
import sqlite3
db = sqlite3.connect("x.db")
db.execute("create table t (x)")
db.execute("insert into t values (1)")
db.commit()
db.close()
print(sqlite3.connect("x.db").execute("select * from t").fetchall())

#: devices
print(open("/dev/zero", "rb").read(3), len(open("/dev/urandom", "rb").read(4)), open("/dev/null").read() == "")

#: is a directory
open("/proc")
"""
