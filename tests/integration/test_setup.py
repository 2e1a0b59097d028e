"""`make setup` on machines that lack something: it says so before it makes or installs anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path):
    """A folder with what setup reads, and a `bin` of stand-ins that comes first in PATH."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    for name in ("scripts/setup.sh", "Makefile", "requirements.txt", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (tmp_path / "bin").mkdir()
    # A Python that would do, so that only the fault under test stands in the way.
    os.symlink(shutil.which("bash"), tmp_path / "bin" / "bash")
    return folder


def pretend(clone, **programs):
    for name, script in programs.items():
        path = clone.parent / "bin" / name.replace("_", ".")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def setup(clone, *variables, path="/usr/local/bin:/usr/bin:/bin"):
    done = subprocess.run(
        ["make", "-s", "setup", *variables],
        cwd=clone,
        env={"PATH": f"{clone.parent / 'bin'}:{path}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not (clone / ".venv").exists()
    assert done.returncode == 2
    return done.stderr


THIS = f'exec "{sys.executable}" "$@"'


NO_VENV = f'case "$*" in *ensurepip*) exit 1;; esac; {THIS}'
NO_DISK = "echo Filesystem 1024-blocks Used Available; echo disk 9000000 5000000 4000000"
OLD = {"python3_12": "exit 127", "python3_11": "exit 1", "python3": "exit 1"}


@pytest.mark.parametrize(
    ("programs", "variables", "said"),
    [
        ({"uname": "echo Darwin", "python3_11": THIS}, (), ["Linux is needed (this is Darwin)"]),
        (OLD, (), ["Python 3.11 or 3.12 is needed", "make setup PYTHON="]),
        (OLD | {"python3_11": NO_VENV}, (), ["python3.11 cannot make virtual environments", "python3-venv"]),
        ({}, ("PYTHON=no-such-python",), ["PYTHON=no-such-python was not found"]),
        ({"old-python": "exit 1"}, ("PYTHON=old-python",), ["PYTHON=old-python is not Python 3.11 or 3.12"]),
        ({"df": NO_DISK, "python3_11": THIS}, ("PYTHON=python3.11",),
         ["5 GB of free disk are needed here, 3 GB are free"]),
    ],
)  # fmt: skip
def test_what_is_lacking_is_said_before_anything_is_made(clone, programs, variables, said):
    pretend(clone, **programs)
    message = setup(clone, *variables)
    assert all(each in message for each in said), message


def test_a_broken_environment_is_left_for_the_user_to_delete(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv" / "precious").touch()
    pretend(clone, python3_11=THIS)
    done = subprocess.run(
        ["bash", "scripts/setup.sh"],
        cwd=clone,
        env={"PATH": f"{clone.parent / 'bin'}:/usr/bin:/bin", "PYTHON": "python3.11"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "delete it and run make setup again" in done.stderr
    assert os.listdir(clone / ".venv") == ["precious"]
