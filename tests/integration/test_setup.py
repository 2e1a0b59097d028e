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


def test_another_system(clone):
    pretend(clone, uname="echo Darwin", python3_11=THIS)
    assert "Linux is needed (this is Darwin)" in setup(clone)


def test_no_fitting_python(clone):
    pretend(clone, python3_12="exit 127", python3_11="exit 1", python3="exit 1")
    message = setup(clone)
    assert "Python 3.11 or 3.12 is needed" in message and "make setup PYTHON=" in message


def test_a_python_without_venv(clone):
    without = f'case "$*" in *ensurepip*) exit 1;; esac; {THIS}'
    pretend(clone, python3_12="exit 1", python3_11=without, python3="exit 1")
    message = setup(clone)
    assert "python3.11 cannot make virtual environments" in message and "python3-venv" in message


@pytest.mark.parametrize(
    ("python", "message"),
    [("no-such-python", "was not found"), ("old-python", "is not Python 3.11 or 3.12")],
)
def test_a_wrong_choice(clone, python, message):
    pretend(clone, **{"old-python": "exit 1"})
    assert f"PYTHON={python} {message}" in setup(clone, f"PYTHON={python}")


def test_too_little_disk(clone):
    table = "echo Filesystem 1024-blocks Used Available; echo disk 9000000 5000000 4000000"
    pretend(clone, df=table, python3_11=THIS)
    assert "5 GB of free disk are needed here, 3 GB are free" in setup(clone, "PYTHON=python3.11")


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
