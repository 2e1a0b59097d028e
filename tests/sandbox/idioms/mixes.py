# ruff: noqa: E501
"""Writes programs whose parts meet at the end: each deterministic, however its parts are combined."""

import random

STDIN = "5\n3 1 4 1 5\nhello wörld\n".encode()

# Each leaves a list of words in `words`.
READS = {
    "input": "words = [input(), *input().split()]",
    "input until the end": "words = []\ntry:\n    while True: words += input().split()\nexcept EOFError:\n    pass",
    "sentinel": "words = ' '.join(iter(input, 'hello wörld')).split()",
    "stdin": "words = [w for line in sys.stdin for w in line.split()]",
    "stdin read": "words = sys.stdin.read().split()",
    "readline": "input = sys.stdin.readline\nwords = (input() + input()).split()",
    "buffer": "words = sys.stdin.buffer.read().decode().split()",
    "open 0": "words = open(0).read().split()",
    "open 0 kept open": "source = open(0, closefd=False)\nwords = source.readline().split()",
    "os.read": "words = os.read(0, 1 << 16).decode().split()",
    "os.fstat": "sys.stdin = io.BytesIO(os.read(0, os.fstat(0).st_size or 1 << 16))\ninput = lambda: sys.stdin.readline().decode().rstrip()\nwords = [input(), *input().split()]",
    "StringIO": "sys.stdin = io.StringIO(sys.stdin.read())\nwords = [input(), input()]",
    "fileinput": "words = [line.strip() for line in fileinput.input()]",
    "nothing": "words = ['3', '1', '2']",
    "nothing and closed": "sys.stdin.close()\nwords = ['x']",
}

# Each makes `say`, which writes words.
SAYS = {
    "print": "def say(*words): print(*words)",
    "print flushed": "say = functools.partial(print, flush=True)",
    "print without newline": "say = functools.partial(print, end=';')",
    "write": "def say(*words): sys.stdout.write(' '.join(map(str, words)) + '\\n')",
    "write bound": "_write = sys.stdout.write\ndef say(*words): _write(' '.join(map(str, words)) + '\\n')",
    "__stdout__": "def say(*words): print(*words, file=sys.__stdout__)",
    "buffer": "_buffer = sys.__stdout__.buffer\ndef say(*words): _buffer.write((' '.join(map(str, words)) + '\\n').encode())",
    "os.write": "def say(*words): os.write(1, (' '.join(map(str, words)) + '\\n').encode())",
    "own text": "out = open(1, 'w', closefd=False)\ndef say(*words): print(*words, file=out)",
    "own text closing": "out = open(1, 'w')\ndef say(*words): print(*words, file=out)",
    "own bytes": "class Fast:\n    out = io.open(1, 'wb', buffering=1 << 16, closefd=False)\ndef say(*words): Fast.out.write((' '.join(map(str, words)) + '\\n').encode())",
    "own in a default": "def say(*words, out=os.fdopen(os.dup(1), 'w')): print(*words, file=out)",
    "own in a closure": "def make():\n    out = open(1, 'w', closefd=False)\n    return lambda *words: print(*words, file=out)\nsay = make()",
    "own in a cycle": "class Fast:\n    def __init__(self): self.me, self.out = self, open(1, 'w', closefd=False)\n    def say(self, *words): print(*words, file=self.out)\nsay = Fast().say",
    "own IOBase": "class Fast(io.IOBase):\n    def __init__(self): self.parts = []\n    def write(self, text): self.parts.append(text)\n    def flush(self):\n        text, self.parts = ''.join(self.parts), []\n        os.write(1, text.encode())\nfast = Fast()\ndef say(*words): fast.write(' '.join(map(str, words)) + '\\n')",
    "list joined by a handler": "_lines = []\ndef say(*words): _lines.append(' '.join(map(str, words)))\natexit.register(lambda: print('\\n'.join(_lines)))",
    "list joined by __del__": "class Lines(list):\n    def __del__(self): os.write(1, '\\n'.join(self).encode() + b'\\n')\n_lines = Lines()\ndef say(*words): _lines.append(' '.join(map(str, words)))",
    "C": "libc = ctypes.CDLL(None)\ndef say(*words): libc.printf(b'%s\\n', ' '.join(map(str, words)).encode())",
    "logging": "logging.basicConfig(stream=sys.stdout, format='%(message)s')\ndef say(*words): logging.error('%s', ' '.join(map(str, words)))",
    "stderr too": "def say(*words):\n    print(*words, file=sys.stderr)\n    print(*words)",
}

