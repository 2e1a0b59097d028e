# ruff: noqa: E501
"""Files in the current folder and temporary ones."""

TEXT = r"""
#: written and read back
with open("x.txt", "w") as f:
    f.write("hello\n")
print(open("x.txt").read())

#: written and not closed
f = open("x.txt", "w")
f.write("hello\n")
print(repr(open("x.txt").read()))

#: written and never flushed
f = open("x.txt", "w")
f.write("hello\n")
print("end")

#: input file and output file
import os, sys
with open("in.txt", "w") as f: f.write(sys.stdin.read())
sys.stdin = open("in.txt")
sys.stdout = open("out.txt", "w")
print(input())
sys.stdout.close()
sys.stdout = sys.__stdout__
print(open("out.txt").read())

#: appended
for i in range(3):
    with open("log", "a") as f: print(i, file=f)
print(open("log").readlines())

#: random access
with open("b", "w+b") as f:
    f.write(bytes(range(100)))
    f.seek(50)
    print(f.read(3), f.tell())
    f.truncate(10)
import os
print(os.path.getsize("b"))

#: list of the folder
import os
print([n for n in os.listdir(".") if n != "solution.py"])
os.mkdir("d")
open("d/x", "w").close()
print(os.listdir("d"), os.path.isdir("d"))

#: walk
import os
os.makedirs("a/b/c")
open("a/b/f", "w").close()
print([(r, sorted(d), f) for r, d, f in os.walk("a")])

#: renamed and removed
import os
open("a", "w").write("x")
os.rename("a", "b")
print(os.path.exists("a"), os.path.exists("b"))
os.remove("b")
os.path.exists("b") or print("gone")

#: TemporaryFile
import tempfile
with tempfile.TemporaryFile("w+") as f:
    f.write("x")
    f.seek(0)
    print(f.read())

#: NamedTemporaryFile
import tempfile, os
with tempfile.NamedTemporaryFile() as f:
    f.write(b"x")
    f.flush()
    print(os.path.getsize(f.name))

#: TemporaryDirectory at the end
import tempfile, os
d = tempfile.TemporaryDirectory()
open(os.path.join(d.name, "x"), "w").close()
print(os.listdir(d.name))

#: gettempdir
import tempfile
print(tempfile.gettempdir())

#: pathlib
from pathlib import Path
p = Path("x.txt")
p.write_text("a\nb\n")
print(p.read_text().split(), p.exists(), p.stat().st_size, [q.name for q in Path(".").glob("*.txt")])

#: glob and shutil
import glob, shutil
open("a.txt", "w").close()
shutil.copy("a.txt", "b.txt")
print(sorted(glob.glob("*.txt")))

#: json file
import json
json.dump([1, 2], open("x.json", "w"))
print("end")

#: pickle file
import pickle
with open("x.pkl", "wb") as f: pickle.dump({"a": 1}, f)
with open("x.pkl", "rb") as f: print(pickle.load(f))

#: sqlite3 file
import sqlite3
db = sqlite3.connect("x.db")
db.execute("create table t (x)")
db.execute("insert into t values (1)")
db.commit()
db.close()
print(sqlite3.connect("x.db").execute("select * from t").fetchall())

#: shelve
import shelve
with shelve.open("s") as s: s["x"] = [1]
with shelve.open("s") as s: print(dict(s))

#: zipfile
import zipfile
with zipfile.ZipFile("x.zip", "w") as z: z.writestr("a", "hi")
print(zipfile.ZipFile("x.zip").read("a"))

#: own module written and imported
import sys
with open("helper.py", "w") as f: f.write("x = 5\n")
sys.path.insert(0, ".")
import helper
print(helper.x)

#: chdir
import os
os.mkdir("d")
os.chdir("d")
open("x", "w").close()
print(os.listdir("."), os.path.basename(os.getcwd()))

#: symlink
import os
os.symlink("target", "link")
print(os.readlink("link"), os.path.islink("link"))

#: read only file
import os
open("x", "w").close()
os.chmod("x", 0o444)
print(oct(os.stat("x").st_mode))

#: logging to a file
import logging
logging.basicConfig(filename="x.log", level=logging.INFO)
logging.info("hi")
print(open("x.log").read())

#: file written in a handler
import atexit
def f():
    with open("x", "w") as f: f.write("x")
    print("written")
atexit.register(f)

#: file with del
class A:
    def __init__(self): self.f = open("x", "w")
    def __del__(self): self.f.close(); print("closed")
a = A()

#: mmap of a file
import mmap
with open("x", "w+b") as f:
    f.write(b"hello world")
    f.flush()
    m = mmap.mmap(f.fileno(), 0)
    m[0:5] = b"HELLO"
    print(m[:])

#: refused and handled
try:
    f = open("/nonexistent/x", "w")
except OSError as e:
    print(type(e).__name__)

#: many open files
fs = [open("/dev/null") for _ in range(100)]
print(len(fs))

#: devices
print(open("/dev/zero", "rb").read(3), len(open("/dev/urandom", "rb").read(4)), open("/dev/null").read() == "")

#: is a directory
open("/proc")

#: cwd is a folder
import os
print(os.path.isdir(os.getcwd()), os.path.isabs(os.getcwd()))
"""
