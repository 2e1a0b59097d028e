"""A run in a process of its own, and which processes there are."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

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


class RunProcess:
    """`cobalt run CONFIG --out OUT`, with its log beside the configuration."""

    def __init__(self, config: Path, text: str) -> None:
        self.config, self.out, self.log = config, config.with_name("out"), config.with_name("log")
        config.write_text(text)

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        # Whoever runs the tests in the background may have switched Ctrl-C off for their children.
        return subprocess.Popen(
            [sys.executable, "-m", "cobalt", "run", str(self.config), "--out", str(self.out), *flags],
            stdout=self.log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    def run(self, *flags: str) -> int:
        return self.start(*flags).wait(timeout=500)

    def until(self, process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            assert process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def record(self, stage: str) -> dict:
        return json.loads((self.out / "stages" / f"{stage}.json").read_text())
