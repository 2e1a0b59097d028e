# ruff: noqa: E501 (programs in one line)
"""Verdicts equal those of a plain subprocess that runs the file."""

import subprocess
import sys

import pytest

PROGRAMS = {
    "sum": "print(sum(map(int, input().split())))",
    "lines": "import sys\nfor line in sys.stdin: print(line.strip()[::-1])",
    "prompt": "x = input('give: ')\nprint(x)",
    "end of input": "input(); input(); input()",
    "exit code": "import sys\nprint('x')\nsys.exit(7)",
    "exit text": "import sys\nsys.exit('bad')",
    "exit none": "import sys\nsys.exit(None)",
    "exit large": "import sys\nsys.exit(256)",
    "exit negative": "import sys\nsys.exit(-1)",
    "exit bool": "import sys\nsys.exit(True)",
    "raise": "raise KeyError('k')",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['x']",
    "from": "try:\n    int('x')\nexcept ValueError as e:\n    raise RuntimeError('later') from e",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "note": "e = ValueError('x')\ne.add_note('a note')\nraise e",
    "assertion": "assert 1 == 2, 'no'",
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "syntax in eval": "eval('1 +')",
    "syntax in exec": "exec('x = = 1')",
    "name": "print(undefined_name)",
    "suggestion": "import math\nmath.sqr(2)",
    "stdout and stderr": "import sys\nprint('out')\nprint('err', file=sys.stderr)",
    "buffer": "import sys\nsys.stdout.buffer.write(b'a')\nprint('b')",
    "unflushed": "import os, sys\nsys.stdout.write('lost?')\nos._exit(0)",
    "thread error": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nprint('on')",
    "del error": "class A:\n    def __del__(self): raise ValueError('d')\na = A()\ndel a\nprint('on')",
    "global del": "class A:\n    def __del__(self): print('bye')\na = A()",
    "atexit order": "import atexit\natexit.register(print, 1)\natexit.register(print, 2)",
    "atexit error": "import atexit\natexit.register(lambda: 1 / 0)\nprint('x')",
    "main thread": "import os, threading as t\nm = t.main_thread()\nprint(m is t.current_thread(), m.ident == t.get_ident(), m.native_id == os.getpid(), m.is_alive(), t.active_count())",
    "thread left running": "import threading, time\ndef f():\n    time.sleep(0.05)\n    print('later')\nthreading.Thread(target=f).start()\nprint('first')",
    "daemon left running": "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nprint('x')",
    "pool left open": "import atexit, time\nfrom concurrent.futures import ThreadPoolExecutor\natexit.register(print, 'end')\nThreadPoolExecutor(2).map(lambda n: (time.sleep(0.05), print(n)), [1])",
    "system exit in thread": "import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()\nprint('x')",
    "signal": "import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "abort": "import os\nos.abort()",
    "interrupt": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(1)",
    "pipe closed": "import os, sys\nos.close(1)\nprint('x')",
    "encoding": "print('é', input().encode())",
    "unicode": "print(input()[::-1])",
    "main guard": "def main():\n    print('main')\nif __name__ == '__main__':\n    main()",
    "globals": "print(sorted(k for k in globals() if not k.startswith('__')))",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "doc": "'''doc'''\nprint(__doc__)",
    "builtins": "print(__builtins__.__name__, __spec__ is None)",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nprint(P())",
    "typing": "from typing import *\ndef f(x: Optional[List[int]]) -> None: ...\nprint(get_type_hints(f))",
    "fast input": "import sys\ninput = sys.stdin.buffer.readline\nprint(int(input().split()[0]) * 2)",
    "read fd": "import os\nprint(os.read(0, 100))",
    "import this": "import string, bisect, heapq\nprint(bisect.bisect([1, 2, 3], 2), heapq.nsmallest(1, [3, 2]))",
    "limits": "import sys\nprint(10 ** 4000 > 0)\nprint(str(10 ** 5000)[:3])",
    "inspect": "import inspect\ndef f(): return inspect.stack()[0].function\nprint(f(), len(inspect.stack()[:1]))",
    "decimal": "from decimal import *\ngetcontext().prec = 5\nprint(Decimal(1) / 3)",
    "future": "from __future__ import annotations\nimport sys\nprint(sys.version_info >= (3, 11))",
    "walrus": "while (line := input()) != '': print(line)",
    "match": "match input().split():\n    case [a, *_]: print(a)",
}
INPUT = "12 34\nsecond ü\n\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_run_equals_a_plain_one(box, tmp_path, name):
    (tmp_path / "solution.py").write_text(PROGRAMS[name])
    plain = subprocess.run(
        [sys.executable, "-I", "solution.py"], input=INPUT.encode(), capture_output=True, cwd=tmp_path, timeout=60,
        env={"PYTHONUTF8": "1", "LANG": "C.UTF-8"},
    )  # fmt: skip
    facts = box.run(PROGRAMS[name], INPUT)
    assert facts.stdout == plain.stdout
    assert facts.returncode == plain.returncode
    shown = plain.stderr.replace(str(tmp_path).encode() + b"/", b"")
    if name not in (
        "thread error",
        "del error",
        "atexit error",
        "pipe closed",
    ):  # their wording is the interpreter's
        assert facts.stderr == shown
    else:
        assert bool(facts.stderr) == bool(shown)
