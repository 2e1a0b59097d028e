"""Exit handlers, hooks, traces, signals, warnings and limits that a program sets."""

TEXT = r"""
#: atexit order
import atexit
for i in range(3):
    atexit.register(print, "handler", i)
print("main")

#: atexit decorator
import atexit
@atexit.register
def bye():
    print("bye")

#: atexit registered in a handler
import atexit
def outer():
    print("outer")
    atexit.register(print, "inner")
atexit.register(outer)

#: atexit registered in a handler of a handler
import atexit
def a():
    print("a")
    atexit.register(b)
def b():
    print("b")
    atexit.register(print, "c")
atexit.register(print, "first registered")
atexit.register(a)

#: atexit unregistered
import atexit
def f(): print("f")
atexit.register(f)
atexit.register(print, "kept")
atexit.register(f)
atexit.unregister(f)

#: atexit unregistered inside a handler
import atexit
def f(): print("f")
atexit.register(f)
atexit.register(atexit.unregister, f)

#: atexit cleared
import atexit
atexit.register(print, "x")
atexit._clear()
print("end")

#: atexit run by hand
import atexit
atexit.register(print, "x")
atexit._run_exitfuncs()
print("end", atexit._ncallbacks())

#: atexit raises
import atexit
atexit.register(print, "still")
atexit.register(lambda: 1 / 0)
print("end")

#: atexit raises twice
import atexit
atexit.register(lambda: [][0])
atexit.register(print, "between")
atexit.register(lambda: 1 / 0)

#: atexit sys.exit
import atexit, sys
atexit.register(sys.exit, 7)
print("end")

#: atexit sys.exit text
import atexit, sys
atexit.register(print, "after")
atexit.register(sys.exit, "text")

#: atexit sys.exit after sys.exit
import atexit, sys
atexit.register(sys.exit, 7)
sys.exit(3)

#: atexit os._exit
import atexit, os
def f():
    print("flushed", flush=True)
    os._exit(6)
atexit.register(print, "not reached")
atexit.register(f)

#: atexit os._exit unflushed
import atexit, os
atexit.register(os._exit, 0)
print("lost")

#: atexit KeyboardInterrupt
import atexit
def f(): raise KeyboardInterrupt
atexit.register(print, "still")
atexit.register(f)

#: atexit after an exception
import atexit
atexit.register(print, "bye")
raise ValueError("v")

#: atexit sees the exception
import atexit, sys
atexit.register(lambda: print(getattr(sys, "last_type", None)))
int("x")

#: atexit prints with arguments
import atexit
atexit.register(print, "a", "b", sep="-", end="!\n")

#: atexit with a method of an object
import atexit
class App:
    def __init__(self): self.log = []; atexit.register(self.close)
    def close(self): print(self.log)
    def __del__(self): print("del")
app = App()
app.log.append(1)

#: atexit holds the last reference
import atexit
class A:
    def __del__(self): print("del")
atexit.register(lambda a: print("handler"), A())
print("end")

#: atexit reads input
import atexit
atexit.register(lambda: print("rest:", input()))
print(input())

#: atexit changes globals
import atexit
result = 0
@atexit.register
def f(): print(result)
for i in range(10): result += i

#: atexit replaces stdout
import atexit, io, sys
@atexit.register
def f():
    sys.stdout.flush()
    sys.stdout = io.StringIO()
    print("lost")
print("kept")

#: atexit closes stdout
import atexit, sys
atexit.register(sys.stdout.close)
print("kept")

#: atexit flushes stdout
import atexit, sys
atexit.register(sys.stdout.flush)
sys.stdout.write("kept")

#: atexit imports
import atexit
@atexit.register
def f():
    import colorsys
    print(colorsys.__name__)

#: atexit starts a thread and joins it
import atexit, threading
@atexit.register
def f():
    try:
        t = threading.Thread(target=print, args=("in a thread",))
        t.start()
        t.join()
    except RuntimeError as e:
        print("refused")
"""
