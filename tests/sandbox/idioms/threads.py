# ruff: noqa: E501
"""Threads, timers and pools that outlive the main program, and templates that solve in a thread."""

TEXT = r"""
#: stack size template
import sys, threading
def main():
    def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
    print(depth(20000))
sys.setrecursionlimit(10 ** 6)
threading.stack_size(2 ** 27)
threading.Thread(target=main).start()

#: stack size template joined
import sys, threading
sys.setrecursionlimit(10 ** 7)
threading.stack_size(1 << 26)
def main():
    n = int(input())
    print(n, *sorted(map(int, input().split())))
t = threading.Thread(target=main)
t.start()
t.join()
print("joined")

#: stack size template with exit inside
import sys, threading
threading.stack_size(1 << 26)
def main():
    print("x")
    sys.exit(3)
t = threading.Thread(target=main)
t.start()
t.join()

#: stack size template with an error inside
import sys, threading
threading.stack_size(1 << 26)
def main():
    print("x")
    1 / 0
t = threading.Thread(target=main)
t.start()
t.join()

#: deep recursion in a thread
import sys, threading
sys.setrecursionlimit(1 << 25)
threading.stack_size(1 << 27)
def f(n): return n if n < 2 else f(n - 1) + 1
def main(): print(f(50000))
threading.Thread(target=main).start()

#: later print
import threading, time
def f():
    time.sleep(0.05)
    print("later")
threading.Thread(target=f).start()
print("first")

#: later print and an error now
import threading, time
def f():
    time.sleep(0.05)
    print("later")
threading.Thread(target=f).start()
raise ValueError("now")

#: later print and sys.exit now
import threading, time, sys
def f():
    time.sleep(0.05)
    print("later")
threading.Thread(target=f).start()
sys.exit(5)

#: later print and os._exit now
import threading, time, os
def f():
    time.sleep(0.05)
    print("later", flush=True)
threading.Thread(target=f).start()
os._exit(5)

#: thread started by a thread
import threading, time
def inner():
    time.sleep(0.05)
    print("inner")
def outer():
    threading.Thread(target=inner).start()
    print("outer")
threading.Thread(target=outer).start()

#: thread uses globals late
import threading, time
table = {"a": 1}
def f():
    time.sleep(0.05)
    print(table, len(table))
threading.Thread(target=f).start()

#: thread waits for the main thread
import threading
def f():
    threading.main_thread().join()
    print("main has ended")
threading.Thread(target=f).start()
print("main ends")

#: thread waits for the main thread and for __del__
import threading
class A:
    def __del__(self): print("del")
a = A()
def f():
    threading.main_thread().join()
    print("main has ended")
threading.Thread(target=f).start()

#: daemon sleeping
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("end")

#: daemon busy
import threading
def f():
    while True:
        pass
threading.Thread(target=f, daemon=True).start()
print("end")

#: daemon waiting on a lock
import threading
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
print("end")

#: daemon waiting on a queue
import threading, queue
q = queue.Queue()
def worker():
    while True:
        item = q.get()
        print("item", item)
        q.task_done()
threading.Thread(target=worker, daemon=True).start()
for i in range(5):
    q.put(i)
q.join()
print("all done")

#: daemons many
import threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(threading.active_count())

#: daemon reading stdin
import sys, threading, time
got = []
def f():
    got.append(sys.stdin.readline())
    time.sleep(60)
threading.Thread(target=f, daemon=True).start()
while not got:
    time.sleep(0.001)
print(got)

#: daemon and __del__
import threading, time
class A:
    def __del__(self): print("del")
a = A()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

#: daemon in a with block of a lock
import threading, time
lock = threading.Lock()
def f():
    with lock:
        time.sleep(60)
threading.Thread(target=f, daemon=True).start()
print("end")

#: sentinel queue
import threading, queue
q, out = queue.Queue(), []
def worker():
    while (item := q.get()) is not None:
        out.append(item * item)
threads = [threading.Thread(target=worker) for _ in range(3)]
for t in threads: t.start()
for i in range(10): q.put(i)
for t in threads: q.put(None)
for t in threads: t.join()
print(sorted(out))

#: Timer
import threading
threading.Timer(0.05, print, ["tick"]).start()
print("set")

#: Timer cancelled
import threading
t = threading.Timer(60, print, ["tick"])
t.start()
t.cancel()
print("cancelled")

#: Timer daemon
import threading
t = threading.Timer(60, print, ["tick"])
t.daemon = True
t.start()
print("end")

#: Timer that kills
import threading, os
def kill():
    print("timeout", flush=True)
    os._exit(3)
threading.Timer(0.05, kill).start()
while True: pass

#: executor left open
from concurrent.futures import ThreadPoolExecutor
import time
pool = ThreadPoolExecutor(2)
pool.submit(lambda: (time.sleep(0.05), print("done")))
print("submitted")

#: executor left open with many jobs
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
for i in range(20):
    pool.submit(print, i)

#: executor shutdown without waiting
from concurrent.futures import ThreadPoolExecutor
import time
pool = ThreadPoolExecutor(1)
pool.submit(time.sleep, 0.05)
pool.submit(print, "second")
pool.shutdown(wait=False)
print("end")

#: executor cancel_futures
from concurrent.futures import ThreadPoolExecutor
import time
pool = ThreadPoolExecutor(1)
pool.submit(time.sleep, 0.1)
pool.submit(print, "second")
pool.shutdown(wait=False, cancel_futures=True)
print("end")

#: executor map
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(lambda x: x ** 3, range(10))))

#: executor with an error
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    future = pool.submit(int, "x")
print(type(future.exception()).__name__)
future.result()

#: executor and as_completed
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor(4) as pool:
    futures = {pool.submit(pow, 2, n): n for n in range(6)}
    print(sorted((futures[f], f.result()) for f in as_completed(futures)))

#: submit in an exit handler
import atexit
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
pool.submit(print, "early").result()
@atexit.register
def f():
    try:
        pool.submit(print, "late")
    except RuntimeError as e:
        print("refused", e)

#: threading._register_atexit
import threading
threading._register_atexit(print, "threads end")
import atexit
atexit.register(print, "exit")
print("main")

#: start_new_thread left
import _thread, time
_thread.start_new_thread(time.sleep, (60,))
time.sleep(0.01)
print("end")

#: start_new_thread with a lock
import _thread
lock = _thread.allocate_lock()
lock.acquire()
def f(x):
    print("thread", x)
    lock.release()
_thread.start_new_thread(f, (1,))
lock.acquire()
print("main")

#: start_new_thread raising
import _thread, time
def f():
    raise ValueError("v")
_thread.start_new_thread(f, ())
time.sleep(0.05)
print("end")

#: interrupt_main
import _thread, threading, time
threading.Timer(0.05, _thread.interrupt_main).start()
try:
    time.sleep(0.5)
    for _ in range(100): time.sleep(0.01)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")

#: barrier
import threading
out, b = [], threading.Barrier(4)
def f(i):
    b.wait()
    out.append(i)
ts = [threading.Thread(target=f, args=(i,)) for i in range(4)]
[t.start() for t in ts]
[t.join() for t in ts]
print(sorted(out))

#: condition and event
import threading
e, c, out = threading.Event(), threading.Condition(), []
def f():
    e.wait()
    with c:
        out.append("ready")
        c.notify_all()
threading.Thread(target=f).start()
e.set()
with c:
    c.wait_for(lambda: out)
print(out)

#: semaphore and lock
import threading
s, lock, total = threading.Semaphore(2), threading.Lock(), 0
def f():
    global total
    for _ in range(100):
        with s, lock:
            total += 1
ts = [threading.Thread(target=f) for _ in range(5)]
for t in ts: t.start()
for t in ts: t.join()
print(total)

#: fifty threads alive at once
import threading
go = threading.Event()
ts = [threading.Thread(target=go.wait) for _ in range(50)]
try:
    for t in ts: t.start()
    print(threading.active_count())
finally:
    go.set()
for t in ts: t.join()

#: twenty threads alive at once
import threading
go = threading.Event()
ts = [threading.Thread(target=go.wait) for _ in range(20)]
try:
    for t in ts: t.start()
    print(threading.active_count())
finally:
    go.set()

#: sixty-four threads alive at once
import threading
go = threading.Event()
ts = [threading.Thread(target=go.wait) for _ in range(63)]
# the main thread is the sixty-fourth
try:
    for t in ts: t.start()
    print(threading.active_count())
finally:
    go.set()

#: two hundred threads in turn
import threading
total = []
for i in range(200):
    t = threading.Thread(target=total.append, args=(i,))
    t.start()
    t.join()
print(sum(total))

#: Thread subclass
import threading
class Worker(threading.Thread):
    def __init__(self, n):
        super().__init__()
        self.n = n
    def run(self): self.result = self.n ** 2
ws = [Worker(i) for i in range(4)]
for w in ws: w.start()
for w in ws: w.join()
print([w.result for w in ws])

#: names of threads
import threading
print(threading.current_thread().name, threading.main_thread().name)
threading.Thread(target=lambda: print(threading.current_thread().name)).start()

#: thread local
import threading
local = threading.local()
local.x = 1
def f():
    print(hasattr(local, "x"))
t = threading.Thread(target=f)
t.start()
t.join()
print(local.x)

#: enumerate at exit
import atexit, threading
atexit.register(lambda: print([t.name for t in threading.enumerate()]))
print("main")

#: main thread is dead in a late thread
import threading
def f():
    threading.main_thread().join()
    print(threading.main_thread().is_alive())
threading.Thread(target=f).start()

#: stdout replaced by a late thread
import sys, io, threading, time
def f():
    time.sleep(0.05)
    sys.stdout = io.StringIO()
    print("lost")
threading.Thread(target=f).start()
print("kept")

#: handlers registered by a late thread
import atexit, threading, time
def f():
    time.sleep(0.05)
    atexit.register(print, "handler")
threading.Thread(target=f).start()
print("main")

#: SystemExit in a late thread
import threading, time, sys
def f():
    time.sleep(0.05)
    print("thread")
    sys.exit(9)
threading.Thread(target=f).start()

#: sched
import sched, time
s = sched.scheduler(time.monotonic, time.sleep)
s.enter(0.02, 1, print, ("second",))
s.enter(0.01, 1, print, ("first",))
s.run()
"""
