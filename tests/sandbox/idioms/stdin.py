"""Ways to read, and encodings."""

TEXT = r"""
#: input with a prompt and stdout replaced
import sys, io
sys.stdout = io.StringIO()
x = input("prompt ")
sys.__stdout__.write(repr(sys.stdout.getvalue()) + x + "\n")

#: stdin then input
import sys
print(next(sys.stdin))
print(input())

#: buffer readline after input
import sys
print(input())
try:
    print(sys.stdin.buffer.readline())
except Exception as e:
    print(type(e).__name__)

#: raw read
import sys
print(len(sys.stdin.buffer.raw.readall()))

#: open 0 twice
a = open(0, closefd=False).readline()
b = open(0, closefd=False).readline()
print(a, repr(b))

#: dev stdin after input
print(input())
print(repr(open("/dev/stdin").read()))

#: dev fd 0
with open("/dev/fd/0") as f:
    print(f.readline())

#: seek back
import sys, io
text = sys.stdin.read()
try:
    sys.stdin.seek(0)
    print("again", len(sys.stdin.read()) == len(text))
except io.UnsupportedOperation:
    print("once")

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

#: latin-1 error
import sys
sys.stdout.reconfigure(encoding="latin-1")
print("☃")

#: errors surrogatepass
import sys
sys.stdout.reconfigure(errors="surrogatepass")
print("a\ud800b")

#: utf-8-sig
import sys
sys.stdout.reconfigure(encoding="utf-8-sig")
print("x")
print("y")

#: newline CRLF
import sys
sys.stdout.reconfigure(newline="\r\n")
print("x\ny")

#: line buffering and os._exit
import sys, os
sys.stdout.reconfigure(line_buffering=True)
print("kept")
print("lost", end="")
os._exit(0)

#: write through and os._exit
import sys, os
sys.stdout.reconfigure(write_through=True)
print("in the binary buffer", end="")
os._exit(0)

#: stdin latin-1
import sys
sys.stdin.reconfigure(encoding="latin-1")
print(ascii(sys.stdin.read()))

#: coding cookie
# -*- coding: utf-8 -*-
print("wörld")

#: print to a file object of no kind
import sys
class F:
    def __init__(self): self.n = 0
    def write(self, s): self.n += len(s)
f = F()
print("abc", "d", file=f)
print(f.n)
"""
