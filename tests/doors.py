"""Doors in this process: what a command line does, without the second that a new process takes.

Not for what is killed, or reads its environment when libraries are imported: that needs processes.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def run(
    *words: Any, cwd: Path | None = None, env: Mapping[str, str] | None = None, code: int | None = 0
) -> CompletedProcess[str]:
    """`python WORDS`, which are a script (a relative one of the checkout) or `-m MODULE`, and its arguments.

    `env` are further variables. Fails the test for another exit code than `code` (None: any will do), and
    lets through what would be a traceback.
    """
    first, *rest = map(str, words)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        patch.setattr(sys, "path", list(sys.path))
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            found = 0
            if first == "-m":
                module, *rest = rest
                patch.setattr(sys, "argv", [module, *rest])
                runpy.run_module(module, run_name="__main__")
            else:
                script = first if os.path.exists(first) else str(ROOT / first)
                patch.setattr(sys, "argv", [script, *rest])
                runpy.run_path(script, run_name="__main__")
        except SystemExit as stop:
            assert stop.code is None or isinstance(stop.code, int), stop.code
            found = stop.code or 0
    done = CompletedProcess([*map(str, words)], found, out.getvalue(), err.getvalue())
    assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done
