"""Several things at the end at once, whose order shows."""

TEXT = r"""
#: thread, handler, del, unflushed
import atexit, threading, time
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
def f():
    time.sleep(0.05)
    print("thread")
threading.Thread(target=f).start()
print("main", end=" ")

#: thread, handler, del, replaced stdout
import atexit, threading, time, sys, io
class A:
    def __del__(self): sys.__stdout__.write("del\n")
a = A()
sys.stdout = io.StringIO()
atexit.register(lambda: sys.__stdout__.write(sys.stdout.getvalue()))
def f():
    time.sleep(0.05)
    print("thread")
threading.Thread(target=f).start()
print("main")

#: handler, finalize, del, generator
import atexit, weakref
class A:
    def __del__(self): print("del")
def g():
    try:
        yield
    finally:
        print("generator")
a, x = A(), g()
next(x)
atexit.register(print, "handler 1")
weakref.finalize(a, print, "finalize")
atexit.register(print, "handler 2")

#: finalize, handler
import atexit, weakref
class A: pass
a = A()
weakref.finalize(a, print, "finalize")
atexit.register(print, "handler")

#: del, cycle, weakref callback
import weakref
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("del", self.n)
a, c = A("global"), A("cycle")
c.me = c
r = weakref.ref(a, lambda _: print("callback"))
del c

#: error, handler, del
import atexit
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
print("main")
[].pop()

#: error, hook, handler, del
import atexit, sys
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
sys.excepthook = lambda *x: print("hook")
print("main")
[].pop()

#: exit, thread, handler
import atexit, sys, threading, time
atexit.register(print, "handler")
def f():
    time.sleep(0.05)
    print("thread")
threading.Thread(target=f).start()
sys.exit(2)

#: own buffer and stdout
out = open(1, "w", closefd=False)
class A:
    def __del__(self): print("del")
a = A()
out.write("own\n")
print("stdout")

#: own buffer, handler, stdout
import atexit
out = open(1, "w", closefd=False)
atexit.register(lambda: out.write("handler\n"))
out.write("own\n")
print("stdout")

#: own buffer in a cycle with del
class A:
    def __init__(self):
        self.out, self.me = open(1, "w", closefd=False), self
    def __del__(self):
        try:
            self.out.write("del\n")
        except ValueError:
            print("closed already")
a = A()
a.out.write("own\n")

#: own buffer closed in del
class A:
    def __init__(self): self.out = open(1, "w", closefd=False)
    def __del__(self): self.out.close(); print("closed")
a = A()
a.out.write("own\n")

#: C, Python and own buffers
import ctypes
ctypes.CDLL(None).printf(b"C\n")
out = open(1, "wb", closefd=False)
out.write(b"own\n")
print("stdout")

#: C buffer and a handler
import atexit, ctypes
libc = ctypes.CDLL(None)
atexit.register(lambda: libc.printf(b"handler in C\n"))
libc.printf(b"C\n")
print("stdout")

#: C buffer and del
import ctypes
libc = ctypes.CDLL(None)
class A:
    def __del__(self): libc.puts(b"del in C")
a = A()
print("stdout")

#: stdout closed by a handler and del prints
import atexit, sys
class A:
    def __del__(self): print("del")
a = A()
atexit.register(sys.stdout.close)
print("main")

#: os.close 1 by a handler
import atexit, os
atexit.register(os.close, 1)
print("main")

#: os.close 1 by del
import os
class A:
    def __del__(self): os.close(1)
a = A()
print("main")

#: handler that flushes and closes descriptor 1
import atexit, os, sys
def f():
    sys.stdout.flush()
    os.close(1)
atexit.register(f)
print("main")

#: sys.exit in a handler, thread and del
import atexit, sys, threading, time
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "first registered")
atexit.register(sys.exit, 3)
threading.Thread(target=lambda: (time.sleep(0.03), print("thread"))).start()

#: os._exit in del
import os
class A:
    def __del__(self): os._exit(3)
a = A()
print("lost")

#: os._exit in a cycle's del
import os
class A:
    def __del__(self):
        print("flushed", flush=True)
        os._exit(3)
a = A()
a.me = a
print("main")

#: signal in del
import os, signal
class A:
    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)
a = A()
print("lost?")

#: daemon, handler, del, own buffer
import atexit, threading, time
class A:
    def __del__(self): print("del")
a = A()
out = open(1, "w", closefd=False)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
atexit.register(print, "handler")
out.write("own\n")
print("main")

#: executor, handler, finalize
import atexit, time, weakref
from concurrent.futures import ThreadPoolExecutor
class A: pass
a = A()
atexit.register(print, "handler")
weakref.finalize(a, print, "finalize")
ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.03), print("job")))
print("main")

#: generator, exit stack, handler, error
import atexit
from contextlib import ExitStack
def g():
    with ExitStack() as stack:
        stack.callback(print, "stack")
        yield
x = g()
next(x)
atexit.register(print, "handler")
raise KeyError("k")

#: stdout wrapped over the buffer, handler, del
import atexit, io, sys
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
print("main")

#: stdout only write, handler, del
import atexit, sys
class Out:
    def __init__(self, real): self.real = real
    def write(self, s): self.real.write(s.upper())
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
sys.stdout = Out(sys.stdout)
print("main")

#: stdout collected and joined, thread
import atexit, os, sys, threading, time
class Out:
    parts = []
    def write(self, s): self.parts.append(s)
    def flush(self): pass
sys.stdout = Out()
atexit.register(lambda: os.write(1, "".join(Out.parts).encode()))
threading.Thread(target=lambda: (time.sleep(0.03), print("thread"))).start()
print("main")

#: settrace, handler, del, error
import atexit, sys
class A:
    def __del__(self): print("del")
a = A()
atexit.register(print, "handler")
sys.settrace(lambda *x: None)
{}[1]

#: type of globals in del
class A:
    def __del__(self): print(x, y, f is None, A is None)
x = 1
a = A()
y = 2
def f(): pass

#: modules in a cycle's del
import collections, heapq
class A:
    def __init__(self): self.me = self
    def __del__(self):
        h = [3, 1, 2]
        heapq.heapify(h)
        print(collections.Counter("aab").most_common(1), heapq.heappop(h))
a = A()

#: lru_cache of a method
from functools import lru_cache
class S:
    @lru_cache(None)
    def f(self, n): return n if n < 2 else self.f(n - 1) + self.f(n - 2)
    def __del__(self): print("del")
s = S()
print(s.f(50))

#: segment tree with parents and del
class Node:
    count = 0
    def __init__(self, parent=None):
        self.parent, self.children = parent, []
        Node.count += 1
        if parent: parent.children.append(self)
    def __del__(self):
        Node.count -= 1
        if Node.count == 0: print("all gone")
root = Node()
for _ in range(3):
    for _ in range(3):
        Node(Node(root))

#: exec namespace with del
ns = {}
exec("class A:\n    def __del__(self): print('del in exec')\na = A()", ns)
print("main")

#: module made by hand with del
import types
m = types.ModuleType("m")
exec("class A:\n    def __del__(self): print('del in m')\na = A()", m.__dict__)
print("main")

#: del replaces stdout
import sys, io
class A:
    def __del__(self):
        sys.stdout = io.StringIO()
        print("lost")
a = A()
print("kept")

#: del writes to a closed own buffer
class A:
    def __init__(self, out): self.out = out
    def __del__(self):
        self.out.write("del\n")
with open(1, "w", closefd=False) as out:
    a = A(out)
    out.write("main\n")

#: logging at exit
import logging, sys, atexit
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger()
atexit.register(log.info, "handler")
class A:
    def __del__(self): log.info("del")
a = A()
log.info("main")

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
