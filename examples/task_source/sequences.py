"""A source of tasks in twenty lines: `python examples/task_source/sequences.py tasks.jsonl`."""

import random
import sys

from cobalt.output import write_jsonl
from cobalt.tasks.own import make_task

RULES = {
    "sum": ("their sum", sum),
    "span": ("the largest minus the smallest", lambda numbers: max(numbers) - min(numbers)),
    "odd": ("how many of them are odd", lambda numbers: sum(n % 2 for n in numbers)),
}


def tasks(seed=0):
    for name, (asked, answer) in RULES.items():
        rng = random.Random(f"{seed} {name}")
        inputs = [[rng.randrange(100) for _ in range(5)] for _ in range(6)]
        tests = [(" ".join(map(str, numbers)) + "\n", f"{answer(numbers)}\n") for numbers in inputs]
        yield make_task(
            name, f"The input is a line of whole numbers. Print {asked}.", tests, difficulty="EASY"
        )


if __name__ == "__main__":
    write_jsonl(sys.argv[1], tasks())
