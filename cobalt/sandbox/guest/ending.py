"""The end of a program: what its exit status is, and the interpreter's own end wherever that could matter.

Really ending the interpreter takes several times as long as a small test. Only what a program set up for its
end can be seen of it: threads, exit handlers, finalizers, streams. A program that has none of those, by the
names in its code and by the state it leaves, only has its output flushed.
"""

import _thread
import atexit
import contextlib
import gc
import io
import opcode
import os
import signal
import sys
import threading
import traceback
from itertools import dropwhile
from types import CodeType, ModuleType
from typing import NoReturn

from cobalt.sandbox.guest import syscalls

INTERRUPTED = -2  # Ctrl-C: ends by the signal

# Modules of which nothing is left to do at the end.
_PLAIN = """
__future__ abc array ast base64 binascii bisect builtins calendar cmath collections contextlib copy
dataclasses datetime decimal difflib enum errno fractions functools graphlib hashlib heapq html inspect
itertools json keyword locale math numbers numpy operator os platform pprint random re secrets statistics
string struct sys textwrap time timeit types typing unicodedata uuid zlib
"""
_PLAIN_MODULES = frozenset(_PLAIN.split())
# Names by which a program of those modules still comes to own something with an end of its own.
_NOT_PLAIN = frozenset(("__import__", "open", "fdopen", "popen", "exec", "compile"))
_GENERATOR = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_IMPORT, _HANDLER = bytes([opcode.opmap["IMPORT_NAME"]]), bytes([opcode.opmap["PUSH_EXC_INFO"]])
_EXTENDED = opcode.opmap["EXTENDED_ARG"]

_streams = id(sys.stdout), id(sys.stderr)  # no references: they are to end with the interpreter
_handlers = [0]


def prepare() -> None:
    """To be called before the program: exit handlers that exist by then are not the program's."""
    _handlers[0] = atexit._ncallbacks()


def is_plain(code: CodeType, source: bytes) -> bool:
    """Whether nothing that the program names could be noticed at the end."""
    return b"__del__" not in source and _is_plain(code)


def _is_plain(code: CodeType) -> bool:
    if not _NOT_PLAIN.isdisjoint(code.co_names):
        return False
    operations = code.co_code[::2]
    if code.co_flags & _GENERATOR and _HANDLER in operations:
        return False  # left half way, it still has something to do
    if not all(name.partition(".")[0] in _PLAIN_MODULES for name in _imports(code, operations)):
        return False
    return all(_is_plain(each) for each in code.co_consts if isinstance(each, CodeType))


def _imports(code: CodeType, operations: bytes) -> list[str]:
    found = []
    arguments = code.co_code[1::2]
    place = operations.find(_IMPORT)
    while place >= 0:
        number, shift, before = arguments[place], 8, place - 1
        while before >= 0 and operations[before] == _EXTENDED:
            number, shift, before = number | arguments[before] << shift, shift + 8, before - 1
        found.append(code.co_names[number])
        place = operations.find(_IMPORT, place + 1)
    return found


def end(status: int, plain: bool, *, flushed: bool = False) -> NoReturn:
    """End this process as the interpreter would: threads, exit handlers, finalizers, flush.

    `flushed`: what the script printed has been flushed; what was said of its end is for later.
    """
    if plain and status != INTERRUPTED and _undisturbed():
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass  # the interpreter tries again, and says so
        else:
            os._exit(status)
    if not flushed:
        flush()
    gc.callbacks.append(_find_main_late)
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        syscalls.interrupt_at_exit()
        status = os.getpid()
    syscalls.end_interpreter(status)


def flush() -> None:
    """What the interpreter does first once a script is over."""
    for name in ("stderr", "stdout"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            continue


def _undisturbed() -> bool:
    return (
        (id(getattr(sys, "stdout", None)), id(getattr(sys, "stderr", None))) == _streams
        and atexit._ncallbacks() == _handlers[0]
        and not _thread._count()
        and not threading._threading_atexits  # type: ignore[attr-defined]
    )


def _find_main_late(phase: str, info: dict[str, int]) -> None:
    """Finalizers of cyclic garbage run in the order of the collector's list. Give it the interpreter's own.

    There, the last collection but one comes to the main module late, and to everything else through it.
    """
    if phase == "stop" and _late:
        sys.modules["__main__"] = _late.pop()[0]
    elif info["generation"] == 2 and "__main__" in sys.modules:
        _late.append([sys.modules.pop("__main__")])


_late: list[list[ModuleType]] = []


def status_of(error: BaseException) -> int:
    """The exit status that an exception which nobody caught leads to; says on stderr what there is to say."""
    if isinstance(error, SystemExit):
        return _exit_status(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("cobalt."):
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        report(error)
    except SystemExit as stop:  # out of the program's own hook
        return _exit_status(stop)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def _exit_status(stop: SystemExit) -> int:
    code = stop.code
    syscalls.libc.fflush(None)
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        write_error(f"{code}\n")
    except BaseException:
        write_error("\n")
    return 1


def report(error: BaseException) -> None:
    """Print a traceback to stderr, through the program's own hook if it set one; that may raise."""
    try:
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error, error.__traceback__)
            return
        syscalls.libc.fflush(None)
        if isinstance(error, NameError | AttributeError | ImportError) and not error.__context__:
            # Only the interpreter's own display says "Did you mean", and only ours has the program's lines.
            shown = io.StringIO()
            with contextlib.redirect_stderr(shown):
                sys.__excepthook__(type(error), error, error.__traceback__)
            lines = dropwhile(
                lambda line: line.startswith(("Traceback", "  ")), shown.getvalue().splitlines(True)
            )
            sys.stderr.write("Traceback (most recent call last):\n")
            sys.stderr.write("".join([*traceback.format_tb(error.__traceback__), *lines]))
        else:
            traceback.print_exception(error)
    except SystemExit:
        raise
    except BaseException:
        write_error(f"{type(error).__name__}\n")


def write_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        pass
