"""Rows of the layouts that the data doors read."""

from __future__ import annotations

import base64
import json
import pickle
import random
import zlib
from pathlib import Path
from typing import Any

STATEMENT = "Read two whole numbers and print their sum. " * 4


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def taco(task_id: Any = "t", n_tests: int = 8, **change: Any) -> dict[str, Any]:
    """A row of TACO's layout: sums, of which a right and a wrong program are stored."""
    tests = {
        "inputs": [f"{i} 1\n" for i in range(n_tests)],
        "outputs": [f"{i + 1}\n" for i in range(n_tests)],
    }
    return {
        "id": task_id,
        "question": f"{STATEMENT} Number {task_id}.",
        "solutions": ["print(0)", "print(sum(map(int, input().split())))"],
        "input_output": json.dumps(tests),
        "difficulty": "EASY",
        "source": "codeforces",
        "starter_code": "",
    } | change


def pack(tests: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def lcb(question_id: str = "q1", functional: bool = False, **change: Any) -> dict[str, Any]:
    """A row of a LiveCodeBench release file."""
    kind = "functional" if functional else "stdin"
    value = '[1, 2]\n"a"' if functional else "1 2\n"
    tests = [{"input": value, "output": str(i), "testtype": kind} for i in range(5)]
    return {
        "question_title": "Sum",
        "question_content": "Add the numbers.\n\nExample 1:\n\nInput: 1 2",
        "platform": "leetcode" if functional else "atcoder",
        "question_id": question_id,
        "contest_id": "c1",
        "contest_date": "2025-01-18T18:30:00",
        "starter_code": "class Solution:\n    def add(self, a, b):\n        " if functional else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(tests[:2]),
        "private_test_cases": pack(tests[2:]),
        "metadata": json.dumps({"func_name": "add"} if functional else {}),
    } | change


def task(task_id: Any = "t", outputs: list[str] | None = None, **change: Any) -> dict[str, Any]:
    """A task row with public and hidden tests."""
    outputs = ["1", "2", "3", "2"] if outputs is None else outputs
    public = {"inputs": [f"in {i}" for i in range(len(outputs))], "outputs": outputs}
    hidden = {"inputs": ["h"], "outputs": ["9"]}
    both = {name: public[name] + hidden[name] for name in public}
    return {
        "id": task_id,
        "difficulty": "EASY",
        "instruction": f"Solve {task_id}.",
        "test_cases": json.dumps(both),
        "public_test_cases": json.dumps(public),
        "hidden_test_cases": json.dumps(hidden),
    } | change


def many_taco(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Distinct tasks of which some are dropped by each rule, some have no right program, some repeat."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        row = taco(f"t{i}", rng.choice([5, 8, 12, 30]))
        if i % 7 == 3:
            row["solutions"] = ["print(0)", "import sys; sys.exit(1)"]
        if i % 11 == 5:
            row["question"] = row["question"].upper().replace("SUM", "image")
        if i % 13 == 6:
            row["question"] = STATEMENT
        rows.append(row)
    return rows
