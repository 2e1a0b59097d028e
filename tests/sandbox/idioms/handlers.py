"""Exit handlers, and hooks of the interpreter."""

TEXT = r"""
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

#: atexit unregistered inside a handler
import atexit
def f(): print("f")
atexit.register(f)
atexit.register(atexit.unregister, f)

#: atexit run by hand
import atexit
atexit.register(print, "x")
atexit._run_exitfuncs()
print("end", atexit._ncallbacks())

#: atexit raises twice
import atexit
atexit.register(lambda: [][0])
atexit.register(print, "between")
atexit.register(lambda: 1 / 0)

#: atexit sys.exit after sys.exit
import atexit, sys
atexit.register(sys.exit, 7)
sys.exit(3)

#: atexit os._exit unflushed
import atexit, os
atexit.register(os._exit, 0)
print("lost")

#: atexit KeyboardInterrupt
import atexit
def f(): raise KeyboardInterrupt
atexit.register(print, "still")
atexit.register(f)

#: atexit sees the exception
import atexit, sys
atexit.register(lambda: print(getattr(sys, "last_type", None)))
int("x")

#: atexit holds the last reference
import atexit
class A:
    def __del__(self): print("del")
atexit.register(lambda a: print("handler"), A())
print("end")

#: atexit replaces stdout
import atexit, io, sys
@atexit.register
def f():
    sys.stdout.flush()
    sys.stdout = io.StringIO()
    print("lost")
print("kept")

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

#: unraisablehook for atexit
import sys, atexit
sys.unraisablehook = lambda u: print("unraisable", u.exc_type.__name__)
atexit.register(lambda: 1 / 0)

#: setprofile printing at the end
import sys, atexit
def last(): print("last")
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "last":
        print("profiled")
atexit.register(last)
sys.setprofile(profile)

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

#: warnings of invalid escapes
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    eval("'\\d'")
print(len(seen))
"""
