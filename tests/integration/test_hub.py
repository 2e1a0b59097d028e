"""Data sets of a hub: by name, split and file, from the cache when it is gone, and in clear words if not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from data_rows import lcb, read, task, write
from hub_server import SHA, hub

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


# One process for several names: the libraries take seconds to load.
PROBE = """
import json, sys
from cobalt.errors import InputError
from cobalt.rows import open_rows

for name in sys.argv[1:]:
    try:
        source = open_rows(name)
        print(json.dumps([len(list(source)), source.revision, source.sha256]))
    except InputError as error:
        print(json.dumps(str(error)))
"""


def run(command, folder, address):
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": address, "HF_HOME": str(folder / "hf"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, env=environment, timeout=120
    )


def probe(names, folder, address):
    done = run(["-c", PROBE, *names], folder, address)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_data_sets_of_a_hub(tmp_path):
    write(tmp_path / "set" / "train.jsonl", [task(i) for i in range(5)])
    write(tmp_path / "set" / "validation.jsonl", [task(i) for i in range(3)])
    write(tmp_path / "lcb" / "test6.jsonl", [lcb("a"), lcb("b")])
    sets = {"osunlp/TACO-Cobalt": tmp_path / "set", "livecodebench/code_generation_lite": tmp_path / "lcb"}
    names = ["osunlp/TACO-Cobalt", "osunlp/TACO-Cobalt:validation", "osunlp/TACO-Cobalt:dev", "osunlp/None"]
    with hub(sets) as (address, _):
        train, validation, split, absent = probe(names, tmp_path, address)
        door = [str(ROOT / "preproc" / "preproc_lcb_test6.py"), "-i", "livecodebench/code_generation_lite"]
        done = run([*door, "-o", "lcb_v6.jsonl"], tmp_path, address)
    assert (train[:2], validation[:2]) == ([5, SHA], [3, SHA])
    assert "has no split 'dev'" in split and "(train, validation)" in split
    assert "no such data set" in absent and "HTTP 404" in absent
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in read(tmp_path / "lcb_v6.jsonl")] == ["a", "b"]
    manifest = json.loads((tmp_path / "lcb_v6.jsonl.manifest.json").read_text())
    assert manifest["input"]["revision"] == SHA

    # The server is gone: what was fetched is read from the cache, the rest is refused in one line.
    again, unknown = probe([names[1], "osunlp/TACO-Cobalt-PTB"], tmp_path, address)
    assert (again[0], again[2]) == (validation[0], validation[2])
    assert unknown.startswith(f"cannot reach {address} for the data set osunlp/TACO-Cobalt-PTB")
    assert "give a local JSONL" in unknown
    done = run([str(ROOT / "preproc" / "preproc_taco.py")], tmp_path, address)  # its default input
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"error: cannot reach {address} for the data set likaixin/TACO-verified")
    assert not (tmp_path / "data").exists()
