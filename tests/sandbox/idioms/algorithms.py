# ruff: noqa: E501
"""Algorithms of contests, written out."""

TEXT = r"""
#: sieve
def sieve(n):
    is_prime = bytearray([1]) * (n + 1)
    is_prime[:2] = b"\0\0"
    for i in range(2, int(n ** 0.5) + 1):
        if is_prime[i]:
            is_prime[i * i :: i] = bytes(len(range(i * i, n + 1, i)))
    return [i for i in range(n + 1) if is_prime[i]]
p = sieve(10000)
print(len(p), p[-5:])

#: disjoint sets
class DSU:
    def __init__(self, n): self.p, self.size = list(range(n)), [1] * n
    def find(self, x):
        while self.p[x] != x:
            self.p[x] = self.p[self.p[x]]
            x = self.p[x]
        return x
    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        if a == b: return False
        if self.size[a] < self.size[b]: a, b = b, a
        self.p[b] = a
        self.size[a] += self.size[b]
        return True
d = DSU(10)
print([d.union(i, (i * 3) % 10) for i in range(10)], d.size[d.find(1)])

#: segment tree
class SegTree:
    def __init__(self, a, op, e):
        self.n, self.op, self.e = len(a), op, e
        self.t = [e] * self.n + a
        for i in range(self.n - 1, 0, -1): self.t[i] = op(self.t[2 * i], self.t[2 * i + 1])
    def set(self, i, v):
        i += self.n
        self.t[i] = v
        while i > 1:
            i //= 2
            self.t[i] = self.op(self.t[2 * i], self.t[2 * i + 1])
    def get(self, l, r):
        x = self.e
        l += self.n; r += self.n
        while l < r:
            if l & 1: x = self.op(x, self.t[l]); l += 1
            if r & 1: r -= 1; x = self.op(x, self.t[r])
            l //= 2; r //= 2
        return x
s = SegTree([5, 3, 8, 1, 9, 2], min, 10 ** 9)
print(s.get(0, 3), s.get(2, 6))
s.set(3, 100)
print(s.get(2, 6))

#: Fenwick tree
class BIT:
    def __init__(self, n): self.t = [0] * (n + 1)
    def add(self, i, v):
        while i < len(self.t):
            self.t[i] += v
            i += i & -i
    def sum(self, i):
        s = 0
        while i: s += self.t[i]; i -= i & -i
        return s
b = BIT(100)
inv = 0
for k, x in enumerate([(i * 37) % 100 + 1 for i in range(100)]):
    inv += k - b.sum(x)
    b.add(x, 1)
print(inv)

#: Dijkstra
import heapq
from collections import defaultdict
g = defaultdict(list)
for i in range(50):
    for j in (i * 2 % 50, (i * 7 + 3) % 50):
        g[i].append((j, (i * j) % 11 + 1))
dist, h = {0: 0}, [(0, 0)]
while h:
    d, u = heapq.heappop(h)
    if d > dist[u]: continue
    for v, w in g[u]:
        if d + w < dist.get(v, float("inf")):
            dist[v] = d + w
            heapq.heappush(h, (d + w, v))
print(sorted(dist.items())[:10], max(dist.values()))

#: BFS on a grid
from collections import deque
grid = ["S.#.", "..#.", ".#..", "...E"]
h, w = len(grid), len(grid[0])
seen, q = {(0, 0): 0}, deque([(0, 0)])
while q:
    y, x = q.popleft()
    for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        ny, nx = y + dy, x + dx
        if 0 <= ny < h and 0 <= nx < w and grid[ny][nx] != "#" and (ny, nx) not in seen:
            seen[ny, nx] = seen[y, x] + 1
            q.append((ny, nx))
print(seen[3, 3])

#: depth first search deep
import sys
sys.setrecursionlimit(10 ** 6)
n = 3000
children = [[i + 1] if i + 1 < n else [] for i in range(n)]
def dfs(u): return 1 + sum(dfs(v) for v in children[u])
print(dfs(0))

#: topological order
from graphlib import TopologicalSorter
print(list(TopologicalSorter({"d": {"b", "c"}, "b": {"a"}, "c": {"b"}}).static_order()))

#: knapsack
w, v, cap = [1, 3, 4, 5], [1, 4, 5, 7], 7
dp = [0] * (cap + 1)
for a, b in zip(w, v):
    for c in range(cap, a - 1, -1):
        dp[c] = max(dp[c], dp[c - a] + b)
print(dp)

#: longest common subsequence
from functools import lru_cache
a, b = "ABCBDABXYZ", "BDCABAYXZ"
@lru_cache(maxsize=None)
def f(i, j):
    if i == len(a) or j == len(b): return 0
    return 1 + f(i + 1, j + 1) if a[i] == b[j] else max(f(i + 1, j), f(i, j + 1))
print(f(0, 0), f.cache_info().currsize)

#: longest increasing subsequence
from bisect import bisect_left
t = []
for x in [(i * 7919) % 1009 for i in range(300)]:
    i = bisect_left(t, x)
    t[i : i + 1] = [x]
print(len(t))

#: matrix exponentiation
M = 10 ** 9 + 7
def mul(a, b): return [[sum(x * y for x, y in zip(r, c)) % M for c in zip(*b)] for r in a]
def power(a, n):
    r = [[int(i == j) for j in range(len(a))] for i in range(len(a))]
    while n:
        if n & 1: r = mul(r, a)
        a, n = mul(a, a), n >> 1
    return r
print(power([[1, 1], [1, 0]], 10 ** 18)[0][1])

#: modular arithmetic
M = 998244353
fact = [1]
for i in range(1, 1000): fact.append(fact[-1] * i % M)
inv = [pow(x, -1, M) for x in fact]
print(fact[500] * inv[200] * inv[300] % M, pow(3, M - 2, M))

#: KMP
def prefix(s):
    p = [0] * len(s)
    for i in range(1, len(s)):
        k = p[i - 1]
        while k and s[i] != s[k]: k = p[k - 1]
        p[i] = k + (s[i] == s[k])
    return p
print(prefix("abacabadabacaba"))

#: Z function and hashes
s = "abababcab"
z = [0] * len(s)
l = r = 0
for i in range(1, len(s)):
    if i < r: z[i] = min(r - i, z[i - l])
    while i + z[i] < len(s) and s[z[i]] == s[i + z[i]]: z[i] += 1
    if i + z[i] > r: l, r = i, i + z[i]
print(z)

#: trie
class Trie:
    def __init__(self): self.next, self.end = {}, 0
    def add(self, word):
        node = self
        for c in word: node = node.next.setdefault(c, Trie())
        node.end += 1
t = Trie()
for w in "tea ten to inn in i".split(): t.add(w)
print(sorted(t.next), sorted(t.next["t"].next["e"].next))

#: binary search on the answer
def ok(x): return x * x <= 10 ** 12 + 12345
lo, hi = 0, 10 ** 9
while hi - lo > 1:
    mid = (lo + hi) // 2
    lo, hi = (mid, hi) if ok(mid) else (lo, mid)
print(lo)

#: two pointers
a, k = [2, 1, 5, 1, 3, 2], 7
best = left = total = 0
for right, x in enumerate(a):
    total += x
    while total > k:
        total -= a[left]
        left += 1
    best = max(best, right - left + 1)
print(best)

#: monotonic stack
h = [2, 1, 5, 6, 2, 3]
stack, best = [], 0
for i, x in enumerate(h + [0]):
    while stack and h[stack[-1]] >= x:
        top = stack.pop()
        best = max(best, h[top] * (i - stack[-1] - 1 if stack else i))
    stack.append(i)
print(best)

#: n queens
def solve(n, row=0, cols=0, d1=0, d2=0):
    if row == n: return 1
    free, total = ~(cols | d1 | d2) & ((1 << n) - 1), 0
    while free:
        bit = free & -free
        free ^= bit
        total += solve(n, row + 1, cols | bit, (d1 | bit) << 1, (d2 | bit) >> 1)
    return total
print([solve(n) for n in range(1, 8)])

#: permutations and combinations
from itertools import permutations, combinations, product, accumulate, groupby
print(len(list(permutations(range(5)))), list(combinations("abc", 2)), list(accumulate([1, 2, 3])), [(k, len(list(g))) for k, g in groupby("aabbb")])

#: travelling salesman by bitmask
n = 6
d = [[abs(i - j) * ((i * j) % 5 + 1) for j in range(n)] for i in range(n)]
dp = {(1, 0): 0}
for mask in range(1, 1 << n, 2):
    for i in range(n):
        if (mask, i) in dp:
            for j in range(n):
                if not mask >> j & 1:
                    k = (mask | 1 << j, j)
                    dp[k] = min(dp.get(k, 10 ** 9), dp[mask, i] + d[i][j])
print(min(dp[(1 << n) - 1, i] + d[i][0] for i in range(1, n)))

#: Floyd Warshall
n, inf = 5, float("inf")
d = [[0 if i == j else ((i + 2 * j) % 7 or inf) for j in range(n)] for i in range(n)]
for k in range(n):
    for i in range(n):
        for j in range(n):
            d[i][j] = min(d[i][j], d[i][k] + d[k][j])
print(d)

#: Kruskal
edges = sorted((((i * 13 + j * 7) % 17, i, j) for i in range(8) for j in range(i)))
p = list(range(8))
def find(x):
    if p[x] != x: p[x] = find(p[x])
    return p[x]
total = 0
for w, a, b in edges:
    if find(a) != find(b):
        p[find(a)] = find(b)
        total += w
print(total)

#: maximum flow
from collections import deque
def flow(c, s, t):
    n, f = len(c), 0
    while True:
        parent, q = {s: None}, deque([s])
        while q and t not in parent:
            u = q.popleft()
            for v in range(n):
                if v not in parent and c[u][v] > 0:
                    parent[v] = u
                    q.append(v)
        if t not in parent: return f
        v, b = t, 10 ** 9
        while parent[v] is not None: b, v = min(b, c[parent[v]][v]), parent[v]
        v = t
        while parent[v] is not None:
            c[parent[v]][v] -= b
            c[v][parent[v]] += b
            v = parent[v]
        f += b
print(flow([[0, 16, 13, 0, 0, 0], [0, 0, 10, 12, 0, 0], [0, 4, 0, 0, 14, 0], [0, 0, 9, 0, 0, 20], [0, 0, 0, 7, 0, 4], [0] * 6], 0, 5))

#: convex hull
pts = sorted({((i * 7) % 20, (i * 11) % 23) for i in range(40)})
def cross(o, a, b): return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])
def half(points):
    h = []
    for p in points:
        while len(h) > 1 and cross(h[-2], h[-1], p) <= 0: h.pop()
        h.append(p)
    return h[:-1]
print(half(pts) + half(pts[::-1]))

#: fast Fourier transform
import cmath
def fft(a):
    n = len(a)
    if n == 1: return a
    e, o = fft(a[::2]), fft(a[1::2])
    w = [cmath.exp(-2j * cmath.pi * k / n) * o[k] for k in range(n // 2)]
    return [x + y for x, y in zip(e, w)] + [x - y for x, y in zip(e, w)]
print([f"{abs(x):.6f}" for x in fft([1, 2, 3, 4, 0, 0, 0, 0])])

#: Miller Rabin
def prime(n):
    if n < 2: return False
    for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if n % p == 0: return n == p
    d, s = n - 1, 0
    while d % 2 == 0: d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(a, d, n)
        if x in (1, n - 1): continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1: break
        else: return False
    return True
print([n for n in range(10 ** 12, 10 ** 12 + 100) if prime(n)])

#: big integers
n = 1
for i in range(1, 1200): n *= i
print(len(str(n)), n % (10 ** 9 + 7), n.bit_length(), str(2 ** 13000)[:10])

#: game of life
cells = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
from collections import Counter
for _ in range(20):
    near = Counter((x + i, y + j) for x, y in cells for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    cells = {c for c, n in near.items() if n == 3 or n == 2 and c in cells}
print(sorted(cells))
"""
