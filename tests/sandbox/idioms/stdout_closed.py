"""sys.stdout is closed, deleted, detached or None; what is left unflushed; failures to flush at the end."""

TEXT = r"""
#: del
import sys
print("before")
del sys.stdout

#: del and print
import sys
print("before")
del sys.stdout
print("after")

#: del and write to __stdout__
import sys
print("before")
del sys.stdout
sys.__stdout__.write("after\n")

#: None
import sys
print("before")
sys.stdout = None
print("ignored")

#: None and restored
import sys
sys.stdout = None
print("ignored")
sys.stdout = sys.__stdout__
print("seen")

#: all three None
import sys
print("x")
sys.stdin = sys.stdout = sys.stderr = None

#: all three None and an exception
import sys
print("x")
sys.stdin = sys.stdout = sys.stderr = None
1 / 0

#: close
import sys
print("x")
sys.stdout.close()

#: close and print
import sys
print("x")
sys.stdout.close()
print("y")

#: close twice
import sys
print("x")
sys.stdout.close()
sys.stdout.close()

#: close and atexit prints
import sys, atexit
atexit.register(print, "late")
print("x")
sys.stdout.close()

#: close and __del__ prints
import sys
class A:
    def __del__(self):
        print("late")
a = A()
print("x")
sys.stdout.close()

#: close both
import sys
print("x")
sys.stdout.close()
sys.stderr.close()

#: close stderr and raise
import sys
print("x")
sys.stderr.close()
raise KeyError("x")

#: close stdin
import sys
print(sys.stdin.readline().strip())
sys.stdin.close()

#: close stdin and input
import sys
sys.stdin.close()
input()

#: close the buffer
import sys
print("x")
sys.stdout.flush()
sys.stdout.buffer.close()

#: close the buffer unflushed
import sys
print("x")
sys.stdout.buffer.close()

#: close the raw file
import sys
print("x", flush=True)
sys.stdout.buffer.raw.close()

#: close the raw file unflushed
import sys
print("x")
sys.stdout.buffer.raw.close()

#: close __stdout__
import sys
print("x")
sys.__stdout__.close()

#: os.close 1 unflushed
import os
print("x")
os.close(1)

#: os.close 1 flushed
import os
print("x", flush=True)
os.close(1)

#: os.close 1 nothing written
import os
os.close(1)

#: os.close 2
import os
print("x")
os.close(2)

#: os.close 2 and raise
import os
print("x")
os.close(2)
raise ValueError

#: os.close 0
import os
print("x")
os.close(0)

#: os.close 0 and input
import os
os.close(0)
input()

#: os.close 1 and exit 3
import os, sys
print("x")
os.close(1)
sys.exit(3)

#: os.close 1 and an exception
import os
print("x")
os.close(1)
1 / 0

#: os.closerange
import os
print("x", flush=True)
os.closerange(0, 3)

#: detach
import sys
print("x")
raw = sys.stdout.detach()
raw.write(b"y\n")

#: detach and print
import sys
sys.stdout.detach()
print("x")

#: detach and caught
import sys
raw = sys.stdout.detach()
try:
    print("x")
except ValueError as e:
    raw.write(str(e).encode())

#: detach twice
import sys
buffer = sys.stdout.detach()
raw = buffer.detach()
raw.write(b"raw\n")

#: detach result dropped
import sys
print("x")
sys.stdout.detach()

#: detach stdin
import sys
data = sys.stdin.detach().read()
print(len(data))

#: closed pipe as stdout
import os
r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
print("x")

#: closed pipe as stdout flushed and caught
import os, sys
r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
try:
    print("x", flush=True)
except BrokenPipeError:
    sys.exit(5)

#: closed pipe and silenced as the manual says
import os, sys
r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
try:
    print("x")
    sys.stdout.flush()
except BrokenPipeError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)

#: closed pipe with SIGPIPE by default
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
print("x")

#: fd 1 read only
import os
os.dup2(os.open(os.devnull, os.O_RDONLY), 1)
print("x")

#: full device as stdout
import os
try:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
except OSError:
    os.close(1)
print("x")

#: unencodable at exit
import sys
sys.stdout.reconfigure(encoding="ascii")
print("plain")
print("wörld")

#: surrogates unflushed
print("fine")
print("\ud800")

#: surrogates written and caught
try:
    print("\ud800")
except UnicodeEncodeError as e:
    print(e.reason)

#: stdout deleted and __stdout__ None
import sys
out = sys.stdout
out.write("x\n")
del sys.stdout
sys.__stdout__ = None
del out

#: the last reference to stdout goes
import sys
print("x")
sys.stdout = sys.__stdout__ = None

#: the last reference to stdout goes with one in a cycle
import sys
class A: pass
a = A()
a.me, a.out = a, sys.stdout
print("x")
sys.stdout = sys.__stdout__ = None
del a

#: stdout replaced by a closed file
import sys, os
print("lost?")
sys.stdout = open(os.devnull, "w")
sys.stdout.close()

#: closed property fails
import sys
class Out:
    def __init__(self, real): self.real = real
    def write(self, text): self.real.write(text)
    def flush(self): self.real.flush()
    @property
    def closed(self): raise RuntimeError("unknown")
sys.stdout = Out(sys.stdout)
print("x")

#: stderr flush fails
import sys
class Err:
    def write(self, text): pass
    def flush(self): raise OSError("cannot")
sys.stderr = Err()
print("x")

#: stderr write fails and an exception
import sys
class Err:
    def write(self, text): raise OSError("cannot")
    def flush(self): pass
sys.stderr = Err()
print("x")
raise ValueError("v")

#: buffer filled beyond its size then os.close
import os, sys
sys.stdout.write("x" * 10000 + "\n")
os.close(1)

#: much output then _exit
import os
for i in range(5000):
    print(i)
os._exit(0)
"""
