"""Environments of integrations, each with the other side's own package; made once, or named by a variable."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python_of(name: str) -> Path:
    """The interpreter of the environment that COBALT_ENV_NAME names, else of `.venv-NAME`."""
    given = os.environ.get(f"COBALT_ENV_{name.upper().replace('-', '_').replace('.', '_')}")
    if given is None:
        made = subprocess.run([ROOT / "scripts" / "setup_integration.sh", name], timeout=3000)
        if made.returncode == 3:
            pytest.skip(f"the packages of {name} cannot be installed here")
        assert made.returncode == 0
    return (Path(given) if given else ROOT / f".venv-{name}") / "bin" / "python"


def run_in(name: str, *command: object, cwd: Path, **variables: str) -> str:
    """What a command prints, `python` and other programs being those of that environment."""
    programs = python_of(name).parent
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=1500,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{cwd}", "PATH": f"{programs}:{os.environ['PATH']}",
                          "OMP_NUM_THREADS": "1", **variables},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
