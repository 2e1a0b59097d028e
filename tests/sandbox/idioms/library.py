# ruff: noqa: E501
"""The modules that contest programs use for their work."""

TEXT = r"""
#: Counter
from collections import Counter
c = Counter("abracadabra")
print(c.most_common(2), c["z"], sorted((c + Counter("aaz")).items()), c - Counter("aab"), sum(c.values()))

#: defaultdict and OrderedDict
from collections import defaultdict, OrderedDict
d = defaultdict(list)
d["a"].append(1)
o = OrderedDict.fromkeys("cab")
o.move_to_end("c")
print(d, o, o.popitem(last=False))

#: deque
from collections import deque
q = deque(range(5), maxlen=4)
q.rotate(1)
q.appendleft(9)
print(q, q.pop(), q.popleft(), list(q))

#: namedtuple and ChainMap
from collections import namedtuple, ChainMap
P = namedtuple("P", "x y", defaults=[0])
print(P(1), P(1, 2)._replace(x=5), ChainMap({"a": 1}, {"a": 2, "b": 3})["b"])

#: heapq with a key
import heapq
print(heapq.nsmallest(2, ["ccc", "a", "bb"], key=len), heapq.heappushpop([1, 2], 0))

#: bisect and insort
import bisect
a = [1, 3, 3, 5]
bisect.insort(a, 4)
print(a, bisect.bisect_left(a, 3), bisect.bisect(a, 3), bisect.bisect_left(a, 4, key=lambda x: x))

#: decimal
from decimal import Decimal, getcontext, ROUND_HALF_UP
getcontext().prec = 50
print(Decimal(2).sqrt(), Decimal("1.005").quantize(Decimal("0.01"), ROUND_HALF_UP), Decimal(1) / 7)

#: fractions
from fractions import Fraction
print(sum(Fraction(1, n) for n in range(1, 20)), Fraction("0.125"), Fraction(3.5).limit_denominator(10))

#: math
import math
print(math.comb(50, 25), math.perm(10, 3), math.gcd(12, 18, 24), math.lcm(4, 6), math.isqrt(10 ** 20), math.prod([1, 2, 3]), math.dist((0, 0), (3, 4)), math.log2(1024), math.hypot(3, 4), math.inf)

#: cmath
import cmath
print(cmath.sqrt(-4), cmath.phase(1j), abs(3 + 4j), (1 + 2j).conjugate())

#: statistics
import statistics as s
print(s.mean([1, 2, 4]), s.median([1, 3, 2]), s.mode("aab"), s.pstdev([1, 2, 3, 4]), s.quantiles([1, 2, 3, 4]))

#: itertools
from itertools import chain, cycle, islice, count, pairwise, zip_longest, takewhile, dropwhile, starmap, tee, compress, filterfalse, repeat, product
print(list(chain([1], [2])), list(islice(cycle("ab"), 5)), list(pairwise("abc")), list(zip_longest("ab", "c", fillvalue="-")), list(product("ab", repeat=2))[:3], list(islice(count(10, 5), 3)))

#: functools
from functools import reduce, partial, cache, singledispatch, total_ordering, wraps, cached_property
@singledispatch
def f(x): return "other"
@f.register
def _(x: int): return "int"
@cache
def g(n): return n if n < 2 else g(n - 1) + g(n - 2)
class A:
    @cached_property
    def p(self): print("once"); return 1
a = A()
print(reduce(lambda a, b: a * b, range(1, 10)), partial(pow, 2)(10), f(1), f(""), g(90), a.p, a.p)

#: operator
from operator import itemgetter, attrgetter, methodcaller, mul, add
print(sorted([(2, "a"), (1, "b")], key=itemgetter(0)), methodcaller("upper")("x"), mul(3, 4), attrgetter("real")(5))

#: regex
import re
print(re.findall(r"(\w)(\d+)", "a12 b3"), re.sub(r"\s+", " ", "a   b\n c"), re.split(r"[,;]", "a,b;c"), re.match(r"(?P<x>\d+)", "12a")["x"], re.sub(r"\d", lambda m: str(int(m[0]) * 2), "1a2"))

#: regex with lookaround and flags
import re
p = re.compile(r'''(?x) (?<=a) b+ (?!c)   # a comment''', re.I)
print(p.search("ABBc ab"), re.fullmatch(r"[a-z]+", "abc") is not None, re.escape("a.b"))

#: string
import string
print(string.ascii_lowercase, string.punctuation, string.capwords("a bc"), string.Template("$x and ${y}").substitute(x=1, y=2))

#: text methods
s = "Hello, World"
print(s.partition(", "), s.rjust(15, "*"), s.swapcase(), s.translate(str.maketrans("lo", "01")), s.removeprefix("Hell"), "a-b-c".rsplit("-", 1), "x".zfill(4), "%s|%5d|%-5s|%x" % ("a", 3, "b", 255), "{0!r:>6}{1[0]}".format("a", [9]))

#: textwrap
import textwrap
print(textwrap.fill("the quick brown fox jumps over the lazy dog", 20))
print(textwrap.dedent("  a\n   b"), textwrap.shorten("a b c d e", 6), textwrap.indent("a\nb", "> "))

#: difflib
import difflib
print(difflib.get_close_matches("appel", ["ape", "apple", "peach"]), difflib.SequenceMatcher(None, "abcd", "bcde").ratio())

#: datetime
from datetime import date, datetime, timedelta, timezone
print(date(2024, 2, 28) + timedelta(2), (datetime(2024, 1, 1) - datetime(2023, 1, 1)).days, datetime(2024, 5, 6, 7, 8).strftime("%Y/%m/%d %A %j"), datetime.strptime("2020-01-02", "%Y-%m-%d").isoformat(), datetime.fromtimestamp(0, timezone.utc))

#: calendar
import calendar
print(calendar.isleap(2000), calendar.monthrange(2024, 2), calendar.day_name[0])
print(calendar.month(2024, 2))

#: zoneinfo
import zoneinfo
from datetime import datetime
print(datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")).isoformat())

#: local time
import time
print(time.strftime("%Y-%m-%d %H:%M", time.gmtime(0)), time.localtime(0).tm_hour, time.tzname)

#: json
import json
print(json.dumps({"b": [1, 2.5, None, True], "a": "ü"}, sort_keys=True), json.loads('{"x": [1, {"y": "\\u00fc"}]}'), json.dumps([1, 2], indent=1))

#: csv
import csv, io, sys
w = csv.writer(sys.stdout)
w.writerow([1, "a,b", 'q"x'])
csv.DictWriter(sys.stdout, ["x", "y"], lineterminator="\n").writerow({"x": 1, "y": 2})
print(list(csv.DictReader(io.StringIO("a,b\n1,2"))))

#: array
from array import array
a = array("i", [3, 1, 2])
a.append(5)
print(a, a.itemsize, a.tobytes()[:4], sum(a))

#: bytearray and memoryview
b = bytearray(b"hello")
m = memoryview(b)
m[0:2] = b"HE"
print(b, m[::2].tobytes(), b.hex(), bytes.fromhex("6869"), b.find(b"l"), int.from_bytes(b"\x01\x00", "big"), (1000).to_bytes(2, "little"))

#: struct
import struct
print(struct.pack("<IhB", 1, -2, 3), struct.unpack(">Hf", struct.pack(">Hf", 7, 1.5)), struct.calcsize("i d"))

#: zlib and base64
import zlib, base64, gzip, bz2, lzma
d = b"hello" * 100
print(len(zlib.compress(d)), zlib.crc32(d), base64.b64encode(b"hi"), base64.b85decode(base64.b85encode(b"xyz")), gzip.decompress(gzip.compress(d)) == d, bz2.decompress(bz2.compress(d)) == d, lzma.decompress(lzma.compress(d)) == d)

#: hashlib
import hashlib, hmac
print(hashlib.md5(b"a").hexdigest(), hashlib.sha256(b"a").hexdigest(), hashlib.blake2b(b"a", digest_size=8).hexdigest(), hmac.new(b"k", b"m", "sha1").hexdigest())

#: pickle
import pickle
class A:
    def __init__(self, x): self.x = x
def f(): return 1
a = pickle.loads(pickle.dumps([A(5), f, {1: (2,)}]))
print(a[0].x, a[1](), a[2], A.__module__)

#: copy
import copy
a = [[1], {"x": [2]}]
b, c = copy.copy(a), copy.deepcopy(a)
a[0].append(9)
print(b, c)

#: shelve and dbm fall back
import io, marshal
print(marshal.loads(marshal.dumps([1, "a", (2, None)])))

#: sqlite3 in memory
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table t (x int, y text)")
db.executemany("insert into t values (?, ?)", [(i, chr(97 + i)) for i in range(5)])
print(db.execute("select sum(x), group_concat(y, '') from t where x > 1").fetchall())

#: xml
import xml.etree.ElementTree as ET
r = ET.fromstring("<a><b k='1'>x</b><b k='2'/></a>")
print([(b.get("k"), b.text) for b in r.iter("b")], ET.tostring(r))

#: html
import html
from html.parser import HTMLParser
class P(HTMLParser):
    def handle_starttag(self, tag, attrs): print("tag", tag, attrs)
P().feed("<p class=x>hi<br></p>")
print(html.escape("<&>"), html.unescape("&eacute;"))

#: unicodedata
import unicodedata
print(unicodedata.name("é"), unicodedata.category("1"), unicodedata.lookup("SNOWMAN"), unicodedata.numeric("½"))

#: uuid and secrets
import uuid, secrets
print(uuid.uuid5(uuid.NAMESPACE_DNS, "x"), len(secrets.token_hex(8)), len(str(uuid.uuid4())), uuid.UUID(int=5))

#: logging to stderr
import logging
logging.basicConfig(level=logging.DEBUG)
logging.debug("d")
logging.warning("w")
print("x")

#: logging to stdout
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s:%(name)s:%(message)s")
logging.getLogger("a").error("e %d", 5)

#: argparse
import argparse
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=3)
p.add_argument("rest", nargs="*")
print(p.parse_args())

#: argparse with a wrong call
import argparse
p = argparse.ArgumentParser()
p.add_argument("n")
p.parse_args()

#: argparse help
import argparse
argparse.ArgumentParser(prog="p").parse_args(["-h"])

#: getopt and optparse
import getopt
print(getopt.getopt(["-a", "1", "x"], "a:"))

#: unittest
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
unittest.main(argv=["x"])

#: unittest failing
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 2)
unittest.main()

#: doctest
import doctest
def f(x):
    '''
    >>> f(2)
    4
    '''
    return x * 2
print(doctest.testmod())

#: timeit
import timeit
print(timeit.timeit("1 + 1", number=10) >= 0)

#: cProfile
import cProfile, io, pstats
p = cProfile.Profile()
p.enable()
sum(range(10))
p.disable()
print(p.getstats() != [])

#: pathlib
from pathlib import Path, PurePosixPath
p = PurePosixPath("/a/b/../c.tar.gz")
print(p.name, p.suffixes, p.parent, p / "d", Path("x").exists())

#: os path
import os
print(os.path.join("a", "b"), os.path.splitext("x.py"), os.path.normpath("a/../b"), os.path.basename("/x/y"), os.sep)

#: random without a seed
import random
print(0 <= random.random() < 1, random.randint(5, 5), len(str(random.getrandbits(100))) > 0)

#: secrets of two runs differ in form only
import os
print(len(os.urandom(16)))
"""
