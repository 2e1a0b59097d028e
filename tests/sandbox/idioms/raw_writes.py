"""Writes past sys.stdout, C's buffers and devices, mixed with prints."""

TEXT = r"""
#: os.write after print
import os
print("printed")
os.write(1, b"written\n")

#: os.write after a flushed print
import os
print("printed", flush=True)
os.write(1, b"written\n")
print("end")

#: os.write loop
import os
for i in range(5):
    os.write(1, str(i).encode())
os.write(1, b"\n")

#: os.writev
import os
os.writev(1, [b"a", b"bc", b"\n"])

#: buffer write after print
import sys
print("printed")
sys.stdout.buffer.write(b"written\n")
sys.stdout.buffer.flush()
print("end")

#: raw write after print
import sys
print("printed")
sys.stdout.buffer.raw.write(b"written\n")

#: large writes and small ones
import sys
for i in range(200):
    sys.stdout.write("x" * i + "\n")
sys.stdout.buffer.write(b"y" * 20000)
print("end")

#: ctypes printf
import ctypes
ctypes.CDLL(None).printf(b"from C\n")

#: ctypes puts and print
import ctypes
print("from Python")
ctypes.CDLL(None).puts(b"from C")

#: ctypes printf with fflush
import ctypes
libc = ctypes.CDLL(None)
libc.printf(b"from C %d\n", 7)
libc.fflush(None)
print("from Python")

#: ctypes printf then os._exit
import ctypes, os
ctypes.CDLL(None).printf(b"lost\n")
os._exit(0)

#: ctypes printf then sys.exit
import ctypes, sys
ctypes.CDLL(None).printf(b"kept\n")
sys.exit(3)

#: ctypes printf then an exception
import ctypes
ctypes.CDLL(None).printf(b"kept\n")
raise ValueError

#: ctypes exit
import ctypes
print("lost")
ctypes.CDLL(None).exit(3)

#: ctypes atexit
import ctypes
libc = ctypes.CDLL(None)
CALL = ctypes.CFUNCTYPE(None)
print(libc.puts(b"x") >= 0)

#: ctypes write
import ctypes
libc = ctypes.CDLL(None)
libc.write(1, b"written\n", 8)
print("printed")

#: SpooledTemporaryFile in memory
import sys
from tempfile import SpooledTemporaryFile
out = SpooledTemporaryFile(1 << 20, "w+")
out.write("spooled\n")
out.seek(0)
sys.stdout.write(out.read())

#: dup kept in a global
import os
out = os.fdopen(os.dup(1), "w")
out.write("copy\n")
print("original")

#: sendfile like copy
import os, sys
data = os.read(0, 1 << 16)
while data:
    os.write(1, data)
    data = os.read(0, 1 << 16)

#: shutil copyfileobj
import shutil, sys
shutil.copyfileobj(sys.stdin, sys.stdout)

#: writer with __del__ of the program's own
import os
class Writer:
    def __init__(self): self.parts = []
    def __call__(self, *words): self.parts.append(" ".join(map(str, words)))
    def __del__(self): os.write(1, "\n".join(self.parts).encode() + b"\n")
out = Writer()
out("a", 1)
out("b", 2)

#: writer with close of the program's own by finalize
import weakref, os
class Writer: pass
parts = []
w = Writer()
weakref.finalize(w, lambda: os.write(1, "".join(parts).encode()))
parts.append("a\n")
parts.append("b\n")

#: BufferedRandom of a pipe
import io, os
r, w = os.pipe()
f = io.open(w, "wb")
f.write(b"through a pipe")
f.close()
print(io.open(r, "rb").read())

#: dev stdout
out = open("/dev/stdout", "w")
out.write("device\n")

#: dev stdout after a flushed print
print("first", flush=True)
with open("/dev/stdout", "w") as out:
    out.write("second\n")
print("third")

#: dev stdout appended
print("first", flush=True)
with open("/dev/stdout", "a") as out:
    out.write("second\n")
print("third")

#: dev fd 1
with open("/dev/fd/1", "w") as out:
    out.write("device\n")

#: proc self fd 1
with open("/proc/self/fd/1", "w") as out:
    out.write("device\n")

#: dev stderr
with open("/dev/stderr", "w") as err:
    err.write("device\n")
print("x")
"""
