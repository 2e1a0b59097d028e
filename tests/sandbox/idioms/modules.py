# ruff: noqa: E501
"""Imports of unusual modules, and small facts about the interpreter and the process."""

TEXT = r"""
#: processes imported only
import multiprocessing, subprocess, signal
print(subprocess.PIPE)

#: network imported only
import socket, ssl, http.client, urllib.request, urllib.parse
print(urllib.parse.quote("a b/ü"), urllib.parse.urlparse("http://x/y?z=1").query)

#: files imported only
import tempfile, shutil, glob, fnmatch, filecmp, fileinput
print(fnmatch.filter(["a.py", "b.c"], "*.py"))

#: waiting imported only
import queue, sched, select, selectors, asyncio
print(queue.Queue().empty())

#: terminal imported only
import getpass, cmd, curses.ascii, readline
print(curses.ascii.isdigit("5"))

#: terminal size
import shutil
print(shutil.get_terminal_size())

#: languages imported only
import ast, dis, tokenize, symtable, keyword, opcode
print(keyword.iskeyword("if"), ast.dump(ast.parse("x+1", mode="eval")))

#: tkinter is missing or not
try:
    import tkinter
    print("there")
except ImportError:
    print("missing")

#: numbers and abc
import numbers, abc, collections.abc
print(isinstance(5, numbers.Integral), isinstance([], collections.abc.Sequence))

#: contextvars
import contextvars
v = contextvars.ContextVar("v", default=0)
def f():
    v.set(5)
    return v.get()
print(contextvars.copy_context().run(f), v.get())

#: gc
import gc
print(gc.isenabled(), gc.get_threshold(), gc.collect() >= 0)
gc.disable()
print(gc.isenabled(), gc.get_freeze_count() >= 0)

#: gc counts of fresh objects
import gc
gc.collect()
class A: pass
for _ in range(10):
    a = A()
    a.me = a
del a
print(gc.collect() >= 10, gc.garbage)

#: tracemalloc
import tracemalloc
tracemalloc.start()
x = bytearray(100000)
print(tracemalloc.get_traced_memory()[0] >= 100000)

#: resource
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0)

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

#: platform
import platform
print(platform.python_version(), platform.system(), platform.machine() != "")

#: sysconfig
import sysconfig
print(sysconfig.get_python_version(), sysconfig.get_config_var("prefix") is not None)

#: sys version
import sys
print(sys.version.split()[0], sys.hexversion >> 16, sys.platform, sys.maxunicode, sys.getsizeof([]), sys.executable != 5)

#: sys flags
import sys
print(sys.flags.optimize, sys.flags.debug, sys.flags.hash_randomization, sys.flags.no_site, sys.dont_write_bytecode in (True, False))

#: sys switches
import sys
sys.setswitchinterval(0.01)
print(sys.getswitchinterval(), sys.getrefcount(object()) >= 1, sys.intern("abc") is sys.intern("abc"))

#: sys path is a list
import sys
print(type(sys.path), all(isinstance(p, str) for p in sys.path), "" in sys.path)

#: sys modules
import sys
print("__main__" in sys.modules, "sys" in sys.modules, sys.modules["__main__"].__dict__ is globals())

#: own module imported
import solution

#: main module imported
import __main__
x = 5
print(__main__.x, __main__.__name__)

#: importlib
import importlib
m = importlib.import_module("json.decoder")
importlib.reload(m)
print(m.__name__, importlib.util.find_spec("no_such") if hasattr(importlib, "util") else None)

#: runpy and code
import code, runpy
i = code.InteractiveInterpreter()
i.runsource("print(5)")

#: pkgutil and zipimport
import pkgutil, zipimport
print(len(list(pkgutil.iter_modules())) > 100)

#: this
import this

#: antigravity free
import __hello__

#: ctypes
import ctypes
print(ctypes.sizeof(ctypes.c_long), ctypes.c_uint8(300).value, (ctypes.c_int * 3)(1, 2, 3)[1])

#: ctypes qsort
import ctypes
libc = ctypes.CDLL(None)
a = (ctypes.c_int * 5)(5, 1, 4, 2, 3)
CMP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc.qsort(a, 5, 4, CMP(lambda x, y: x[0] - y[0]))
print(list(a))

#: ctypes without a library name
import ctypes.util
print(ctypes.CDLL("libc.so.6").abs(-5))

#: mmap anonymous
import mmap
m = mmap.mmap(-1, 4096)
m.write(b"hello")
m.seek(0)
print(m.read(5))

#: environment
import os
os.environ["X"] = "1"
print(os.environ["X"], os.getenv("NOPE", "default"), os.environ.get("LANG"), os.environ.get("PYTHONHASHSEED"))

#: user
import os
print(os.getpid() > 0, os.getuid() >= 0, isinstance(os.getcwd(), str), os.cpu_count() > 0, os.name)

#: sched_getaffinity
import os
print(len(os.sched_getaffinity(0)) > 0)

#: nice
import os
print(os.nice(1) >= 0)

#: times
import os, time
print(os.times().user >= 0, time.thread_time() >= 0, time.monotonic() > 0)

#: umask
import os
os.umask(0o77)
print(oct(os.umask(0)))

#: pwd and grp
try:
    import pwd
    pwd.getpwuid(0)
except KeyError:
    pass
print("ok")

#: home
import os
print(bool(os.path.expanduser("~")))

#: socket made
import socket
try:
    s = socket.socket()
    s.close()
except OSError:
    pass
print("ok")

#: socketpair
import socket
a, b = socket.socketpair()
a.sendall(b"hi")
print(b.recv(10))

#: pipe
import os
r, w = os.pipe()
os.write(w, b"hi")
os.close(w)
with os.fdopen(r) as f: print(f.read())

#: pipes of descriptors are numbered from three
import os
r, w = os.pipe()
print(r, w)

#: open descriptors
import os
try:
    print(len(os.listdir("/proc/self/fd")))
except OSError:
    print("?")

#: subprocess tried
import subprocess, sys
try:
    print(subprocess.run(["true"]).returncode)
except OSError as e:
    print("no")

#: os.system tried
import os
print(os.system("true"))

#: subprocess of Python tried
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True, text=True).stdout)

#: urllib tried
import urllib.request
try:
    urllib.request.urlopen("http://127.0.0.1:9/", timeout=0.2)
except OSError:
    print("no network")

#: locale
import locale
locale.setlocale(locale.LC_ALL, "C")
print(locale.localeconv()["decimal_point"], locale.format_string("%d", 1234567, grouping=True))

#: locale of the environment
import locale
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
print(locale.strcoll("a", "b") < 0)

#: gettext
from gettext import gettext as _
print(_("text"))

#: imaginary numpy
try:
    import no_such_numpy as np
except ModuleNotFoundError as e:
    print(e.name)

#: distutils and imp are gone or not
import warnings
warnings.simplefilter("ignore")
try:
    import imp
    print("imp")
except ImportError:
    print("no imp")

#: bdb and pdb
import pdb, bdb
print(pdb.Pdb.__mro__[1].__name__)

#: breakpoint switched off
import os, sys
sys.breakpointhook = lambda *a: print("hook")
breakpoint()

#: help
try:
    help
    print("there")
except NameError:
    print("none")

#: copyright
try:
    print(len(str(copyright)) > 0)
except NameError:
    print("none")
"""
