"""Exit statuses, and ends where several things meet."""

TEXT = r"""
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

#: SystemExit with its code changed
e = SystemExit(3)
e.code = 4
raise e

#: SystemExit with its code deleted
e = SystemExit(3)
e.code = None
raise e

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

#: finally returns
import sys
def f():
    try:
        sys.exit(1)
    finally:
        return 5
print(f())

#: not caught by Exception
import sys
try:
    sys.exit(1)
except Exception:
    print("not here")

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

#: type of globals in del
class A:
    def __del__(self): print(x, y, f is None, A is None)
x = 1
a = A()
y = 2
def f(): pass

#: exec namespace with del
ns = {}
exec("class A:\n    def __del__(self): print('del in exec')\na = A()", ns)
print("main")

#: module made by hand with del
import types
m = types.ModuleType("m")
exec("class A:\n    def __del__(self): print('del in m')\na = A()", m.__dict__)
print("main")

#: logging memory handler
import logging, logging.handlers, sys
h = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))
log = logging.getLogger("x")
log.addHandler(h)
log.warning("flushed by logging's own handler")

#: tempfile and del
import tempfile, os
try:
    d = tempfile.TemporaryDirectory()
    print(os.path.isdir(d.name))
except OSError:
    print("refused")
"""
