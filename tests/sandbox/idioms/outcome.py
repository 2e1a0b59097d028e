"""What a run comes to, in a plain interpreter and in a box: all that a verdict can depend on."""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from cobalt.sandbox.limits import Limits

# `-I` without its part that ignores the environment: that would make the hashes of strings random.
_COMMAND = [sys.executable, "-P", "-s", "-S", "solution.py"]
_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}
_NAME = re.compile(rb"([A-Za-z_][\w.]*)(:.*)?$")


class Outcome(NamedTuple):
    """stdout and how the program ended: `success`, `exit N`, `signal NAME`, `limit NAME` or `raised NAME`."""

    stdout: bytes
    end: str


def _end(returncode: int, stderr: bytes) -> str:
    if returncode < 0:
        return f"signal {signal.Signals(-returncode).name}"
    lines = [line for line in stderr.rstrip().splitlines() if b"Warning: " not in line]  # which say where
    name = _NAME.match(lines[-1]) if lines else None
    if returncode == 1 and name:
        return f"raised {name[1].decode()}"
    return f"exit {returncode}" if returncode else "success"


def plain(code: str, stdin: bytes) -> Outcome:
    """As `python solution.py` ends in a fresh folder, with pipes on all three descriptors."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "solution.py").write_bytes(code.encode("utf-8", "surrogatepass"))
        try:
            ran = subprocess.run(
                _COMMAND, input=stdin, capture_output=True, cwd=folder, timeout=60, env=_ENVIRONMENT
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"this should have ended:\n{code}") from None
    return Outcome(ran.stdout, _end(ran.returncode, ran.stderr))


def boxed(box, code: str, stdin: bytes) -> Outcome:
    """As it ends in a box (tests/sandbox/conftest.py)."""
    facts = box.run(code, stdin, limits=Limits())
    return Outcome(
        facts.stdout, f"limit {facts.limit}" if facts.limit else _end(facts.returncode, facts.stderr)
    )


def difference(expected: Outcome, got: Outcome) -> str:
    """In one line; empty if there is none."""
    found = []
    if expected.end != got.end:
        found.append(f"ends with {got.end}, plain: {expected.end}")
    if expected.stdout != got.stdout:
        found.append(f"writes {_short(got.stdout)}, plain: {_short(expected.stdout)}")
    return "; ".join(found)


def _short(data: bytes) -> str:
    return repr(data) if len(data) <= 120 else f"{data[:50]!r}...{data[-50:]!r} ({len(data)} bytes)"