# What becomes of sys.stdout, at any moment before the output.
STREAMS = {
    "StringIO dumped by a handler": "sys.stdout = io.StringIO()\natexit.register(lambda: sys.__stdout__.write(sys.stdout.getvalue()))",
    "StringIO lost": "sys.stdout = io.StringIO()",
    "wrapper": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
    "wrapper of the detached": "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8', line_buffering=True)",
    "open 1": "sys.stdout = open(1, 'w', closefd=False)",
    "open 1 closing": "sys.stdout = open(1, 'w')",
    "dup": "sys.stdout = os.fdopen(os.dup(1), 'w')",
    "codecs": "sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)",
    "only write": "class Out:\n    def __init__(self, real): self.real = real\n    def write(self, text): self.real.write(text.upper())\nsys.stdout = Out(sys.stdout)",
    "tee": "class Tee:\n    def __init__(self, *files): self.files = files\n    def write(self, text):\n        for file in self.files: file.write(text)\n    def flush(self):\n        for file in self.files: file.flush()\nsys.stdout = Tee(sys.stdout, sys.stderr)",
    "collected by __del__": "class Held:\n    def __init__(self, real): self.real, self.parts = real, []\n    def write(self, text): self.parts.append(text)\n    def flush(self): pass\n    def __del__(self):\n        self.real.write(''.join(self.parts))\n        self.real.flush()\nsys.stdout = Held(sys.stdout)",
    "FastIO": "class FastO(io.IOBase):\n    def __init__(self, file): self.fd, self.buffer = file.fileno(), io.BytesIO()\n    def write(self, text): self.buffer.write(text.encode())\n    def flush(self):\n        os.write(self.fd, self.buffer.getvalue())\n        self.buffer.truncate(0), self.buffer.seek(0)\nsys.stdout = FastO(sys.stdout)",
    "reconfigured": "sys.stdout.reconfigure(line_buffering=True)",
    "write through": "sys.stdout.reconfigure(write_through=True)",
    "ascii": "sys.stdout.reconfigure(encoding='ascii', errors='replace')",
    "stderr": "sys.stdout = sys.stderr",
    "None": "sys.stdout = None",
}

