# ruff: noqa: E501
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

#: excepthook
import sys
def hook(kind, value, trace):
    print("hook:", kind.__name__, value)
sys.excepthook = hook
raise ValueError("v")

#: excepthook exits
import sys, os
def hook(kind, value, trace):
    print("hook")
    sys.exit(5)
sys.excepthook = hook
raise ValueError("v")

#: excepthook os._exit
import sys, os
def hook(kind, value, trace):
    print("hook", flush=True)
    os._exit(0)
sys.excepthook = hook
raise ValueError("v")

#: excepthook raises
import sys
def hook(*a): raise TypeError("in hook")
sys.excepthook = hook
raise ValueError("v")

#: excepthook deleted
import sys
del sys.excepthook
print("x")
raise ValueError("v")

#: excepthook None
import sys
sys.excepthook = None
raise ValueError("v")

#: excepthook silent
import sys
sys.excepthook = lambda *a: None
print("x")
1 / 0

#: excepthook calls the old one
import sys
def hook(*a):
    print("before")
    sys.__excepthook__(*a)
    print("after")
sys.excepthook = hook
{}["k"]

#: excepthook and SystemExit
import sys
sys.excepthook = lambda *a: print("hook")
sys.exit(3)

#: excepthook and KeyboardInterrupt
import sys
sys.excepthook = lambda kind, *a: print(kind.__name__)
raise KeyboardInterrupt

#: unraisablehook
import sys
sys.unraisablehook = lambda u: print("unraisable", u.exc_type.__name__)
class A:
    def __del__(self): raise ValueError("v")
a = A()
del a
print("end")

#: unraisablehook at the end
import sys
sys.unraisablehook = lambda u: print("unraisable", u.exc_type.__name__)
class A:
    def __del__(self): raise ValueError("v")
a = A()

#: unraisablehook for atexit
import sys, atexit
sys.unraisablehook = lambda u: print("unraisable", u.exc_type.__name__)
atexit.register(lambda: 1 / 0)

#: threading.excepthook
import threading
threading.excepthook = lambda args: print("thread hook", args.exc_type.__name__)
t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()

#: settrace left on
import sys
count = 0
def trace(frame, event, arg):
    global count
    if frame.f_code.co_name == "f":
        count += 1
    return trace
sys.settrace(trace)
def f(x):
    y = x + 1
    return y
f(1)
print(count)

#: setprofile left on
import sys
calls = []
def f(): pass
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "f":
        calls.append(1)
sys.setprofile(profile)
f()
f()
print(len(calls))

#: settrace and __del__ at the end
import sys
class A:
    def __del__(self): print("bye")
a = A()
sys.settrace(lambda *x: None)

#: setprofile printing at the end
import sys, atexit
def last(): print("last")
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "last":
        print("profiled")
atexit.register(last)
sys.setprofile(profile)

#: faulthandler
import faulthandler
faulthandler.enable()
print("x")

#: faulthandler dump
import faulthandler, sys
faulthandler.dump_traceback(file=sys.stderr)
print("x")

#: warnings as errors
import warnings
warnings.simplefilter("error")
try:
    warnings.warn("w", DeprecationWarning)
except DeprecationWarning as e:
    print("caught", e)
warnings.warn("uncaught")

#: warnings ignored
import warnings
warnings.filterwarnings("ignore")
warnings.warn("w")
print("x")

#: warnings of invalid escapes
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    eval("'\\d'")
print(len(seen))

#: alarm
import signal, time
def late(number, frame):
    print("alarm", number)
    raise TimeoutError("late")
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True:
        time.sleep(0.01)
except TimeoutError as e:
    print(e)

#: alarm uncaught
import signal, time
def late(number, frame): raise TimeoutError("late")
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
while True:
    time.sleep(0.01)

#: alarm by default
import signal, time
print("lost?")
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(5)

#: alarm set but finished before
import signal
signal.alarm(5)
print("done")

#: signal handler of its own
import os, signal
signal.signal(signal.SIGUSR1, lambda number, frame: print("got", number))
os.kill(os.getpid(), signal.SIGUSR1)
print("end")

#: raise_signal
import signal
signal.signal(signal.SIGTERM, lambda *a: print("term"))
signal.raise_signal(signal.SIGTERM)
print("end")

#: SIGTERM handler exits
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *a: sys.exit(4))
print("x")
os.kill(os.getpid(), signal.SIGTERM)
print("not reached")

#: SIGINT handler
import os, signal
signal.signal(signal.SIGINT, lambda *a: print("int"))
os.kill(os.getpid(), signal.SIGINT)
print("end")

#: SIGINT ignored
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGINT)
print("end")

#: SIGINT caught
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    print("caught")

#: signal at the end in atexit
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))
print("x")

#: getsignal
import signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)

#: signals blocked
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigpending())

#: audit hook
import sys
seen = []
sys.addaudithook(lambda name, args: seen.append(name) if name == "compile" else None)
eval("1 + 1")
print(seen.count("compile") > 0)

#: fork and wait
import os
pid = os.fork()
if pid == 0:
    print("child")
    os._exit(0)
os.waitpid(pid, 0)
print("parent")

#: fork and both end
import os
pid = os.fork()
if pid == 0:
    print("child")
else:
    os.waitpid(pid, 0)
    print("parent")

#: fork with text unflushed
import os
print("once or twice")
pid = os.fork()
if pid:
    os.waitpid(pid, 0)

#: fork and handlers
import atexit, os
atexit.register(print, "handler")
class A:
    def __del__(self): print("del")
a = A()
pid = os.fork()
if pid:
    os.waitpid(pid, 0)

#: fork status
import os, sys
pid = os.fork()
if pid == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

#: fork in an exit handler
import atexit, os
@atexit.register
def f():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    print("both" if pid else "child")

#: fork with pipe
import os
r, w = os.pipe()
if os.fork() == 0:
    os.close(r)
    os.write(w, b"from the child")
    os._exit(0)
os.close(w)
print(os.read(r, 100))
os.wait()

#: multiprocessing pool
from multiprocessing import Pool
def f(x): return x * x
if __name__ == "__main__":
    with Pool(2) as pool:
        print(pool.map(f, range(4)))

#: multiprocessing Process
from multiprocessing import Process
def f(x): print("child", x, flush=True)
if __name__ == "__main__":
    p = Process(target=f, args=(1,))
    p.start()
    p.join()
    print("parent", p.exitcode)
"""
