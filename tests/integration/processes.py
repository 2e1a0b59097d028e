"""Which processes there are, by a word of their command lines or environments."""

import contextlib
import os
import time

import psutil


def found(word: str | os.PathLike[str]) -> list[psutil.Process]:
    """Processes of ours with a word in command line or environment."""
    made, text = [], os.fspath(word)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = [*process.cmdline(), *(f"{name}={value}" for name, value in process.environ().items())]
            if process.pid != os.getpid() and any(text in each for each in words):
                made.append(process)
    return made


def gone(word: str | os.PathLike[str], within_s: float = 60) -> bool:
    """Whether there are none, soon."""
    deadline = time.monotonic() + within_s
    while (left := found(word)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not left
