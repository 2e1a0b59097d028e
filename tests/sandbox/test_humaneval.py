"""The reference programs of HumanEval. Needs COBALT_REAL_DATA, a folder that holds `HumanEval.jsonl.gz`."""

import gzip
import json
import os
from pathlib import Path

import pytest

from cobalt.evaluator import LocalEvaluator

DATA = Path(os.environ.get("COBALT_REAL_DATA", "")) / "HumanEval.jsonl.gz"


@pytest.mark.slow
@pytest.mark.skipif(
    not DATA.is_file(), reason="set COBALT_REAL_DATA to a folder that holds HumanEval.jsonl.gz"
)
def test_all_reference_programs_pass_and_empty_ones_do_not():
    with gzip.open(DATA, "rt") as file:
        rows = [json.loads(line) for line in file]
    right = [(row["prompt"] + row["canonical_solution"], row) for row in rows]
    wrong = [(row["prompt"] + "    return None", row) for row in rows]
    tests = {"inputs": [""], "outputs": [""]}
    with LocalEvaluator() as evaluator:
        for programs, passes in ((right, True), (wrong, False)):
            asked = [
                (f"{code}\n{row['test']}\ncheck({row['entry_point']})\n", tests) for code, row in programs
            ]
            assert [result["passing"] for result in evaluator.evaluate_many(asked)] == [[passes]] * 164
