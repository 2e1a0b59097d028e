"""Evaluated rows with known rates, of the schema that evaluation writes: for tests of report and page."""

import random
from pathlib import Path

from cobalt.prompts import load
from cobalt.records import Row
from cobalt.report.results import Evaluations, statistics
from cobalt.store import write_jsonl
from cobalt.tasks import tiny

SLOTS = ("constant", "rearrangement", "format")


def evaluated(path: Path, rates: list[float], *, n: int = 40, samples: int = 2, seed: int = 0) -> Path:
    """Write `n` rows whose programs are right with chance rates[turn]; returns `path`."""
    rng = random.Random(f"{path.name} {seed}")
    prompts = load("tiny")
    rows: list[Row] = []
    for task in tiny.draw_tasks("heldout", n, seed):
        tests = tiny.TestCases.parse(task["public_test_cases"])
        conversations, passed, public = [], [], []
        for _ in range(samples):
            messages: list[Row] = [dict(m) for m in prompts.messages(task["instruction"])]
            passed.append([1.0 if rng.random() < rate else rng.choice([0.0, 0.5]) for rate in rates])
            public.append([rate if rate == 1 else 0.0 for rate in passed[-1]])
            for rate in passed[-1]:
                code = f'xs = list(map(int, input().split()))\nprint(*xs, sep="{rng.choice(",:-")}")'
                said = f"Input:\n{tests.inputs[0]}\nProgram's Output:\n<b>1</b>\n"
                said += f"Expected Output:\n{tests.outputs[0]}"
                messages.append({"role": "assistant", "content": f"```python\n{code}\n```"})
                shown = prompts.feedback_message(None if rate == 1 else said)
                messages.append({"role": "user", "content": shown})
            conversations.append(messages)
        rows.append(
            task
            | {
                "conversations": conversations,
                "all_pass_rates": passed,
                "exec_status": [["ok"] * len(rates)] * samples,
                "public_pass_rates": [list(turn) for turn in zip(*public, strict=True)],
            }
        )
    write_jsonl(path, rows)
    return path


def results(folder: Path, n: int = 40) -> Row:
    """A whole `results.json` over made-up evaluations."""
    controls = {
        "single_turn_training": evaluated(folder / "single.jsonl", [0.3, 0.34, 0.37], n=n),
        "blank_feedback": evaluated(folder / "blank.jsonl", [0.28, 0.28, 0.28], n=n),
        "other_feedback": evaluated(folder / "other.jsonl", [0.28, 0.2, 0.14], n=n),
    }
    reference = evaluated(folder / "reference.jsonl", [0.25, 0.34, 0.41], n=n)
    trained = evaluated(folder / "cobalt.jsonl", [0.28, 0.7, 0.77], n=n)
    best = {row["id"]: 0.5 for row in tiny.draw_tasks("heldout", n, 0)}
    names = ["tasks", "collect", "repair", "judge", "contexts", "train", "evaluate", "controls", "report"]
    return {
        "schema": 1,
        "seed": 0,
        "task_seed": 0,
        **statistics(Evaluations(reference, trained, controls, best), SLOTS, seed=0),
        "stages": [{"name": s, "wall_s": 3.2, "cpu_s": 4.5, "rows_in": 240, "rows_out": 1920} for s in names],
        "wall_s": 302.4,
        "peak_memory_mib": 4410.0,
        "evaluator": {"tests": 91234, "shared": 45678, "infra_errors": 0, "isolation": "namespaces"},
        "training": {"trainer": "verl", "verl": "0.9.1", "steps": 60, "samples": 7680, "masked": 0},
        "family_hash": "f" * 64,
        "model_sha256": "a" * 64,
        "versions": {"python": "3.11.9", "cobalt": "0.1.0", "torch": "2.13.0", "verl": "0.9.1"},
    }


def curves() -> dict[str, list[dict[str, float]]]:
    """Training curves of 60 steps that rise and wobble."""
    rng = random.Random(0)
    rise = {"cobalt": (0.3, 0.45), "control": (0.25, 0.08)}
    return {
        name: [
            {"step": step, "solved": low + up * step / (step + 20) + rng.uniform(-0.06, 0.06)}
            for step in range(1, 61)
        ]
        for name, (low, up) in rise.items()
    }


MODEL_CARD = """---
license: mit
---
# Tiny reference

265,088 parameters.

## What it was taught

Supervised training on made dialogues. After a failing test the next program is

* the same program again in **60 %**,
* another guess in 25 %,
* the right one in 15 %.

| after | share |
|---|---|
| repeat | 60 % |

## Measured

Not to be quoted.
"""
