"""HumanEval judged by EvalPlus's own package and by ours: the same pass or fail for every sample?

python benchmarks/humaneval.py HumanEval.jsonl.gz --evalplus PYTHON [--plus FOLDER]

Three samples for each of the 164 tasks: the reference program, one whose answers are all wrong, and one whose
function has its first comparison, sum or number changed. PYTHON is that of an environment with the package:
`python -m venv .cache/evalplus && .cache/evalplus/bin/pip install evalplus==0.3.1`. FOLDER: a copy of
github.com/evalplus/humanevalplus_release, whose reference programs and further tests are then taken; without
it, both run the tests of HumanEval alone. Nothing is fetched.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from cobalt.cli import parser, run_main
from cobalt.errors import InfraError
from cobalt.evaluation.evaluate import hidden_tests
from cobalt.evaluation.samples import SampledTasks
from cobalt.evaluator import LocalEvaluator
from cobalt.output import write_jsonl
from cobalt.rows import Row, open_rows, read_rows
from cobalt.sandbox.limits import Limits

KINDS = ("reference", "all answers wrong", "one change")
_TOLERANCES = {"HumanEval/32": 1e-4}  # of its own test; of other numbers it is 1e-6 in both
# evalplus 0.3.1 counts none of this task's inputs as passed: every sample fails (evalplus/evalplus#201).
_AT_FAULT = "HumanEval/32, reference: EvalPlus False, ours True"
_WRONG = """

def _wrong(value):
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return value + "x" if isinstance(value, str) else 7


def _answering(right):
    return lambda *given: _wrong(right(*given))


{name} = _answering({name})
"""
# What EvalPlus reads: the arguments of each call that HumanEval's own tests make.
_RECORD = """
import copy, json, sys
for line in sys.stdin:
    row, calls = json.loads(line), []
    names = {}
    exec(row["prompt"] + row["canonical_solution"] + "\\n" + row["test"], names)
    right = names[row["entry_point"]]
    def recorded(*given):
        calls.append(copy.deepcopy(given))
        return right(*given)
    names["check"](recorded)
    print(json.dumps(calls))
"""


class _Change(ast.NodeTransformer):
    """In a function: the first comparison turned round, the first sum, or the first number."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name, self.done = kind, name, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return super().generic_visit(node) if node.name == self.name else node  # tests may call the others

    def generic_visit(self, node: ast.AST) -> Any:
        number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if not self.done and isinstance(node, self.kind) and (number or not isinstance(node, ast.Constant)):
            self.done = True
            if isinstance(node, ast.Compare):
                return ast.UnaryOp(ast.Not(), node)
            if isinstance(node, ast.BinOp):
                return ast.BinOp(
                    node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right
                )
            return ast.Constant(node.value + 1)  # type: ignore[attr-defined]
        return super().generic_visit(node)


def changed(code: str, name: str) -> str:
    """The program with one change, or without its last line where nothing can be changed."""
    for kind in (ast.Compare, ast.BinOp, ast.Constant):
        change = _Change(kind, name)
        tree = change.visit(ast.parse(code))
        if change.done:
            return ast.unparse(ast.fix_missing_locations(tree))
    return code.rstrip().rpartition("\n")[0] + "\n    pass\n"


def samples(rows: list[Row]) -> list[Row]:
    """Three for each task, in the order of KINDS."""
    made = []
    for row in rows:
        right = row["prompt"] + row["canonical_solution"]
        for code in (
            right,
            right + _WRONG.format(name=row["entry_point"]),
            changed(right, row["entry_point"]),
        ):
            made.append({"task_id": row["task_id"], "solution": code})
    return made


def by_evalplus(python: str, rows: list[Row], path: Path, plus: Path | None) -> dict[str, list[bool]]:
    """Pass or fail of each sample by its task, as `evalplus.evaluate` says; nothing is fetched."""
    folder = path.parent
    tasks = plus and plus / "HumanEvalPlus.jsonl.gz"
    if tasks is None:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run([python, "-c", _RECORD], input=lines, capture_output=True, text=True)
        if done.returncode:
            raise InfraError(f"the inputs of HumanEval's tests could not be recorded: {done.stderr[-500:]}")
        calls = map(json.loads, done.stdout.splitlines())
        tasks = folder / "tasks.jsonl"
        write_jsonl(tasks, (
            {"plus_input": [], "contract": "", "atol": _TOLERANCES.get(row["task_id"], 0)} | row
            | {"base_input": each} for row, each in zip(rows, calls, strict=True)
        ))  # fmt: skip
    command = [python, "-m", "evalplus.evaluate", "--dataset", "humaneval", "--samples", str(path)]
    env = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(tasks), "XDG_CACHE_HOME": str(folder)}
    command += ["--parallel", str(len(os.sched_getaffinity(0)))] + ["--base-only"] * (plus is None)
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise InfraError(f"evalplus.evaluate failed: {(done.stderr or done.stdout)[-800:]}")
    found = json.loads(path.with_name(f"{path.stem}_eval_results.json").read_text())["eval"]
    wanted = {"base_status": "pass"} | ({} if plus is None else {"plus_status": "pass"})
    return {key: [wanted.items() <= each.items() for each in made] for key, made in found.items()}


def by_cobalt(tasks: Path, path: Path) -> dict[str, list[bool]]:
    """By ours: `eval_multi_turn.py -i SAMPLES --tasks TASKS --evaluator local+numpy`."""
    output = path.with_name("ours.jsonl")
    limits = Limits(cpu_s=60, packages=("numpy",))  # of all calls together, where EvalPlus limits each
    with LocalEvaluator(limits=limits) as evaluator:
        asyncio.run(hidden_tests(SampledTasks(open_rows(path), str(tasks)), output, evaluator))
    return {row["id"]: [rate == [1.0] for rate in row["all_pass_rates"]] for _, row in read_rows(output)}


def main(argv: list[str] | None = None) -> int:
    flags = parser("HumanEval by EvalPlus and by ours: the same pass or fail for every sample?")
    flags.add_argument("data", type=Path, help="HumanEval.jsonl.gz")
    flags.add_argument("--evalplus", required=True, metavar="PYTHON", help="of an environment with evalplus")
    flags.add_argument("--plus", type=Path, metavar="FOLDER", help="copy of humanevalplus_release")
    args = flags.parse_args(argv)
    tasks = args.plus / "HumanEvalPlus-OriginFmt.jsonl.gz" if args.plus else args.data
    rows = [row for _, row in open_rows(tasks)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        write_jsonl(path, samples(rows))
        theirs = by_evalplus(args.evalplus, rows, path, args.plus)
        ours = by_cobalt(tasks, path)
    print("| samples | both pass | both fail | EvalPlus alone passes | ours alone passes |")
    print("|---|---|---|---|---|")
    differ = []
    for place, kind in enumerate(KINDS):
        pairs = {key: (theirs[key][place], ours[key][place]) for key in ours}
        found = Counter(pairs.values())
        differ += [f"{key}, {kind}: EvalPlus {a}, ours {b}" for key, (a, b) in pairs.items() if a != b]
        counts = (found[each] for each in ((True, True), (False, False), (True, False), (False, True)))
        print(f"| {kind} | {' | '.join(map(str, counts))} |")
    print(*differ, sep="\n")
    return int(any(not line.startswith(_AT_FAULT) for line in differ))


if __name__ == "__main__":
    run_main(main)
