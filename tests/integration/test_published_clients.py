"""The published scripts, unmodified, as clients of our two services; what they write is what ours write.

They are not part of this project: COBALT_PUBLISHED_REPO names a clone of OSU-NLP-Group/cobalt at 18ce6ae.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import respond
from published_readme import EVALUATOR
from serve_session import Cluster, cluster
from test_published_readme import checkout, released_ptb

from cobalt.rows import read_rows

REPO = os.environ.get("COBALT_PUBLISHED_REPO", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(not REPO, reason="COBALT_PUBLISHED_REPO names no clone of the published repository"),
]
# `--data_file` and `--input_file` both claim `-i` there: argparse does not start. Here the later one has it.
RESOLVED = """python -c '
import argparse, runpy, sys
init = argparse.ArgumentParser.__init__
init.__defaults__ = tuple("resolve" if each == "error" else each for each in init.__defaults__)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' """


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(path)]


def by_id(path: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in rows(path)}


def same(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> bool:
    """Equal verdicts; where there is no program to run, ours has one entry per test and theirs one in all."""
    return all(
        a["passing"] == b["passing"] and a["feedback"] == b["feedback"]
        if len(a["passing"]) > 1
        else not any(b["passing"])
        for a, b in zip(theirs, ours, strict=True)
    )


class Both:
    """Runs a command of theirs and its twin of ours, on files `theirs_NAME` and `ours_NAME`."""

    def __init__(self, there: Cluster, folder: Path) -> None:
        self.there, self.folder = there, folder
        made = self.run(f"python scripts/import_prompts.py {REPO} -o prompts.json")
        assert (folder / "prompts.json").exists(), made

    def run(self, line: str) -> str:
        done = self.there.run(line, self.folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def __call__(
        self, script: str, flags: str, *, ours: str = "", prefix: str = "python -u "
    ) -> tuple[str, str]:
        printed = self.run(f"{prefix}{REPO}/{script} {flags.format(who='theirs')}")
        return printed, self.run(f"python -u {script} {flags.format(who='ours')} {ours}")

    def files(self, name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        theirs, ours = by_id(self.folder / f"theirs_{name}.jsonl"), by_id(self.folder / f"ours_{name}.jsonl")
        assert theirs.keys() == ours.keys() and theirs
        return ((row, ours[key]) for key, row in theirs.items())


def same_dialogues(both: Both, name: str) -> None:
    for theirs, ours in both.files(name):
        assert theirs["conversations"] == ours["conversations"]
        assert theirs["raw_responses"] == ours["raw_responses"]
        assert theirs["public_pass_rates"] == ours["public_pass_rates"]
        for turn, other in zip(theirs["public_exec_results"], ours["public_exec_results"], strict=True):
            assert same(turn, other)


def same_rates(both: Both, name: str, printed: tuple[str, str]) -> None:
    for theirs, ours in both.files(name):
        assert theirs["all_pass_rates"] == ours["all_pass_rates"]
    for title in ("Hidden Test Cases Pass @ 1: ", "Relative Changes: "):
        first, second = (ast.literal_eval(said.split(title)[1].splitlines()[0]) for said in printed)
        assert first == second and len(first) == 9


def test_published_scripts_beside_ours(tmp_path: Path) -> None:
    checkout(tmp_path, 4)
    with cluster() as there:
        there.start(EVALUATOR.line, EVALUATOR.stays, tmp_path)
        there.start(
            "serve run standin_actor:app --name vllm_actor --route-prefix /vllm_actor",
            "Application 'vllm_actor' is ready", tmp_path,
        )  # fmt: skip
        both = Both(there, tmp_path)
        prompts = "--prompts prompts.json"
        both(
            "run_single_turn_vllm.py", "-i tasks.jsonl -o {who}_single.jsonl --max_tokens 6144", ours=prompts
        )
        for theirs, ours in both.files("single"):
            assert theirs["responses"] == ours["responses"]
            assert same(theirs["exec_results"], ours["exec_results"])
        (tmp_path / "single.jsonl").symlink_to(tmp_path / "theirs_single.jsonl")
        both("run_multi_turn_vllm.py", "-i single.jsonl -o {who}_multi.jsonl --enable_thinking", ours=prompts)
        same_dialogues(both, "multi")
        printed = both("eval_multi_turn.py", "-i theirs_multi.jsonl -o {who}_judged.jsonl")
        same_rates(both, "judged", printed)

        both.run("python preproc/run_perturbation.py -i tasks.jsonl -o perturbed.jsonl")
        released_ptb(tmp_path)
        both("run_multi_turn_vllm.py", "-i ptb.jsonl -o {who}_ptb.jsonl", ours=prompts)
        same_dialogues(both, "ptb")
        same_rates(
            both, "ptb_judged", both("eval_multi_turn.py", "-i theirs_ptb.jsonl -o {who}_ptb_judged.jsonl")
        )
        files = "--data_file perturbed.jsonl --input_file theirs_ptb_judged.jsonl"
        flags = f"{files} --output_file {{who}}_errors.jsonl"
        printed = both("extract_turn_level_errors.py", flags, prefix=RESOLVED)
        assert printed[0].splitlines()[:3] == printed[1].splitlines()[:3]
        assert rows(tmp_path / "theirs_errors.jsonl") == rows(tmp_path / "ours_errors.jsonl") != []


def test_the_stand_in_says_all_that_matters() -> None:
    """Right and wrong programs, no program, thoughts: the comparison above sees each kind of message."""
    texts = [respond([{"role": "user", "content": str(n)}], 0) for n in range(40)]
    assert any("```" not in text for text in texts) and any("</think>" in text for text in texts)
    assert any("print(a + b)" in text for text in texts) and any("print(a - b)" in text for text in texts)