# What is prepared for the end. {n} tells two of a kind apart.
PREPARED = {
    "handler": "atexit.register(print, 'handler {n}')",
    "handler that says": "atexit.register(lambda: say('handler {n}', len(words)))",
    "handler in a handler": "atexit.register(lambda: (print('outer {n}'), atexit.register(print, 'inner {n}')))",
    "handler that raises": "atexit.register(lambda: {{}}['handler {n}'])",
    "handler that exits": "atexit.register(sys.exit, {n})",
    "handler that flushes": "atexit.register(lambda: sys.stdout.flush())",
    "handler that closes stdout": "atexit.register(lambda: sys.stdout.close())",
    "handler that collects": "atexit.register(gc.collect)",
    "__del__": "class Del{n}:\n    def __del__(self): print('del {n}')\ndel{n} = Del{n}()",
    "__del__ that says": "class Say{n}:\n    def __del__(self): say('del {n}')\nsay{n} = Say{n}()",
    "__del__ private": "class Priv{n}:\n    def __del__(self): os.write(1, b'private del {n}\\n')\n_priv{n} = Priv{n}()",
    "__del__ with globals": "class Glob{n}:\n    def __del__(self): print('globals', len(words), math.gcd(12, 18), sorted(words)[:1])\nglob{n} = Glob{n}()",
    "__del__ that raises": "class Raise{n}:\n    def __del__(self): raise ValueError('del {n}')\nraise{n} = Raise{n}()",
    "__del__ that comes back": "class Back{n}:\n    def __del__(self):\n        print('back {n}')\n        globals()['again{n}'] = self\nback{n} = Back{n}()",
    "__del__ in builtins": "class Built{n}:\n    def __del__(self): os.write(1, b'builtins {n}\\n')\nbuiltins.built{n} = Built{n}()",
    "__del__ in a default": "class Def{n}:\n    def __del__(self): print('default {n}')\ndef with_default{n}(x=Def{n}()): pass",
    "cycle": "class Cycle{n}:\n    def __init__(self): self.me = self\n    def __del__(self): print('cycle {n}')\nCycle{n}()",
    "cycle kept": "class Kept{n}:\n    def __init__(self): self.me = self\n    def __del__(self): print('kept cycle {n}', len(words))\nkept{n} = Kept{n}()",
    "cycle of two": "class Two{n}:\n    def __init__(self, name): self.name = name\n    def __del__(self): print('two {n}', self.name)\na{n}, b{n} = Two{n}('a'), Two{n}('b')\na{n}.other, b{n}.other = b{n}, a{n}",
    "finalize": "class Final{n}: pass\nfinal{n} = Final{n}()\nweakref.finalize(final{n}, print, 'finalize {n}')",
    "finalize that says": "class FSay{n}: pass\nfsay{n} = FSay{n}()\nweakref.finalize(fsay{n}, say, 'finalize {n}')",
    "weakref callback": "class Weak{n}: pass\nweak{n} = Weak{n}()\nref{n} = weakref.ref(weak{n}, lambda _: print('callback {n}'))",
    "daemon": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "daemon on a queue": "queue{n} = queue.Queue()\nthreading.Thread(target=queue{n}.get, daemon=True).start()",
    "pool left open": "pool{n} = ThreadPoolExecutor(1)\npool{n}.submit(print, 'job {n}').result()",
    "timer cancelled": "timer{n} = threading.Timer(60, print, ['never'])\ntimer{n}.start()\ntimer{n}.cancel()",
    "generator": "def gen{n}():\n    try: yield\n    finally: print('generator {n}')\ng{n} = gen{n}()\nnext(g{n})",
    "generator in a list": "def lgen{n}(i):\n    try: yield\n    finally: print('generator {n}', i)\nlist{n} = [lgen{n}(i) for i in range(1)]\nfor x in list{n}: next(x)",
    "generator in a cycle": "def cgen{n}():\n    me = yield\n    try: yield\n    finally: print('generator in a cycle {n}')\nc{n} = cgen{n}()\nnext(c{n})\nc{n}.send(c{n})\ndel c{n}",
    "coroutine": "async def co{n}(): print('never')\nco{n}_ = co{n}()",
    "ExitStack": "stack{n} = contextlib.ExitStack()\nstack{n}.callback(print, 'stack {n}')\natexit.register(stack{n}.close)",
    "own writer": "own{n} = open(1, 'w', closefd=False)\nown{n}.write('own writer {n}\\n')",
    "own writer in a cycle": "class Own{n}:\n    def __init__(self): self.me, self.out = self, open(1, 'wb', closefd=False)\nOwn{n}().out.write(b'own writer in a cycle {n}\\n')",
    "C buffer": "ctypes.CDLL(None).puts(b'C {n}')",
    "excepthook": "sys.excepthook = lambda kind, *rest: print('hook {n}', kind.__name__)",
    "unraisablehook": "sys.unraisablehook = lambda what: print('unraisable {n}', what.exc_type.__name__)",
    "thread excepthook": "threading.excepthook = lambda what: print('thread hook {n}', what.exc_type.__name__)",
    "cache": "@functools.lru_cache(None)\ndef cached{n}(x): return [x]\ncached{n}(1)",
    "gc off": "gc.disable()",
    "gc now": "gc.collect()",
    "alarm unused": "signal.alarm(50)",
    "recursion limit": "sys.setrecursionlimit(10 ** 5)",
    "stack size": "threading.stack_size(1 << 26)",
    "faulthandler": "faulthandler.enable()",
}

# At most one of these, for two of them would race. Each waits until the main thread is done (pools are waited for
# before it is).
LATE = {
    "thread": "def late():\n    threading.main_thread().join()\n    print('late')\nthreading.Thread(target=late).start()",
    "thread that says": "def late():\n    threading.main_thread().join()\n    say('late', words)\nthreading.Thread(target=late).start()",
    "thread that raises": "def late():\n    threading.main_thread().join()\n    raise KeyError('late')\nthreading.Thread(target=late).start()",
    "thread that registers": "def late():\n    threading.main_thread().join()\n    atexit.register(print, 'late handler')\nthreading.Thread(target=late).start()",
    "thread that exits": "def late():\n    threading.main_thread().join()\n    print('late')\n    sys.exit(9)\nthreading.Thread(target=late).start()",
    "timer": "def late():\n    threading.main_thread().join()\n    print('late timer')\nthreading.Timer(0.001, late).start()",
    "pool": "import concurrent.futures.thread as pools\ndef late():\n    while not pools._shutdown: time.sleep(0.001)\n    print('late job')\nThreadPoolExecutor(1).submit(late)",
}

