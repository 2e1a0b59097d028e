# ruff: noqa: E501
"""Signals, forks and sudden deaths."""

TEXT = r"""
#: alarm by default
import signal, time
print("lost?")
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(5)

#: SIGTERM handler exits
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *a: sys.exit(4))
print("x")
os.kill(os.getpid(), signal.SIGTERM)
print("not reached")

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

#: fork with text unflushed
import os
print("once or twice")
pid = os.fork()
if pid:
    os.waitpid(pid, 0)

#: fork in an exit handler
import atexit, os
@atexit.register
def f():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    print("both" if pid else "child")

#: multiprocessing Process
from multiprocessing import Process
def f(x): print("child", x, flush=True)
if __name__ == "__main__":
    p = Process(target=f, args=(1,))
    p.start()
    p.join()
    print("parent", p.exitcode)

#: os._exit with handlers
import os, atexit
atexit.register(print, "not called")
print("kept", flush=True)
os._exit(0)

#: os._exit in a thread
import os, threading
threading.Thread(target=lambda: os._exit(4)).start()
import time
time.sleep(5)

#: os.abort
import os
print("lost")
os.abort()

#: os.killpg of the own group
import os, signal
os.setpgrp()
signal.signal(signal.SIGUSR1, lambda *a: print("got"))
os.killpg(os.getpgrp(), signal.SIGUSR1)
print("x")

#: null pointer
import ctypes
print("lost")
ctypes.string_at(0)

#: KeyboardInterrupt with handlers
import atexit
atexit.register(print, "handler")
class A:
    def __del__(self): print("del")
a = A()
raise KeyboardInterrupt

#: KeyboardInterrupt subclass
class Stop(KeyboardInterrupt): pass
print("x")
raise Stop

#: KeyboardInterrupt with SIGINT ignored
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
raise KeyboardInterrupt

#: CPU limit raised by hand
import resource
print(resource.getrlimit(resource.RLIMIT_CORE)[0] >= -1)
"""
