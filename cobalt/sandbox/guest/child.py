"""A test's own process: limits, isolation, then the program, run as `python solution.py` would."""

import _signal
import _sitebuiltins
import atexit
import builtins
import contextlib
import gc
import io
import json
import linecache
import marshal
import os
import random
import re
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, NoReturn

from cobalt.sandbox.guest import box, kernel, landlock, seccomp, wire

NAME = "solution.py"  # as which the program is run
_SIGINT = int(signal.SIGINT)
_INTERRUPTED = 130  # Ctrl-C: ends by the signal, unless that is blocked

# What judges of function tasks put in scope before the program.
_PRELUDE = """
import sys, os, re, math, string, random, copy, collections, itertools, functools, heapq
from typing import *
from collections import *
from itertools import *
from functools import *
from heapq import *
from bisect import *
from math import *
"""


def remember_source(source: bytes) -> None:
    """Let tracebacks show the program's lines, although no file of that name exists."""
    text = source.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line + "\n" for line in io.StringIO(text, newline=None).read().split("\n")]
    linecache.cache[NAME] = (len(source), None, lines, NAME)


Plan = list[tuple[int, int]]


def plan_limits(limits: wire.GuestLimits, *, processes: int | None) -> Plan:
    """Kernel limits that are the same for every test of a program; `add_limits` adds the others."""
    memory = limits.memory_bytes
    wanted = [
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NOFILE, limits.files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),
    ]
    if processes is not None:
        wanted.append((resource.RLIMIT_NPROC, processes))
    return [(what, _within_hard(what, value)) for what, value in wanted]


def _within_hard(what: int, value: int) -> int:
    hard = resource.getrlimit(what)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def add_limits(plan: Plan, *, cpu_s: float, file_bytes: int) -> Plan:
    """`plan` with what may differ by test. CPU seconds are whole here; the supervisor is exact."""
    wanted = ((resource.RLIMIT_CPU, int(cpu_s) + 2), (resource.RLIMIT_FSIZE, file_bytes))
    return [*plan, *((what, _within_hard(what, value)) for what, value in wanted)]


def set_limits(plan: Plan) -> None:
    """Put limits on this process and its children."""
    for what, value in plan:
        resource.setrlimit(what, (value, value))


def isolate(level: Any, plan: Plan, folders: bytes, descriptors: tuple[int, ...], parent: int) -> None:
    """Give up everything the program must not have. Raises OSError if a step is refused.

    `folders`: options of the mounts for its own files.
    """
    if level.own_pids:
        box.private_folders(folders)
    else:
        kernel.die_with_parent(parent)
    os.setsid()  # a signal to "my process group" must not find the processes above
    for number, fd in enumerate(descriptors):
        os.dup2(fd, number)
    if level.name == "landlock":
        landlock.restrict(level.rules_fd)
    os.closerange(3, 1 << 16)
    set_limits(plan)
    if level.own_pids:
        os.chdir("/tmp")
    _signal.signal(_SIGINT, _signal.default_int_handler)  # the one below `signal`: no enums are made
    if level.name != "none":
        kernel.drop_capabilities()
    if level.test_filter:
        seccomp.install(level.test_filter, os.getpid())
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def compile_to(fd: int, source: bytes) -> NoReturn:
    """Write the marshalled code object to `fd`, or the error to stderr as the interpreter would."""
    status = 0
    try:
        code = compile(source, NAME, "exec", dont_inherit=True)
    except BaseException as error:
        remember_source(source)
        _report(error.with_traceback(None))
        status = 1
    else:
        try:
            data = marshal.dumps(code)
        except ValueError:
            data = b""  # nested too deeply to be written: each test compiles for itself
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    os._exit(status)


Imports = list[tuple[str, re.Pattern[bytes]]]


def imports_of(packages: list[str]) -> Imports:
    """Names of the packages in these folders, each with what its import looks like."""
    names = [name for name in map(os.path.basename, packages) if name.isidentifier()]
    return [(name, re.compile(rb"(?m)^\s*(import|from)\s[^#\n]*\b%s\b" % name.encode())) for name in names]


