"""How programs end by themselves: every kind of exit status, signals, aborts."""

TEXT = r"""
#: None
import sys
sys.exit(None)

#: nothing
import sys
sys.exit()

#: 0
import sys
print("x")
sys.exit(0)

#: 1
import sys
sys.exit(1)

#: 255
import sys
sys.exit(255)

#: 256
import sys
sys.exit(256)

#: 1000
import sys
sys.exit(1000)

#: minus one
import sys
sys.exit(-1)

#: minus 256
import sys
sys.exit(-256)

#: huge
import sys
sys.exit(10 ** 30)

#: huge and negative
import sys
sys.exit(-10 ** 30)

#: 2 to the 31
import sys
sys.exit(2 ** 31)

#: 2 to the 32 plus 5
import sys
sys.exit(2 ** 32 + 5)

#: 2 to the 63
import sys
sys.exit(2 ** 63)

#: 2 to the 64
import sys
sys.exit(2 ** 64)

#: -2 to the 63 minus one
import sys
sys.exit(-2 ** 63 - 1)

#: -2 to the 31
import sys
sys.exit(-2 ** 31)

#: True
import sys
sys.exit(True)

#: False
import sys
sys.exit(False)

#: text
import sys
sys.exit("message")

#: empty text
import sys
sys.exit("")

#: float
import sys
sys.exit(2.0)

#: zero float
import sys
sys.exit(0.0)

#: tuple
import sys
sys.exit((1, 2))

#: empty tuple
import sys
sys.exit(())

#: list
import sys
sys.exit([0])

#: bytes
import sys
sys.exit(b"bytes")

#: object with __str__
import sys
class A:
    def __str__(self): return "I am A"
sys.exit(A())

#: object whose __str__ raises
import sys
class A:
    def __str__(self): raise ValueError("v")
sys.exit(A())

#: object with __index__
import sys
class A:
    def __index__(self): return 3
sys.exit(A())

#: int subclass
import sys
class Code(int):
    def __str__(self): return "code"
sys.exit(Code(4))

#: IntEnum
import sys, enum
class Code(enum.IntEnum):
    BAD = 6
sys.exit(Code.BAD)

#: surrogate text
import sys
sys.exit("\ud800")

#: result of main
import sys
def main():
    print("main")
    return 0
if __name__ == "__main__":
    sys.exit(main())

#: result of main is None
import sys
def main(): print("main")
sys.exit(main())

#: result of print
import sys
sys.exit(print("answer"))

#: raise SystemExit
raise SystemExit

#: raise SystemExit with a status
raise SystemExit(3)

#: raise SystemExit with two arguments
raise SystemExit(1, 2)

#: raise SystemExit with another SystemExit
raise SystemExit(SystemExit(3))

#: SystemExit with its code changed
e = SystemExit(3)
e.code = 4
raise e

#: SystemExit with its code deleted
e = SystemExit(3)
e.code = None
raise e

#: SystemExit subclass
class Stop(SystemExit): pass
raise Stop(7)

#: SystemExit subclass with a code property
class Stop(SystemExit):
    @property
    def code(self): return 8
raise Stop(7)

#: SystemExit from an exception
try:
    1 / 0
except ZeroDivisionError as e:
    raise SystemExit(2) from e

#: SystemExit in a group
raise BaseExceptionGroup("g", [SystemExit(3)])

#: finally replaces the status
import sys
try:
    sys.exit(1)
finally:
    sys.exit(2)

#: finally prints
import sys
try:
    sys.exit(1)
finally:
    print("finally")

#: finally returns
import sys
def f():
    try:
        sys.exit(1)
    finally:
        return 5
print(f())

#: finally raises
import sys
try:
    sys.exit(1)
finally:
    raise ValueError("v")

#: caught
import sys
try:
    sys.exit(1)
except SystemExit as e:
    print("caught", e.code)

#: not caught by Exception
import sys
try:
    sys.exit(1)
except Exception:
    print("not here")

#: bare except
import sys
try:
    sys.exit(1)
except:
    print("here")

#: in a generator
import sys
def g():
    yield 1
    sys.exit(4)
for x in g():
    print(x)

#: in a comprehension
import sys
[sys.exit(x) if x > 2 else print(x) for x in range(5)]

#: in a thread
import sys, threading
t = threading.Thread(target=sys.exit, args=(3,))
t.start()
t.join()
print("main")

#: in __del__
import sys
class A:
    def __del__(self): sys.exit(3)
a = A()
del a
print("main")

#: in a sort key
import sys
sorted([3, 1], key=lambda x: sys.exit(6))

#: in a module level lambda of map
import sys
list(map(lambda x: sys.exit(x), [0]))

#: in a class body
import sys
class A:
    print("body")
    sys.exit(2)

#: in exec
exec("import sys; sys.exit(9)")

#: exit builtin
print("x")
exit()

#: quit builtin
print("x")
quit()

#: exit builtin with a status
print("x")
exit(3)

#: quit builtin with text
quit("text")

#: exit builtin unless there is none
try:
    exit
except NameError:
    import sys
    exit = sys.exit
print("x")
exit(2)

#: exit from sys
from sys import exit
print("x")
exit(0)

#: star import of sys
from sys import *
stdout.write("x\n")
exit(1)
"""
