"""The data doors as processes, with real programs: verdicts, workers, bad input, real data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from data_doors import PREPROC, prepare
from data_rows import many_taco, read, taco, write

from cobalt.evaluator import LocalEvaluator
from cobalt.rows import open_rows
from cobalt.tasks.taco import TacoSettings, build_taco


def run(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PREPROC / script), *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=120,
    )  # fmt: skip


def test_taco_with_programs(tmp_path: Path) -> None:
    calls = {"inputs": [[[1, n], 2] for n in range(8)], "outputs": [[n] for n in range(8)], "fn_name": "last"}
    words = {
        "inputs": [["1", str(n)] for n in range(8)],
        "outputs": [[1 + n] for n in range(8)],
        "fn_name": "add",
    }
    rows = [
        taco("program"),
        taco("wrong", solutions=["print(0)", "import nothing_there"]),
        taco("none", solutions=[]),
        taco("call", input_output=json.dumps(calls), solutions=["def last(xs, k):\n    return xs[-1]"]),
        taco(
            "method",
            input_output=json.dumps(calls),
            source="leetcode",
            solutions=["class Solution:\n    def last(self, xs: List[int], k):\n        return xs[-1]"],
        ),
        taco(
            "split", input_output=json.dumps(words), solutions=["def add(a, b):\n    return int(a) + int(b)"]
        ),
    ]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    with LocalEvaluator(1) as judge:
        summary = build_taco(source, out, TacoSettings(dev_size=1), evaluator=judge)
        verdicts = {row["id"]: row for row in read(tmp_path / "out.jsonl.verdicts.jsonl")}
        assert {key: row["verified"] for key, row in verdicts.items()} == {
            "program": True, "wrong": False, "none": None, "call": True, "method": True, "split": True,
        }  # fmt: skip
        assert [verdicts[key]["way"] for key in ("program", "call", "method", "split")] == [
            *("stdin", "call", "call", "call")
        ]
        assert [row["verified"] for row in read(out)] == [True, False, None, True, True, True]
        assert summary.verified == {"true": 4, "false": 1, "null": 1}
        assert [row.get("fn_name") for row in read(out)][2:] == [None, "last", "last", "add"]
        strict = TacoSettings(dev_size=1, require_verified=True)
        summary = build_taco(source, out, strict, evaluator=judge)
    assert [row["id"] for row in read(out)] == ["program", "call", "method", "split"]
    assert summary.dropped["unverified"] == 2
    assert json.loads(Path(f"{out}.manifest.json").read_text())["counts"]["funnel"]["unverified"] == 2


def test_one_or_two_workers_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "taco.jsonl", many_taco(20))
    found = []
    for workers in ("1", "2"):
        folder = tmp_path / workers
        folder.mkdir()
        door = prepare("taco", folder, 30)
        door.run(folder, "--workers", workers)
        verdicts = "verl/data/taco_verified_filtered.jsonl.verdicts.jsonl"
        found.append((door.content(folder), (folder / verdicts).read_bytes()))
    assert found[0] == found[1]
    assert b'"verified": false' in found[0][1] and b'"verified": true' in found[0][1]


@pytest.mark.parametrize("content", [b"{", b"[]\n", b"\xff\xfe\n", b'{"id": 1}\n', b"", b"\n \n"])
@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("preproc_taco.py", ["--evaluator", "local"]),
        ("preproc_lcb_test6.py", []),
        ("run_perturbation.py", []),
    ],
)
def test_bad_input_is_one_line(script: str, more: list[str], content: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(content)
    (tmp_path / "out.jsonl").write_text("as it was")
    done = run(script, "-i", "in.jsonl", "-o", "out.jsonl", *more, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: in.jsonl")
    if content.strip():
        assert line.startswith("error: in.jsonl:1: ") and "--on_bad_row skip" in line
    assert (tmp_path / "out.jsonl").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif("COBALT_REAL_DATA" not in os.environ, reason="COBALT_REAL_DATA names no folder")
def test_real_problems(tmp_path: Path) -> None:
    source = Path(os.environ["COBALT_REAL_DATA"]).absolute() / "apps_train_5.jsonl"
    done = run("preproc_taco.py", "-i", str(source), "--evaluator", "local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    funnel = json.loads((tmp_path / "verl/data/taco_verified_filtered.jsonl.manifest.json").read_text())[
        "counts"
    ]
    assert funnel["funnel"]["rows_in"] == 5 and funnel["funnel"]["count"] == 4
    (row,) = read(tmp_path / "verl" / "data" / "taco_verified_filtered.jsonl")
    assert (row["id"], row["fn_name"], row["verified"]) == ("4184", "is_prime", True)
    assert len(list(open_rows(source))) == 5
