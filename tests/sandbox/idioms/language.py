# ruff: noqa: E501
"""The language itself."""

TEXT = r"""
#: match on sequences
def f(x):
    match x:
        case []: return "empty"
        case [a]: return f"one {a}"
        case [a, *rest] if rest: return f"{a} and {len(rest)}"
        case {"k": v, **more}: return f"dict {v} {more}"
        case str() | bytes(): return "text"
        case int(n): return f"int {n}"
        case _: return "other"
for x in ([], [1], [1, 2, 3], {"k": 1, "z": 2}, "s", b"", 5, 2.5): print(f(x))

#: match on classes
from dataclasses import dataclass
@dataclass
class P:
    x: int
    y: int
match P(1, 2):
    case P(x=1, y=b): print("one", b)

#: walrus
a = [1, 5, 2, 8]
print([y for x in a if (y := x * 2) > 4], (n := len(a)), n)

#: unpacking
a, *b, (c, d) = 1, 2, 3, (4, 5)
print(a, b, c, d, [*range(3), *"ab"], {**{"x": 1}, "y": 2})

#: comprehensions
print({k: v for k, v in zip("ab", (1, 2))}, {x % 3 for x in range(9)}, [(i, j) for i in range(3) for j in range(i)], sum(x for x in range(5)))

#: f-strings
x, w = 3.14159, 10
print(f"{x:{w}.2f}|{x=}|{x!r:>10}|{{}}|{'a' if x > 3 else 'b'}|{w:b}|{w:,}|{1e6:g}")

#: dataclasses
from dataclasses import dataclass, field, asdict, replace
@dataclass(order=True)
class P:
    x: int
    y: list = field(default_factory=list, compare=False)
print(sorted([P(2), P(1, [5])]), asdict(P(1)), replace(P(1), x=3), P(1) == P(1))

#: dataclass with slots
from dataclasses import dataclass
@dataclass(slots=True, frozen=True, kw_only=True)
class P:
    x: int = 0
print(P(x=1), hash(P(x=1)) == hash(P(x=1)))

#: enum
from enum import Enum, IntEnum, Flag, auto, StrEnum
class C(Enum):
    RED = 1
    BLUE = auto()
class F(Flag):
    A = auto()
    B = auto()
class S(StrEnum):
    X = auto()
print(C.RED, C["BLUE"].value, list(C), F.A | F.B, S.X, C(1).name)

#: typing
from typing import Optional, List, NamedTuple, TypedDict, Protocol, Generic, TypeVar, Callable, Union, get_type_hints, Literal
T = TypeVar("T")
class Stack(Generic[T]):
    def __init__(self) -> None: self.items: List[T] = []
    def push(self, x: T) -> None: self.items.append(x)
class N(NamedTuple):
    x: int
    y: str = "d"
def f(a: Optional[int], b: "List[str]") -> Union[int, None]: ...
s = Stack[int]()
s.push(1)
print(s.items, N(1), get_type_hints(f), int | None)

#: annotations of the main module
x: int = 1
y: "undefined"
print(__annotations__)

#: annotations evaluated
def f(a: print("evaluated")): pass
print(f.__annotations__)

#: future annotations
from __future__ import annotations
def f(a: not_defined) -> neither: ...
class Node:
    def next(self) -> Node: ...
print(f.__annotations__)

#: metaclass
class Meta(type):
    def __new__(m, name, bases, ns):
        ns["tag"] = name.lower()
        return super().__new__(m, name, bases, ns)
    def __call__(cls, *a):
        print("make", cls.__name__)
        return super().__call__(*a)
class A(metaclass=Meta): pass
print(A().tag)

#: descriptors
class D:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, kind=None): return getattr(obj, self.name, 0)
    def __set__(self, obj, v): setattr(obj, self.name, v * 2)
class A:
    x = D()
a = A()
a.x = 5
print(a.x, a.__dict__)

#: slots
class A:
    __slots__ = ("x",)
a = A()
a.x = 1
try:
    a.y = 2
except AttributeError as e:
    print(e)

#: properties and class methods
class A:
    count = 0
    def __init__(self): A.count += 1
    @property
    def p(self): return 5
    @p.setter
    def p(self, v): print("set", v)
    @classmethod
    def c(cls): return cls.count
    @staticmethod
    def s(): return "s"
a = A()
a.p = 3
print(a.p, A.c(), A.s())

#: operators
class V:
    def __init__(self, *a): self.a = a
    def __add__(self, o): return V(*(x + y for x, y in zip(self.a, o.a)))
    def __mul__(self, k): return V(*(x * k for x in self.a))
    __rmul__ = __mul__
    def __matmul__(self, o): return sum(x * y for x, y in zip(self.a, o.a))
    def __eq__(self, o): return self.a == o.a
    def __lt__(self, o): return self.a < o.a
    def __hash__(self): return hash(self.a)
    def __repr__(self): return f"V{self.a}"
    def __getitem__(self, i): return self.a[i]
    def __len__(self): return len(self.a)
    def __bool__(self): return any(self.a)
    def __contains__(self, x): return x in self.a
    def __call__(self): return "called"
    def __neg__(self): return self * -1
v = V(1, 2)
print(v + v, 3 * v, v @ v, v < V(2, 0), -v, v[1:], len(v), bool(V(0)), 2 in v, v(), {v: 1}[V(1, 2)], list(v), max(v))

#: inheritance
class A:
    def f(self): return ["A"]
class B(A):
    def f(self): return ["B"] + super().f()
class C(A):
    def f(self): return ["C"] + super().f()
class D(B, C):
    def f(self): return ["D"] + super().f()
print(D().f(), [k.__name__ for k in D.__mro__])

#: iterators and generators
class R:
    def __init__(self, n): self.n = n
    def __iter__(self):
        yield from range(self.n)
        return "done"
def g():
    r = yield from R(3).__iter__()
    yield r
x = g()
print(list(x), next(x, "default"))

#: generator send and throw
def g():
    total = 0
    while True:
        try:
            x = yield total
            total += x
        except ValueError:
            total = 0
x = g()
next(x)
print(x.send(5), x.send(6), x.throw(ValueError), x.send(1))
x.close()

#: closures
def counter():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    return inc
c = counter()
print(c(), c(), [f() for f in [lambda i=i: i for i in range(3)]], [f() for f in [lambda: i for i in range(3)]])

#: decorators
import functools
def twice(f):
    @functools.wraps(f)
    def w(*a, **k): return f(*a, **k) * 2
    return w
@twice
def f(x, /, y, *, z=1):
    "doc"
    return x + y + z
print(f(1, 2, z=3), f.__name__, f.__doc__)

#: context managers
from contextlib import contextmanager, suppress, closing, nullcontext
@contextmanager
def cm(x):
    print("in", x)
    try: yield x * 2
    except ValueError: print("swallowed")
    finally: print("out")
with cm(1) as a, nullcontext(5) as b:
    print(a, b)
    raise ValueError
with suppress(KeyError): {}[1]

#: loops with else
for i in range(3):
    if i == 5: break
else:
    print("no break")
while True:
    break
else:
    print("never")

#: try in all its parts
def f(x):
    try:
        return 10 // x
    except ZeroDivisionError as e:
        return str(e)
    else:
        return "else"
    finally:
        print("finally", x)
print(f(0), f(5))

#: global and nonlocal names
x = 1
def f():
    global x, new
    x, new = 2, 3
f()
print(x, new)

#: slices
a = list(range(10))
a[2:5] = "xyz"
del a[::3]
print(a, a[::-1], a[-3:], "hello"[1:4:2], slice(1, 5).indices(3))

#: integers
print(7 // -2, -7 % 3, divmod(-7, 2), 2 ** -1, 0b101, 0o17, 0xff, 1_000, int("z", 36), round(2.5), round(-1.5), round(1234, -2), (5).bit_count(), ~5, 5 ^ 3, 1 << 70)

#: floats
print(0.1 + 0.2, 1e16 + 1, float("nan") == float("nan"), 1 / 3, 1e-7, 100000000000000000000.0, 2.0 ** 0.5, (0.1).as_integer_ratio(), (2.5).hex(), float("1e400"))

#: comparisons
print(1 < 2 < 3, [] or "x", not "", None is None, (1, "b") < (1, "c"), True + True, "a" < "B".lower(), {1} < {1, 2})

#: sort
a = ["banana", "Apple", "cherry"]
print(sorted(a), sorted(a, key=str.lower, reverse=True), sorted(range(5), key=lambda x: (x % 2, -x)), a.sort())

#: dictionaries
d = {"a": 1}
d |= {"b": 2}
print(d, d.setdefault("c", []), d.pop("a"), list(d.items()), dict.fromkeys("xy", 0), d.keys() & {"b"}, max(d, key=str))

#: sets
a, b = {1, 2, 3}, {2, 3, 4}
print(a & b, a | b, a - b, a ^ b, a.isdisjoint({9}), frozenset([1]) in {frozenset([1])})

#: builtins
print(list(zip("ab", [1, 2], strict=True)), list(map(pow, [2, 3], [3, 2])), list(filter(None, [0, 1, "", "x"])), any([]), all([]), min("b", "a"), sum([[1], [2]], []), abs(-3), chr(8364), ord("a"), bin(5), list(reversed("abc")), callable(len), isinstance(True, int))

#: zip strict
list(zip([1], [1, 2], strict=True))

#: del of names
x = 1
del x
try: x
except NameError: print("gone")

#: class scope
x = "global"
class A:
    x = "class"
    y = [x for _ in range(1)]
    def f(self): return x
print(A.y, A().f())

#: __init_subclass__ and __class_getitem__
class Base:
    kinds = []
    def __init_subclass__(cls, **k): Base.kinds.append((cls.__name__, k))
    def __class_getitem__(cls, x): return f"{cls.__name__}[{x}]"
class A(Base, tag=1): pass
print(Base.kinds, A[int])

#: __getattr__ of the module
def __getattr__(name): return name.upper()
import __main__
print(__main__.hello)

#: lambda recursion
fact = (lambda f: f(f))(lambda f: lambda n: 1 if n == 0 else n * f(f)(n - 1))
print(fact(20))

#: unicode names
größe, π = 5, 3.14
print(größe * π)

#: semicolons and tabs
if True:
	x = 1; y = 2
	print(x, y)

#: line continuation
x = 1 + \
    2
print(x,
      (1,
       2))

#: docstring and comments only
'''a module'''
# nothing else
print(__doc__)
"""
