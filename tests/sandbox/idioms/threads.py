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
"""
