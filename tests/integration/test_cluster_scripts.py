"""The cluster scripts: what they refuse before anything starts."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "cluster"
FILES = sorted(path.name for path in SCRIPTS.iterdir())


def call(name, *arguments, **environment):
    return subprocess.run(
        ["bash", SCRIPTS / name, *arguments], env={**os.environ, **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_script_is_bash_without_paths_of_ours(name):
    assert subprocess.run(["bash", "-n", SCRIPTS / name], check=False).returncode == 0
    text = (SCRIPTS / name).read_text()
    assert "/home/" not in text and "/root" not in text and "ray stop" not in text.replace("`ray stop`", "")
    assert "set -euo pipefail" in text or "common.inc.sh" in text


@pytest.mark.parametrize(
    ("name", "arguments", "environment", "message"),
    [
        ("one_node.sh", ("nonsense",), {}, "there is no recipe 'nonsense'"),
        ("one_node.sh", ("cobalt",), {"EVALUATOR_CPUS": "0"}, "EVALUATOR_CPUS='0' must be a whole number"),
        ("one_node.sh", ("cobalt",), {"RAY_PORT": "x"}, "port 'x' is not a number"),
        ("head.sh", (), {"NODES": "none"}, "NODES='none' must be a whole number"),
        ("join.sh", (), {"HEAD": "10.0.0.1"}, "must be the head's address and port"),
        ("submit.sh", ("cobalt",), {"RAY_DASHBOARD": "10.0.0.1"}, "RAY_DASHBOARD='10.0.0.1' must be a URL"),
        ("slurm.sbatch", ("cobalt",), {"SLURM_SUBMIT_DIR": ""}, "start this with sbatch"),
    ],
)
def test_mistakes_are_one_message(name, arguments, environment, message):
    told = call(name, *arguments, **environment)
    assert told.returncode != 0 and message in told.stderr and "Traceback" not in told.stderr


def test_a_busy_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = call("one_node.sh", "cobalt", RAY_PORT=port)
    assert (
        told.returncode == 2 and f"port {port} is in use here: choose another (RAY_PORT=...)" in told.stderr
    )


@pytest.mark.parametrize("name", ["one_node.sh", "head.sh", "join.sh", "submit.sh"])
def test_help_teaches(name):
    told = call(name, "--help")
    assert told.returncode == 0 and f"scripts/cluster/{name}" in told.stdout
