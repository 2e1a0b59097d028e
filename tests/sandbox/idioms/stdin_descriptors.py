"""Input read through descriptors, devices and modules."""

TEXT = r"""
#: open 0
print(open(0).read().split())

#: open 0 for each line
for line in open(0):
    print(line.strip())

#: open 0 binary
data = open(0, "rb").read()
print(data.count(b"\n"))

#: open 0 unbuffered
f = open(0, "rb", 0)
print(f.read(2), f.read(2))

#: stdin is open 0
import sys
sys.stdin = open(0)
print(input(), input())

#: stdin is open 0 with encoding
import sys
sys.stdin = open(0, encoding="latin-1")
print(ascii(sys.stdin.read()))

#: open 0 unpacked
n, a, *rest = open(0)
print(int(n), sum(map(int, a.split())), len(rest))

#: open 0 twice
a = open(0, closefd=False).readline()
b = open(0, closefd=False).readline()
print(a, repr(b))

#: dev stdin
print(open("/dev/stdin").read().split())

#: dev stdin after input
print(input())
print(repr(open("/dev/stdin").read()))

#: dev fd 0
with open("/dev/fd/0") as f:
    print(f.readline())

#: proc self fd 0
print(len(open("/proc/self/fd/0").read()))

#: pathlib dev stdin
from pathlib import Path
print(Path("/dev/stdin").read_text().split())

#: os.read loop
import os
chunks = []
while chunk := os.read(0, 7):
    chunks.append(chunk)
print(len(b"".join(chunks)), b"".join(chunks).split())

#: os.read all
import os
print(os.read(0, 10 ** 6))

#: os.fstat then os.read
import os
size = os.fstat(0).st_size or 1 << 16
print(os.read(0, size).split())

#: os.fstat size printed
import os
print(os.fstat(0).st_size)

#: kind of stdin
import os, stat
print(stat.S_ISFIFO(os.fstat(0).st_mode), stat.S_ISREG(os.fstat(0).st_mode), os.isatty(0))

#: isatty
import sys
print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())

#: seekable
import sys
print(sys.stdin.seekable(), sys.stdout.seekable())

#: seek back
import sys, io
text = sys.stdin.read()
try:
    sys.stdin.seek(0)
    print("again", len(sys.stdin.read()) == len(text))
except io.UnsupportedOperation:
    print("once")

#: tell of stdout
import sys, io
print("x", flush=True)
try:
    print(sys.stdout.tell())
except (io.UnsupportedOperation, OSError):
    print("no position")

#: truncate stdout
import sys, io
print("x", flush=True)
try:
    sys.stdout.truncate(0)
except (io.UnsupportedOperation, OSError):
    pass
print("y")

#: mmap with a fallback
import sys, os
try:
    import mmap
    data = mmap.mmap(0, 0, access=mmap.ACCESS_READ)
    text = data[:]
except (OSError, ValueError):
    text = sys.stdin.buffer.read()
print(len(text), text[:1])

#: select
import select, sys
ready = select.select([sys.stdin], [], [], 1)[0]
print(bool(ready), sys.stdin.readline())

#: poll
import select
p = select.poll()
p.register(0, select.POLLIN)
print([fd for fd, event in p.poll(1000)])

#: epoll
import select, sys
try:
    e = select.epoll()
    e.register(0, select.EPOLLIN)
    print(len(e.poll(1)))
except PermissionError:
    print("not a pipe")

#: non-blocking
import os
os.set_blocking(0, False)
print(os.read(0, 5))

#: fileinput
import fileinput
for line in fileinput.input():
    print(fileinput.lineno(), line, end="")

#: fileinput of a dash
import fileinput
print([line.strip() for line in fileinput.input("-")])

#: fileinput with a hook
import fileinput
with fileinput.FileInput(encoding="utf-8") as f:
    print(f.readline(), f.isstdin())

#: csv of stdin
import csv, sys
print(list(csv.reader(sys.stdin, delimiter=" ")))

#: json of a line
import json
print(json.loads(input()), json.loads("[" + input().replace(" ", ",") + "]"))

#: shlex
import shlex, sys
print(shlex.split(sys.stdin.read()))

#: readlines with a hint
import sys
print(len(sys.stdin.readlines(3)))

#: itertools of stdin
import sys
from itertools import islice
print([x.strip() for x in islice(sys.stdin, 1, 3)])

#: map and zip of stdin
import sys
for i, line in zip(range(2), map(str.strip, sys.stdin)):
    print(i, line)

#: tokens by a generator
def get():
    while True:
        try:
            yield from input().split()
        except EOFError:
            return
print(list(get()))

#: ast literal_eval
from ast import literal_eval
print(literal_eval(input()) + 1)

#: eval of input
n = eval(input())
a = eval("[" + ",".join(input().split()) + "]")
print(n * 2, a)

#: getline
import linecache
print(repr(linecache.getline("/dev/stdin", 1)))

#: getpass
import getpass
try:
    print(getpass.getpass(""))
except Exception as e:
    print(type(e).__name__)

#: stdin copied by dup
import os
with os.fdopen(os.dup(0)) as f:
    print(f.readline())
print(repr(input()) if False else "end")

#: contextlib suppress
from contextlib import suppress
with suppress(EOFError):
    while True:
        print(len(input()))

#: readline module
try:
    import readline
except ImportError:
    pass
print(input())

#: cmd
import cmd, sys
class Shell(cmd.Cmd):
    prompt = ""
    use_rawinput = False
    def default(self, line): print("line", line)
    def emptyline(self): return True
Shell().cmdloop()
"""
