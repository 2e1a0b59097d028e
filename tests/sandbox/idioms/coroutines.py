"""asyncio, coroutines and asynchronous generators, finished and not."""

TEXT = r"""
#: run
import asyncio
async def main():
    await asyncio.sleep(0)
    print("main")
asyncio.run(main())

#: gather
import asyncio
async def f(n):
    await asyncio.sleep(0.001 * (5 - n))
    return n * n
async def main():
    print(await asyncio.gather(*(f(i) for i in range(5))))
asyncio.run(main())

#: never awaited
async def f(): print("never")
f()
print("end")

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

#: run by hand
async def f(): return 5
try:
    f().send(None)
except StopIteration as e:
    print(e.value)

#: error
import asyncio
async def main(): raise ValueError("v")
asyncio.run(main())

#: sys.exit
import asyncio, sys
async def main():
    print("x")
    sys.exit(4)
asyncio.run(main())

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

#: loop left open
import asyncio
loop = asyncio.new_event_loop()
print(loop.run_until_complete(asyncio.sleep(0, "result")))

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

#: loop closed
import asyncio
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
try:
    print(loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0, 3), 1)))
finally:
    loop.close()

#: async generator
import asyncio
async def gen():
    for i in range(3):
        yield i
        await asyncio.sleep(0)
async def main():
    print([x async for x in gen()])
asyncio.run(main())

#: async generator left
import asyncio
async def gen():
    try:
        while True:
            yield 1
    finally:
        print("finally")
async def main():
    async for x in gen():
        break
    print("main ends")
asyncio.run(main())

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

#: async with
import asyncio
class C:
    async def __aenter__(self): print("enter"); return self
    async def __aexit__(self, *a): print("leave")
async def main():
    async with C():
        print("inside")
asyncio.run(main())

#: queue with workers
import asyncio
async def worker(q, out):
    while True:
        out.append(await q.get())
        q.task_done()
async def main():
    q, out = asyncio.Queue(), []
    ws = [asyncio.create_task(worker(q, out)) for _ in range(3)]
    for i in range(10): q.put_nowait(i)
    await q.join()
    for w in ws: w.cancel()
    print(sorted(out))
asyncio.run(main())

#: timeout
import asyncio
async def main():
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        print("timeout")
asyncio.run(main())

#: TaskGroup
import asyncio
async def f(n):
    if n == 2: raise ValueError(n)
async def main():
    async with asyncio.TaskGroup() as group:
        for i in range(3): group.create_task(f(i))
try:
    asyncio.run(main())
except* ValueError as e:
    print(e.exceptions)

#: to_thread
import asyncio
async def main(): print(await asyncio.to_thread(sum, [1, 2, 3]))
asyncio.run(main())

#: executor left with a job
import asyncio, time
async def main():
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: (time.sleep(0.05), print("job")))
    print("main ends")
asyncio.run(main())

#: semaphore and lock
import asyncio
async def f(s, out, i):
    async with s:
        out.append(i)
async def main():
    s, out = asyncio.Semaphore(2), []
    await asyncio.gather(*(f(s, out, i) for i in range(6)))
    print(out)
asyncio.run(main())

#: call_later
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, print, "later")
    loop.call_soon(print, "soon")
    await asyncio.sleep(0.03)
asyncio.run(main())

#: reading stdin in a thread
import asyncio, sys
async def main():
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(line.strip())
asyncio.run(main())

#: KeyboardInterrupt
import asyncio
async def main(): raise KeyboardInterrupt
asyncio.run(main())

#: print at exit
import asyncio, atexit
atexit.register(print, "exit")
class A:
    def __del__(self): print("del")
async def main():
    global a
    a = A()
    print("main")
asyncio.run(main())

#: types coroutine
import types
@types.coroutine
def step():
    x = yield "asked"
    return x
async def f(): return await step() + 1
c = f()
print(c.send(None))
try:
    c.send(4)
except StopIteration as e:
    print(e.value)
"""
