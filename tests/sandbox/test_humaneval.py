"""The reference programs of HumanEval and mutants of them. Needs COBALT_REAL_DATA, a folder that holds
`HumanEval.jsonl.gz`."""

import ast
import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from cobalt.evaluator import LocalEvaluator

DATA = Path(os.environ.get("COBALT_REAL_DATA", "")) / "HumanEval.jsonl.gz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("COBALT_REAL_DATA") or not DATA.exists(),
        reason="set COBALT_REAL_DATA to a folder that holds HumanEval.jsonl.gz",
    ),
]
SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn,
}  # fmt: skip


def programs() -> list[tuple[str, str, str]]:
    """(solution, test code, entry point) of all problems."""
    with gzip.open(DATA, "rt") as file:
        rows = [json.loads(line) for line in file]
    return [(row["prompt"] + row["canonical_solution"], row["test"], row["entry_point"]) for row in rows]


def whole(solution: str, test: str, entry: str) -> str:
    return f"{solution}\n{test}\ncheck({entry})\n"


def mutant(solution: str, rng: random.Random) -> str:
    """The solution with one operator or constant changed; unchanged if there is none to change."""
    tree = ast.parse(solution)
    places = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS)
        or (isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS)
        or (isinstance(node, ast.Constant) and type(node.value) is int)
    ]
    if places:
        node = rng.choice(places)
        if isinstance(node, ast.Compare):
            node.ops[0] = SWAPS[type(node.ops[0])]()
        elif isinstance(node, ast.Constant):
            node.value += 1
        else:
            node.op = SWAPS[type(node.op)]()
    return ast.unparse(tree)


def test_all_reference_programs_pass():
    tests = {"inputs": [""], "outputs": [""]}
    with LocalEvaluator() as evaluator:
        results = list(evaluator.evaluate_many((whole(*each), tests) for each in programs()))
    assert len(results) == 164
    assert sum(result["passing"] == [True] for result in results) == 164


def test_mutants_get_the_verdict_of_a_plain_process():
    rng = random.Random(0)
    tests = {"inputs": [""], "outputs": [""]}
    sources = [
        whole(mutant(solution, rng), test, entry) for solution, test, entry in rng.sample(programs(), 80)
    ]
    with LocalEvaluator() as evaluator:
        ours = [
            result["per_test"][0] for result in evaluator.evaluate_many((each, tests) for each in sources)
        ]
    for source, verdict in zip(sources, ours, strict=True):
        try:
            plain = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, timeout=14)
        except subprocess.TimeoutExpired:
            assert verdict["status"] == "time_limit"
            continue
        passed = plain.returncode == 0 and not plain.stdout.strip()
        assert (verdict["status"] == "passed") == passed, source