def import_packages(source: bytes, imports: Imports) -> None:
    """Import those packages that a program seems to use, once for all its tests: numpy takes 0.1 s."""
    for package, pattern in imports:
        if pattern.search(source):
            with contextlib.suppress(Exception):  # each test will see the same error by itself
                __import__(package)


def renewals(source: bytes) -> list[Callable[[], object]]:
    """What each test must renew of what it inherits, as far as the program could notice."""
    found: list[Callable[[], object]] = []
    if b"random" in source:
        found.append(random.seed)
    if b"native_id" in source:
        found.append(threading.main_thread()._set_native_id)  # type: ignore[attr-defined]
    return found


def prepare(fn: str | None, *, exit_and_quit: bool) -> ModuleType:
    """What every test of a program begins with, made once: the main module, empty, and a script's names."""
    sys.argv = [NAME]
    for word in ("exit", "quit"):
        quitter = _sitebuiltins.Quitter(word, "Ctrl-D (i.e. EOF)") if exit_and_quit else None
        setattr(builtins, word, quitter)
    main = ModuleType("__main__" if fn is None else "solution")
    main.__dict__.update(__file__=NAME, __builtins__=builtins, __annotations__={})
    return main


def run(main: ModuleType, code: CodeType | None, source: bytes, fn: str | None) -> NoReturn:
    """Run the program as the main script, or call its function `fn` with the arguments on stdin, and exit."""
    sys.modules[main.__name__] = main
    sys.modules["__main__"] = main
    sys.setrecursionlimit(sys.getrecursionlimit() + 11)  # our own frames below the program's
    status = 0
    result: list[str] = []
    gc.enable()
    try:
        if fn is None:
            exec(code or compile(source, NAME, "exec", dont_inherit=True), main.__dict__)
        else:
            result.append(_call(code or compile(source, NAME, "exec", dont_inherit=True), main, fn))
    except SystemExit as stop:
        status = _exit_status(stop)
        if fn is not None and status == 0:
            _write_error(f"SystemExit: {NAME} ended before {fn} returned\n")
            status = 1
    except BaseException as error:
        status = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        _report(error.with_traceback(trace))
    _finish(main, status, result)


def _call(code: CodeType, main: ModuleType, fn: str) -> str:
    """JSON text of the value that the program's function returns for the JSON arguments on stdin."""
    dumps = json.dumps
    arguments = json.loads(sys.stdin.buffer.read())
    exec(_PRELUDE, main.__dict__)
    exec(code, main.__dict__)
    solution = main.__dict__.get("Solution")
    owner = solution() if isinstance(solution, type) else None
    function = getattr(owner, fn) if hasattr(owner, fn) else main.__dict__.get(fn)
    if function is None:
        raise NameError(f"name {fn!r} is not defined")
    return dumps(function(*arguments), ensure_ascii=True)


def _exit_status(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    _write_error(f"{stop.code}\n")
    return 1


def _report(error: BaseException) -> None:
    """Print a traceback to stderr, through the program's own hook if it set one."""
    try:
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error, error.__traceback__)
        elif isinstance(error, NameError | AttributeError | ImportError) and not error.__context__:
            # Only the interpreter's own display says "Did you mean", and only ours has the program's lines.
            sys.stderr.write("Traceback (most recent call last):\n")
            sys.stderr.write("".join(traceback.format_tb(error.__traceback__)))
            sys.__excepthook__(type(error), error.with_traceback(None), None)
        else:
            traceback.print_exception(error)
    except BaseException:
        _write_error(f"{type(error).__name__}\n")


def _write_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        pass


def _finish(main: ModuleType, status: int, result: list[str]) -> NoReturn:
    """End as the interpreter does: threads, exit handlers, destructors of globals, flush."""
    try:
        if len(threading._active) > 1 or threading._threading_atexits:  # type: ignore[attr-defined]
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as error:
        _report(error)
    try:
        if result:
            sys.stdout.write("\n" + result[0] + "\n")
        # Globals are let go in the interpreter's order, so that destructors that print do print.
        names = main.__dict__
        for private in (True, False):
            for key in list(names):
                if key != "__builtins__" and (key.startswith("_") and not key.startswith("__")) == private:
                    names[key] = None
    except BaseException as error:
        _report(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            if stream is sys.stdout:
                _write_error(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
                status = 120
    if status == _INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)