# The last lines.
ENDS = {
    "falls off": "pass",
    "says and falls off": "say('last')",
    "sys.exit": "sys.exit()",
    "sys.exit 0": "sys.exit(0)",
    "sys.exit 3": "sys.exit(3)",
    "sys.exit text": "sys.exit('text')",
    "sys.exit big": "sys.exit(2 ** 70)",
    "sys.exit negative": "sys.exit(-1)",
    "sys.exit of a false value": "sys.exit('')",
    "SystemExit": "raise SystemExit(words[:1])",
    "sys.exit in finally": "try:\n    1 / 0\nfinally:\n    say('finally')\n    sys.exit(4)",
    "error": "words[100]",
    "error in a function": "def fail(x):\n    held = [x]\n    return {}[x]\nfail('key')",
    "error of its own": "class Wrong(Exception): pass\nraise Wrong('wrong')",
    "error in finally": "try:\n    sys.exit(0)\nfinally:\n    int('x')",
    "error chained": "try:\n    int('x')\nexcept ValueError as e:\n    raise RuntimeError('r') from e",
    "group": "raise ExceptionGroup('g', [ValueError(1)])",
    "recursion": "def deep(n): return deep(n + 1) + 1\nsys.setrecursionlimit(1500)\ndeep(0)",
    "error caught and kept": "try:\n    words[100]\nexcept IndexError as e:\n    kept_error = e\nsay('caught')",
    "interrupt": "raise KeyboardInterrupt",
    "error in a thread": "t = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nsay('joined')",
    "exit in a thread": "t = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\nsay('joined')",
    "solved in a thread": "def main(): say('main', *words[:2])\nt = threading.Thread(target=main)\nt.start()\nt.join()",
    "asyncio": "async def main():\n    await asyncio.sleep(0)\n    say('main')\nasyncio.run(main())",
    "os._exit": "os._exit(0)",
    "os._exit 5": "say('last')\nos._exit(5)",
    "flush and os._exit": "sys.stdout.flush()\nos._exit(0)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "stdout closed": "sys.stdout.close()",
    "stdout deleted": "del sys.stdout",
    "stdout None": "sys.stdout = None",
    "both None": "sys.stdout = sys.__stdout__ = None",
    "restored": "sys.stdout = sys.__stdout__\nprint('restored')",
    "os.close 1": "os.close(1)",
    "os.close 2": "os.close(2)",
    "names deleted": "del words, say",
    "globals cleared": "globals().clear()",
}

_IMPORTS = """import asyncio, atexit, builtins, codecs, contextlib, ctypes, faulthandler, fileinput, functools, gc, io,
    logging, math, os, queue, signal, sys, threading, time, weakref"""


class Writer:
    """Writes one program; only the modules that it uses are imported."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def program(self) -> str:
        rng = self._rng
        chosen = rng.choices(list(PREPARED), k=rng.choice((0, 1, 2, 2, 3, 3, 4, 5, 7)))
        parts = [PREPARED[name].format(n=n) for n, name in enumerate(chosen)]
        end = rng.choice(list(ENDS))
        if rng.random() < 0.3 and end != "globals cleared":  # which a thread might see, or not
            parts.append(rng.choice(list(LATE.values())))
        streams = rng.choices(list(STREAMS.values()), k=rng.choice((0, 0, 0, 1, 1, 2)))
        says = rng.choice(list(SAYS.values()))
        said = [
            "say('words', *words)",
            "say('sum', sum(int(w) for w in words if w.isdigit()))",
            "print('printed')",
        ]
        parts += rng.sample(said, k=rng.randint(1, 3))
        rng.shuffle(parts)
        for stream in streams:
            parts.insert(rng.randrange(len(parts) // 2 + 1), stream)
        # When a collection comes by itself depends on what was allocated before the program, and so on the modules
        # that a box has loaded already.
        first = "gc.set_threshold(1 << 30)"
        body = [first, rng.choice(list(READS.values())), says, *parts, ENDS[end]]
        text = "\n".join(body) + "\n"
        used = [
            each for each in _IMPORTS.removeprefix("import ").replace(",", " ").split() if f"{each}." in text
        ]
        rng.shuffle(used)
        pools = (
            ["from concurrent.futures import ThreadPoolExecutor\n"] if "ThreadPoolExecutor" in text else []
        )
        return "".join([f"import {', '.join(used)}\n"] * bool(used) + pools) + text
