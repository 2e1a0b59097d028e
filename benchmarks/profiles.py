"""Which verdicts depend on the rule of comparison: of stored programs, and of answers written otherwise.

python benchmarks/profiles.py apps_train_5.jsonl

FILE: rows of TACO's layout (`input_output`, `solutions`), with programs of models in `generated` where there
are some. Every program is run once per rule, each with the rule's limits. For the second table no program
runs: the expected outputs of stdin tests are respelled as programs respell them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from cobalt.cli import parser, positive_int, run_main
from cobalt.evaluator import LocalEvaluator
from cobalt.evaluator.checker import Rule
from cobalt.rows import open_rows
from cobalt.testcases import TestCases

RULES = ("strip", "lines", "tokens", "float", "livecodebench")
RESPELLED: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "an empty line at the end": lambda text: text + "\n\n",
    "a space at the end of lines": lambda text: text.replace("\n", " \n"),
    "a space before lines": lambda text: re.sub("^", " ", text, flags=re.M),
    "lines end in CR LF": lambda text: text.replace("\n", "\r\n"),
    "an empty line after each": lambda text: text.replace("\n", "\n\n"),
    "two spaces between words": lambda text: text.replace(" ", "  "),
    "one word a line": lambda text: "\n".join(text.split()),
    "whole numbers as 7.0": lambda text: re.sub(r"(?<![\w.])(\d+)(?![\w.])", r"\1.0", text),
    "off by a millionth": lambda text: re.sub(r"(?<![\w.])(\d+)(?![\w.])", r"\1.0000001", text),
    "in other letters": str.swapcase,
}


def programs(path: Path) -> list[tuple[str, str, TestCases]]:
    """(task, program, its tests) of all stored programs."""
    found = []
    for _, row in open_rows(path):
        tests = TestCases.parse(row["input_output"])
        stored = row["solutions"] if isinstance(row["solutions"], list) else json.loads(row["solutions"])
        codes = [*stored, *(each["code"] for each in row.get("generated", []))]
        found += [(str(row["id"]), code, tests) for code in dict.fromkeys(codes)]
    return found


def judged(asked: list[tuple[str, str, TestCases]], rule: str, workers: int | None) -> list[bool]:
    """Whether each program passes all its tests."""
    with LocalEvaluator(workers, rule=Rule(rule)) as evaluator:
        results = evaluator.evaluate_many((code, tests) for _, code, tests in asked)
        return [all(result["passing"]) for result in results]


def main(argv: list[str] | None = None) -> int:
    flags = parser("Verdicts that differ between rules of comparison.")
    flags.add_argument("file", type=Path, help="rows of TACO's layout, and `generated` programs")
    flags.add_argument("--workers", type=positive_int, help="programs at once (default: one per core)")
    args = flags.parse_args(argv)
    asked = programs(args.file)
    found = {rule: judged(asked, rule, args.workers) for rule in RULES}
    print(f"| task | asks for | programs | {' | '.join(f'pass by `{rule}`' for rule in RULES)} |")
    print("|---|---|---" + "|---" * len(RULES) + "|")
    for task in dict.fromkeys(task for task, _, _ in asked):
        mine = [place for place, each in enumerate(asked) if each[0] == task]
        kind = asked[mine[0]][2].fn_name or "stdin"
        counts = [str(sum(found[rule][place] for place in mine)) for rule in RULES]
        print(f"| {task} | {kind} | {len(mine)} | {' | '.join(counts)} |")
    differ = sum(len(set(each)) > 1 for each in zip(*found.values(), strict=True))
    print(f"\n{differ} of {len(asked)} programs have verdicts that differ.\n")

    texts = list(dict.fromkeys(text for _, _, tests in asked if not tests.fn_name for text in tests.outputs))
    print(f"| {len(texts)} expected outputs, written with | {' | '.join(f'`{rule}`' for rule in RULES)} |")
    print("|---" + "|---" * len(RULES) + "|")
    for name, respell in RESPELLED.items():
        counts = [sum(Rule(rule).accepts(respell(text).encode(), text) for text in texts) for rule in RULES]
        print(f"| {name} | {' | '.join(map(str, counts))} |")
    return 0


if __name__ == "__main__":
    run_main(main)
