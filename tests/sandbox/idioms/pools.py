"""Pools, raw threads and what threads wait for."""

TEXT = r"""
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
