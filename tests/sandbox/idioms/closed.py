"""Streams that are closed, broken or gone."""

TEXT = r"""
#: all three None and an exception
import sys
print("x")
sys.stdin = sys.stdout = sys.stderr = None
1 / 0

#: close stderr and raise
import sys
print("x")
sys.stderr.close()
raise KeyError("x")

#: close stdin and input
import sys
sys.stdin.close()
input()

#: close the buffer unflushed
import sys
print("x")
sys.stdout.buffer.close()

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

#: os.close 2 and raise
import os
print("x")
os.close(2)
raise ValueError

#: os.close 0 and input
import os
os.close(0)
input()

#: detach and print
import sys
sys.stdout.detach()
print("x")

#: detach result dropped
import sys
print("x")
sys.stdout.detach()

#: closed pipe as stdout
import os
r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
print("x")

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
"""
