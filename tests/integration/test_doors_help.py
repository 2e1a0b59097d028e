"""Every door explains itself at once, from any folder, without loading torch or ray."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Loaded by `serve run`, or by pip: they take no flags.
SERVED = {"remote_reward_server.py", "vllm_engine_actor.py", "setup.py"}
DOORS = [path for path in sorted([*ROOT.glob("*.py"), *ROOT.glob("preproc/*.py")]) if path.name not in SERVED]

PROBE = """
import json, runpy, sys
door, heavy = sys.argv[1], json.loads(sys.argv[2])
sys.argv = [door, "--help"]
sys.path[0] = door.rpartition("/")[0]
code = None
try:
    runpy.run_path(door, run_name="__main__")
except SystemExit as stop:
    code = stop.code
print(json.dumps([code, [name for name in heavy if name in sys.modules]]))
"""


def test_there_are_doors():
    assert DOORS


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.name)
def test_help(door, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROBE,
            str(door),
            json.dumps(["torch", "ray", "transformers", "verl", "vllm"]),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert (code, loaded) == (0, [])
    assert "usage: " + door.name in done.stdout
    assert "--" in done.stdout.split("--help", 1)[1], "no flag is described"
