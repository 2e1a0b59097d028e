"""Hooks, traces and warnings that a program sets."""

TEXT = r"""
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
"""
