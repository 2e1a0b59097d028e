# ruff: noqa: E501
"""Signals, timers and forked processes."""

TEXT = r"""
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
