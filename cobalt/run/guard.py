"""Runs a server for a run and ends it with everything it started: `python -m cobalt.run.guard COMMAND...`.

The server gets a private folder (Ray's sockets, its cluster's token) and a mark in its environment that all
its processes inherit. It ends when standard input does, which the run holds open: also a run that was killed
takes its server along.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

from cobalt.training.leftovers import MARK
from cobalt.training.process import private_folder

GRACE_S = 20.0  # for a server that was asked to end; then it is killed


def environment(folder: Path) -> dict[str, str]:
    """The server's environment: a Ray cluster of its own, if it uses Ray."""
    env = dict(os.environ)
    env.pop("RAY_ADDRESS", None)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    return env | {
        MARK: str(folder),
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }


def main(command: list[str]) -> int:
    """Run `command` until it ends or standard input does; returns its exit status."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with private_folder() as folder:
        try:
            child = subprocess.Popen(
                command, env=environment(folder), stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            return 127

        def watch() -> None:
            while os.read(sys.stdin.fileno(), 4096):
                pass
            over.set()

        threading.Thread(target=watch, daemon=True).start()
        while child.poll() is None and not over.wait(0.2):
            pass
        if child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            child.kill()
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
