# ruff: noqa: E501
"""Whole solutions, as models write them: read, solve, print."""

TEXT = r"""
#: main guard
def main():
    n = int(input())
    nums = list(map(int, input().split()))
    print(max(nums) - min(nums), n)
if __name__ == "__main__":
    main()

#: solve function with data pointer
import sys
def solve():
    data = sys.stdin.read().split()
    idx = 0
    n = int(data[idx]); idx += 1
    nums = [int(x) for x in data[idx:idx + n]]; idx += n
    seen = {}
    for i, x in enumerate(nums):
        if 6 - x in seen:
            print(seen[6 - x], i)
            return
        seen[x] = i
    print(-1)
solve()

#: Solution class
from typing import List
class Solution:
    def maxSubArray(self, nums: List[int]) -> int:
        best = cur = nums[0]
        for x in nums[1:]:
            cur = max(x, cur + x)
            best = max(best, cur)
        return best
if __name__ == "__main__":
    input()
    print(Solution().maxSubArray([int(x) for x in input().split()]))

#: try except around everything
import sys
try:
    n = int(sys.stdin.readline())
    a = list(map(int, sys.stdin.readline().split()))
    assert len(a) == n
    print("YES" if sorted(a) == a else "NO")
except Exception as e:
    print("error", e)
    sys.exit(1)

#: several cases
import sys
input = sys.stdin.readline
out = []
for _ in range(int(input())):
    line = input().split()
    out.append(str(len(line)))
print("\n".join(out))

#: early exit
import sys
n = int(input())
if n == 5:
    print("five")
    sys.exit()
print("never")

#: early exit by the builtin and a guard
n = int(input())
if n > 3:
    print("big")
    raise SystemExit
print("small")

#: output list joined by print
res = []
n = int(input())
for i in range(1, n + 1):
    res.append("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or str(i))
print("\n".join(res))

#: format of floats
n = int(input())
a = list(map(int, input().split()))
print("%.6f" % (sum(a) / n))
print(f"{sum(a) / n:.10f} {1 / 3:.3e} {12345.678:,.2f} {255:#x} {7:03d} {'x':>5}|{'y':^5}|")

#: yes no
print(["NO", "YES"][int(input()) % 2])

#: cmp_to_key
from functools import cmp_to_key
input()
a = input().split()
print("".join(sorted(a, key=cmp_to_key(lambda x, y: (x + y < y + x) - (x + y > y + x)))))

#: grid parsed
import sys
grid = [list(line.strip()) for line in sys.stdin]
print(len(grid), [len(r) for r in grid])

#: global state
count = 0
memo = {}
def f(n):
    global count
    count += 1
    if n in memo: return memo[n]
    memo[n] = n if n < 2 else f(n - 1) + f(n - 2)
    return memo[n]
print(f(int(input()) * 10), count)

#: random heuristics
import random
random.seed(1)
a = list(range(10))
random.shuffle(a)
print(a, random.randint(1, 100), random.random(), random.choice("abc"), random.sample(range(100), 3), random.gauss(0, 1))

#: own generator of random numbers
import random
r = random.Random(42)
print([r.randrange(1000) for _ in range(5)], r.getrandbits(64), r.choices("ab", k=5))

#: random seeded by text
import random
random.seed("seed")
print(random.random(), random.uniform(1, 2), random.betavariate(1, 2))

#: time measured, not printed
import time
start = time.perf_counter()
x = sum(range(10000))
assert time.perf_counter() - start < 60 and time.time() > 10 ** 9 and time.process_time() >= 0
print(x)

#: until the time is up
import time
end = time.time() + 0.02
n = 0
while time.time() < end: n += 1
print(n > 0)

#: hashes of texts
print(hash("abc"), hash(b"abc"), hash((1, "x")), hash(1.5), hash(None) == hash(None), hash(frozenset("ab")))

#: order of a set of texts
print(set("the quick brown fox jumps over the lazy dog".split()))

#: order of a set of numbers
print({5, 3, 100, 17, -1, 2 ** 40})

#: id and memory
a = [1]
b = a
print(id(a) == id(b), a is b)

#: sys limits
import sys
print(sys.maxsize, sys.getrecursionlimit(), sys.byteorder, sys.int_info.default_max_str_digits, sys.float_info.max)

#: digits
import sys
sys.set_int_max_str_digits(0)
print(len(str(3 ** 20000)), sys.get_int_max_str_digits())
print(int("7" * 6000) % 1000)

#: digits just within the limit
print(len(str(10 ** 4299)))

#: digits through hex
print(len(hex(10 ** 6000)), int(hex(10 ** 6000), 16) == 10 ** 6000)

#: local input shadowed by a file
import os, sys
if os.path.exists("input.txt"):
    sys.stdin = open("input.txt")
    sys.stdout = open("output.txt", "w")
print(int(input()) * 2)

#: local debug by an environment variable
import os
if os.environ.get("LOCAL_DEBUG"):
    print("debug")
print(os.getenv("ONLINE_JUDGE"), "USER" in os.environ)

#: argv
import sys
print(len(sys.argv), os.path.basename(sys.argv[0]) if (os := __import__("os")) else "")

#: debug function
import sys
def debug(*args): print(*args, file=sys.stderr)
debug("n =", 5)
print(5)

#: recursion by a stack of generators
from types import GeneratorType
def bootstrap(f, stack=[]):
    def wrapped(*args, **kwargs):
        if stack:
            return f(*args, **kwargs)
        to = f(*args, **kwargs)
        while True:
            if type(to) is GeneratorType:
                stack.append(to)
                to = next(to)
            else:
                stack.pop()
                if not stack: break
                to = stack[-1].send(to)
        return to
    return wrapped
@bootstrap
def depth(n):
    if n == 0:
        yield 0
    yield (yield depth(n - 1)) + 1
print(depth(5000))

#: interpreter by name
import platform, sys
print(platform.python_implementation(), sys.version_info[:2], sys.implementation.name)

#: exec of a template
code = "def f(x):\n    return x * 2\n"
exec(code)
print(f(21))

#: compile once, run twice
c = compile("y = x ** 2", "<s>", "exec")
for x in (2, 3):
    exec(c)
    print(y)

#: heap with lazy deletion
import heapq
h, dead = [], set()
for i in range(20): heapq.heappush(h, (i * 7 % 20, i))
dead.update(range(0, 20, 3))
out = []
while h:
    k, i = heapq.heappop(h)
    if i not in dead: out.append(i)
print(out, heapq.nlargest(3, out), list(heapq.merge([1, 4], [2, 3])))

#: coordinates compressed
a = [100, 5, 100, 7]
rank = {v: i for i, v in enumerate(sorted(set(a)))}
print([rank[x] for x in a])

#: prefix sums in two dimensions
from itertools import accumulate
m = [[(i * j) % 5 for j in range(4)] for i in range(4)]
s = [list(accumulate(r)) for r in m]
s = list(zip(*[accumulate(c) for c in zip(*s)]))
print(s)

#: one line solution
print(sum(int(x) % 2 for x in (input(), input())[1].split()))

#: lambda soup
(lambda n, a: print(n * sum(a)))(*(f(input()) for f in (int, lambda s: map(int, s.split()))))

#: assertion messages off
assert True, print("not printed")
print(__debug__)

#: blank output
pass

#: trailing whitespace
for x in input().split(): print(x, end=" ")
print()
"""
