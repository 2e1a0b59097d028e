"""Threads, pools and coroutines, ended and not."""

TEXT = r"""
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

#: later print and os._exit now
import threading, time, os
def f():
    time.sleep(0.05)
    print("later", flush=True)
threading.Thread(target=f).start()
os._exit(5)

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

#: daemon in a with block of a lock
import threading, time
lock = threading.Lock()
def f():
    with lock:
        time.sleep(60)
threading.Thread(target=f, daemon=True).start()
print("end")

#: executor cancel_futures
from concurrent.futures import ThreadPoolExecutor
import time
pool = ThreadPoolExecutor(1)
pool.submit(time.sleep, 0.1)
pool.submit(print, "second")
pool.shutdown(wait=False, cancel_futures=True)
print("end")

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

#: never awaited global
async def f(): print("never")
x = f()
print("end")

#: suspended global
class Wait:
    def __await__(self):
        try:
            yield 1
        finally:
            print("closed")
async def f(): await Wait()
x = f()
x.send(None)
print("end")

#: task left running
import asyncio
async def forever():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled")
        raise
async def main():
    asyncio.create_task(forever())
    await asyncio.sleep(0.01)
    print("main ends")
asyncio.run(main())

#: task error never read
import asyncio
async def bad(): 1 / 0
async def main():
    t = asyncio.create_task(bad())
    await asyncio.sleep(0.01)
    print("main ends")
asyncio.run(main())

#: loop left open with a task
import asyncio
loop = asyncio.new_event_loop()
async def f():
    try:
        await asyncio.sleep(60)
    finally:
        print("finally")
task = loop.create_task(f())
loop.run_until_complete(asyncio.sleep(0))
print("end")

#: async generator global
import asyncio
async def gen():
    try:
        yield 1
    finally:
        print("finally")
g = gen()
async def main(): print(await g.__anext__())
asyncio.run(main())
print("end")

#: executor left with a job
import asyncio, time
async def main():
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: (time.sleep(0.05), print("job")))
    print("main ends")
asyncio.run(main())

#: KeyboardInterrupt
import asyncio
async def main(): raise KeyboardInterrupt
asyncio.run(main())
"""
