# ruff: noqa: E501
"""Programs of a line or two that differ by a value, a name or a call only."""

EXIT_CODES = (
    "None", "", "0", "1", "255", "256", "1000", "-1", "-256", "10 ** 30", "-10 ** 30", "2 ** 31", "2 ** 32 + 5",
    "2 ** 63", "2 ** 64", "-2 ** 63 - 1", "True", "False", "'text'", "''", "1.5", "0.0", "(1, 2)", "()", "[1]",
    "b'x'", "'\\ud800'", "KeyError('k')", "SystemExit(3)",
)  # fmt: skip
SIGNALS = ("TERM", "KILL", "SEGV", "FPE", "USR1", "HUP", "INT", "ALRM", "PIPE", "XFSZ", "ABRT")

# How programs fail, each with what it says.
ERRORS = r"""
raise MemoryError
x = [0] * (1 << 60)
"\ud800".encode()
b"\xff".decode()
eval("1 +")
exec("x = = 1")
compile("def f(:", "name", "exec")
raise SyntaxError("by hand")
raise SyntaxError("by hand", ("file.py", 3, 5, "some text", 3, 9))
exec("if 1:\n\tx = 1\n        y = 2")
x = = 1
  x = 1
return 5
print "never printed"
1 // 0
{"a": 1}["b"]
import math; math.sqr(4)
count = 1; print(cuont)
print(math.pi)
def f(a, b): pass; f(1)
int("1" * 5000)
str(10 ** 5000)
assert 1 + 1 == 3, "wrong"
assert []
import no_such_module
from math import no_such_name
open("/no such file")
input(); input(); input(); input(); input(); input()
raise int
raise KeyError
raise KeyboardInterrupt("stop")
raise GeneratorExit
raise StopAsyncIteration
raise BaseException("b")
raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
sorted([1, "a"], key=lambda x: x + 1)
eval("(" * 300 + "1" + ")" * 300)
"""

# What programs find out about themselves and their world.
FACTS = r"""
import os, sys; print(__name__, os.path.basename(__file__), len(sys.argv), os.path.basename(sys.argv[0]))
print(__spec__, __package__, __doc__, __cached__, type(__loader__).__name__, sorted(globals()))
import builtins; print([n for n in dir(builtins) if n not in ("exit", "quit", "copyright", "credits", "license", "help", "_")][-5:])
import sys, re; print(re.sub(r"'[^']*solution.py'", "FILE", repr(sys.modules["__main__"])), sys._getframe().f_lineno)
import sys; print("__main__" in sys.modules, sys.modules["__main__"].__dict__ is globals(), len(sys.modules) > 10)
import sys; print(sys.flags.optimize, sys.flags.no_site, sys.flags.utf8_mode, type(sys.path), all(isinstance(p, str) for p in sys.path), "" in sys.path, sys.argv)
import sys; print(sys.maxsize, sys.getrecursionlimit(), sys.int_info, sys.float_info.max, sys.getsizeof([]))
import threading, os; print(threading.main_thread().native_id == os.getpid(), threading.get_native_id() == os.getpid())
import sys, inspect; print(len(inspect.getsource(sys.modules[__name__])) > 10)
import linecache; print(repr(linecache.getline(__file__, 1)))
import os; print(len(open(__file__).read()))
import inspect; print(len(inspect.stack()))
import os; print(os.getenv("ONLINE_JUDGE"), "USER" in os.environ, os.path.expanduser("~") != "")
import os; print(os.getpid() > 0, os.getuid() >= 0, os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0, os.nice(1) >= 0)
import time; print(time.strftime("%Y", time.gmtime(0)), time.localtime(0).tm_hour, time.tzname)
import random; print(0 <= random.random() < 1, random.Random(42).getrandbits(64), hash("abc"), hash((1, "x")))
print(set("the quick brown fox jumps over the lazy dog".split()), hash(None) == hash(None))
import sys; print([(f.encoding, f.errors, f.line_buffering, f.isatty(), f.seekable(), f.mode) for f in (sys.stdin, sys.stdout, sys.stderr)])
import sys, locale; print(sys.getdefaultencoding(), sys.getfilesystemencoding(), locale.getpreferredencoding(False), sys.stdout.write_through)
import os, stat; print([(stat.S_ISFIFO(os.fstat(n).st_mode), os.fstat(n).st_size) for n in (0, 1)])
print("é ☃ 𝄞 \N{SNOWMAN} \x00 \x7f \u200b| a\rb\r\nc\n\rd \ufeffx")
import os; print(os.pipe(), os.open("/dev/null", 0))
import os; print(sorted(map(int, os.listdir("/proc/self/fd")))[:3])
import solution
import copy; f = lambda: 0; copy.weakref.finalize(f, print, "an exit handler of a module that looks plain"); print("x")
import subprocess; print(subprocess.run(["true"]).returncode)
import os; print(os.system("true"))
"""

_LINE = b"x" * (1 << 20) + b"\nend"
_MANY = b"20001\n" + b"".join(b"%d\n" % n for n in range(20000))
# Inputs at the edge of what programs expect, and who reads them.
INPUTS = {
    "no trailing newline": (b"a\nb", "print(input(), input())"),
    "empty": (b"", "import sys; print(repr(sys.stdin.readline()), list(sys.stdin))"),
    "empty and input": (b"", "input()"),
    "empty and os.read": (b"", "import os; print(os.read(0, 10))"),
    "CRLF": (b"1 2\r\n3\r\n", "print(repr(input()), repr(input()))"),
    "CRLF by bytes": (b"1 2\r\n3\r\n", "import sys; print(sys.stdin.buffer.readlines())"),
    "CR only": (b"1\r2\r3", "import sys; print([*sys.stdin], sys.stdin.newlines)"),
    "not UTF-8": (b"a\xff\xfeb\n", "print(input())"),
    "not UTF-8 by bytes": (b"a\xff\xfeb\n", "import os; print(os.read(0, 10 ** 6))"),
    "byte order mark": (b"\xef\xbb\xbf12\n", "print(repr(input()))"),
    "null bytes": (b"a\0b\x1a\n", "print(repr(input()))"),
    "huge line": (_LINE, "import sys; print(len(sys.stdin.readline()), len(sys.stdin.buffer.readline()))"),
    "many lines echoed": (_MANY, "import sys; sys.stdout.writelines(sys.stdin)"),
    "many lines left unread": (_MANY, "import sys; print(input()); sys.stdin.close()"),
    "integer too long": (b"7" * 5000, "print(int(input()) % 7)"),
    "every byte": (bytes(range(256)) * 40, "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"),
}


def programs() -> dict[str, str]:
    """By name."""
    found = {f"exit code: {code}": f"import sys\nprint('x')\nsys.exit({code})\n" for code in EXIT_CODES}
    for name in SIGNALS:
        found[f"signal: {name}"] = (
            f"import os, signal, time\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIG{name})\n"
            "time.sleep(0.05)\nprint('went on')\n"
        )
    found |= {f"error: {line}": f"print('x')\n{line}\n" for line in ERRORS.strip("\n").split("\n")}
    found |= {f"fact: {line}": f"{line}\n" for line in FACTS.strip("\n").split("\n")}
    return found | {f"input: {name}": f"{code}\n" for name, (_, code) in INPUTS.items()}
