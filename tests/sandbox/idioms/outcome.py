"""What a run comes to, in a plain interpreter and in a box: all that a verdict or its text can depend on."""

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
    """stdout and how the program ended: `success`, `exit N`, `signal NAME`, `limit NAME` or `raised NAME`.

    `said` are the lines of stderr, but for marks under a line: the interpreter and `traceback` set them a
    little differently.
    """

    stdout: bytes
    end: str
    said: list[bytes]


def _outcome(stdout: bytes, returncode: int, stderr: bytes) -> Outcome:
    lines = [line for line in stderr.splitlines() if line.strip(b" ~^")]
    if returncode < 0:
        return Outcome(stdout, f"signal {signal.Signals(-returncode).name}", lines)
    said = [line for line in stderr.rstrip().splitlines() if b"Warning: " not in line]  # which say where
    name = _NAME.match(said[-1]) if said else None
    if returncode == 1 and name:
        return Outcome(stdout, f"raised {name[1].decode()}", lines)
    return Outcome(stdout, f"exit {returncode}" if returncode else "success", lines)


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
    return _outcome(ran.stdout, ran.returncode, ran.stderr.replace(f"{folder}/".encode(), b""))


def boxed(box, code: str, stdin: bytes) -> Outcome:
    """As it ends in a box (tests/sandbox/conftest.py)."""
    facts = box.run(code, stdin, limits=Limits())
    found = _outcome(facts.stdout, facts.returncode, facts.stderr)
    return found._replace(end=f"limit {facts.limit}") if facts.limit else found


def difference(expected: Outcome, got: Outcome, *, said: bool = False) -> str:
    """In one line; empty if there is none. `said`: in what they say on stderr too."""
    found = []
    if expected.end != got.end:
        found.append(f"ends with {got.end}, plain: {expected.end}")
    if expected.stdout != got.stdout:
        found.append(f"writes {_short(got.stdout)}, plain: {_short(expected.stdout)}")
    if said and expected.said != got.said:
        found.append(f"says {_short(b'|'.join(got.said))}, plain: {_short(b'|'.join(expected.said))}")
    return "; ".join(found)


def _short(data: bytes) -> str:
    return repr(data) if len(data) <= 300 else f"{data[:150]!r}...{data[-150:]!r} ({len(data)} bytes)"
