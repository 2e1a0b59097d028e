"""The program: compiled in a process of its own, then run in each test's as `python solution.py` would."""

import _sitebuiltins
import builtins
import gc
import json
import linecache
import marshal
import mmap
import os
import random
import sys
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import NoReturn

from cobalt.sandbox.guest import ending, protocol, syscalls

NAME = "solution.py"  # as which the program is run

_KEPT_BYTES = 16 << 20  # of a larger one each test compiles its own

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


class Program:
    """A program and the function that its tests call (`fn`; None: they run it), held by its supervisor.

    `code_fd`: an empty file for the compiled program. Nothing of it is read here: each test loads it.
    """

    def __init__(self, source: bytes, fn: str | None, code_fd: int, *, exit_and_quit: bool) -> None:
        self._source = source
        self._fn = fn
        self._code_fd = code_fd
        self._compiled = b""
        self._renewals = _renewals(source)
        # Tracebacks show the program's lines, although it has no file; they are split when first asked for.
        linecache.cache[NAME] = (lambda: _text(source),)
        sys.argv = [NAME]
        for word in ("exit", "quit"):
            quitter = _sitebuiltins.Quitter(word, "Ctrl-D (i.e. EOF)") if exit_and_quit else None
            setattr(builtins, word, quitter)
        main = ModuleType("__main__" if fn is None else "solution")
        loader = SourceFileLoader(main.__name__, NAME)
        main.__dict__.update(
            __file__=NAME, __cached__=None, __loader__=loader, __builtins__=builtins, __annotations__={}
        )
        # The only reference, as in any interpreter: the end of the program depends on it.
        sys.modules[main.__name__] = sys.modules["__main__"] = main

    def compile(self, progress_fd: int) -> NoReturn:
        """Compile in a process of its own, for all tests: a first one that did would know that it is.

        What is written to `progress_fd` says when compiling begins and when it has succeeded; if it fails,
        the process ends as the interpreter would.
        """
        code = self._compile(progress_fd)
        try:
            view = memoryview(marshal.dumps(code) + bytes([ending.is_plain(code, self._source)]))
            while view:
                view = view[os.write(self._code_fd, view) :]
        except (ValueError, OSError):  # nested too deeply, or too large: each test compiles for itself
            os.ftruncate(self._code_fd, 0)
        os._exit(0)

    def keep(self) -> None:
        """Keep what was compiled, for the tests to load; it is not looked at here."""
        size = os.fstat(self._code_fd).st_size
        self._compiled = os.pread(self._code_fd, size, 0) if size <= _KEPT_BYTES else b""

    def load(self, progress_fd: int) -> tuple[CodeType, bool]:
        """The compiled program, and whether the short end will do for it (`ending.is_plain`)."""
        if self._compiled:
            return marshal.loads(self._compiled), self._compiled[-1] == 1
        code = self._compile(progress_fd)
        return code, ending.is_plain(code, self._source)

    def _compile(self, progress_fd: int) -> CodeType:
        os.write(progress_fd, protocol.COMPILING)
        try:
            code = compile(self._source, NAME, "exec", dont_inherit=True)
        except BaseException as error:
            if isinstance(error, SyntaxError) and error.filename == NAME and error.lineno and not error.text:
                error.text = linecache.getline(NAME, error.lineno)  # which would be read from the file
            ending.report(error.with_traceback(None))
            os._exit(1)
        os.write(progress_fd, protocol.COMPILED)
        return code

    def run(self, code: CodeType, plain: bool, answer: mmap.mmap | None) -> NoReturn:
        """Run the program as the main script, or call its function, and end this process."""
        for renew in self._renewals:
            renew()
        gc.enable()
        if answer is None:
            _run_script(code, plain)
        _run_function(code, str(self._fn), answer)

    @property
    def answers(self) -> bool:
        """Whether tests call a function, so that they have an answer."""
        return self._fn is not None


def _run_script(code: CodeType, plain: bool) -> NoReturn:
    syscalls.forget_frames()
    try:
        exec(code, sys.modules["__main__"].__dict__)
    except BaseException as error:
        ending.flush()
        status = ending.status_of(error)
    else:
        ending.end(0, plain)
    ending.end(status, plain, flushed=True)


def _run_function(code: CodeType, fn: str, answer: mmap.mmap) -> NoReturn:
    dumps = json.dumps
    status = 0
    try:
        arguments = json.loads(sys.stdin.buffer.read())
        names = sys.modules["__main__"].__dict__
        exec(_PRELUDE, names)
        exec(code, names)
        solution = names.get("Solution")
        owner = solution() if isinstance(solution, type) else None
        function = getattr(owner, fn) if hasattr(owner, fn) else names.get(fn)
        if function is None:
            raise NameError(f"name {fn!r} is not defined")
        text = dumps(function(*arguments), ensure_ascii=True).encode()
        room = len(answer) - protocol.ANSWER.size
        answer[protocol.ANSWER.size : protocol.ANSWER.size + min(len(text), room)] = text[:room]
        answer[: protocol.ANSWER.size] = protocol.ANSWER.pack(len(text))
    except SystemExit as stop:
        status = ending.status_of(stop)
        if status == 0:
            ending.write_error(f"SystemExit: {NAME} ended before {fn} returned\n")
            status = 1
    except BaseException as error:
        status = ending.status_of(error)
    os._exit(status)


def answer_file(fd: int, size: int) -> mmap.mmap:
    """Where a function's answer goes: memory, which a program that closes or mutes its output cannot lose."""
    os.ftruncate(fd, size)
    return mmap.mmap(fd, size)


def _text(source: bytes) -> str:
    return source.decode("utf-8", "replace").removeprefix("\ufeff")


def _renewals(source: bytes) -> list[Callable[[], object]]:
    """What each test must renew of what it inherits, as far as the program could notice."""
    found: list[Callable[[], object]] = []
    if b"random" in source:
        found.append(random.seed)
    if b"native_id" in source:
        found.append(threading.main_thread()._set_native_id)  # type: ignore[attr-defined]
    return found


def import_packages(source: bytes, packages: list[str]) -> None:
    """Import those packages that a program may use, once for all its tests: numpy takes 0.1 s."""
    for package in packages:
        if package.encode() in source:
            try:
                __import__(package)
            except Exception:
                continue  # each test will see the same error by itself
