"""Evaluated rows with known rates, of the schema that evaluation writes: for tests of report and page."""

import asyncio
import json
import random
from pathlib import Path

from cobalt.engines.base import Completion
from cobalt.evaluation.judge import JudgeSettings, judge_file
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.evaluation.verdicts import LABELS
from cobalt.manifest import write_manifest
from cobalt.output import write_jsonl
from cobalt.prompts import DEFAULT, load
from cobalt.report.results import statistics
from cobalt.rows import Row
from cobalt.tasks import tiny
from cobalt.testcases import TestCases

SLOTS = ("constant", "rearrangement", "format")


def _dialogue(opening: list[Row], turns: list[tuple[str, str | None]], prompts=DEFAULT) -> list[Row]:
    """Messages: the opening, then text and feedback (None: all passed) of each turn."""
    messages = [dict(each) for each in opening]
    for text, said in turns:
        messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": prompts.feedback_message(said)})
    return messages


def _said(given: str, wanted: str) -> str:
    return f"Input:\n{given}\nProgram's Output:\n<b>1</b>\nExpected Output:\n{wanted}"


def evaluated(path: Path, rates: list[float], *, n: int = 40, samples: int = 2, seed: int = 0) -> Path:
    """Write `n` rows whose programs are right with chance rates[turn]; returns `path`."""
    rng, prompts, rows = random.Random(f"{path.name} {seed}"), load("tiny"), []
    for task in tiny.draw_tasks("heldout", n, seed):
        tests = TestCases.parse(task["public_test_cases"])
        said = _said(tests.inputs[0], tests.outputs[0])
        passed = [
            [1.0 if rng.random() < rate else rng.choice([0.0, 0.5]) for rate in rates] for _ in range(samples)
        ]
        code = '```python\nxs = list(map(int, input().split()))\nprint(*xs, sep="{}")\n```'
        turns = [
            [(code.format(rng.choice(",:-")), None if rate == 1 else said) for rate in sample]
            for sample in passed
        ]
        opening = prompts.messages(task["instruction"])
        public = zip(*([float(rate == 1) for rate in sample] for sample in passed), strict=True)
        rows.append(task | {
            "conversations": [_dialogue(opening, each, prompts) for each in turns],
            "all_pass_rates": passed, "exec_status": [["ok"] * len(rates)] * samples,
            "public_pass_rates": [list(turn) for turn in public],
        })  # fmt: skip
    write_jsonl(path, rows)
    return path


def results(folder: Path, n: int = 40) -> Row:
    """A whole `results.json` over made-up evaluations."""
    rates = {
        "reference": [0.25, 0.34, 0.41], "cobalt": [0.28, 0.7, 0.77],
        "single_turn_training": [0.3, 0.34, 0.37], "blank_feedback": [0.28, 0.28, 0.28],
        "other_feedback": [0.28, 0.2, 0.14],
    }  # fmt: skip
    files = {name: evaluated(folder / f"{name}.jsonl", each, n=n) for name, each in rates.items()}
    arms = files.pop("reference"), files.pop("cobalt")
    best = {row["id"]: 0.5 for row in tiny.draw_tasks("heldout", n, 0)}
    names = ["tasks", "collect", "repair", "judge", "contexts", "train", "evaluate", "controls", "report"]
    return {
        "schema": 1, "seed": 0, "task_seed": 0, **statistics(*arms, files, best, SLOTS, seed=0),
        "stages": [{"name": s, "wall_s": 3.2, "rows_in": 240, "rows_out": 1920} for s in names],
        "wall_s": 302.4, "peak_memory_mib": 4410.0,
        "evaluator": {"tests": 91234, "shared": 45678, "infra_errors": 0, "isolation": "namespaces"},
        "training": {"trainer": "verl", "verl": "0.9.1", "steps": 60, "samples": 7680, "masked": 0},
        "family_hash": "f" * 64, "model_sha256": "a" * 64,
        "versions": {"python": "3.11.9", "cobalt": "0.1.0", "torch": "2.13.0", "verl": "0.9.1"},
    }  # fmt: skip


def curves() -> dict[str, list[dict[str, float]]]:
    """Training curves of 60 steps that rise and wobble."""
    rng, rise = random.Random(0), {"cobalt": (0.3, 0.45), "control": (0.25, 0.08)}
    return {
        name: [{"step": step, "reward/acc": low + up * step / (step + 20) + rng.uniform(-0.06, 0.06)}
               for step in range(1, 61)]
        for name, (low, up) in rise.items()
    }  # fmt: skip


MODEL_CARD = """---
license: mit
---
# Tiny reference

## What it was taught

After a failing test the next program is

| after | share |
|---|---|
| the same program again in **60 %** | another in 40 % |

## Measured

Not to be quoted.
"""


class LabelJudge:
    """A judge whose verdict depends on the task and the vote."""

    name = "label-judge"

    async def chat(self, messages, sampling):
        label = LABELS[(len(messages[1]["content"]) + sampling.seed % 2) % len(LABELS)]
        return [Completion(f"Reasons.\nFinal Verdict: {label}", "stop", 100, 10)]


def trajectories(
    path: Path, *, tasks: int, samples: int, turns: int, seed: int = 0, gain: float = 0.08, bent: float = 0.3
) -> Path:
    """Evaluated rows of tasks whose first two public tests are swapped, with thinking and verdicts per test.

    A program is right with a chance that grows by `gain` a turn, and passes a swapped test with chance
    `bent`.
    """
    rng, rows = random.Random(f"{path.name} {seed}"), []
    for number in range(tasks):
        public = {name: [f"{number} {i} {name}" for i in range(3)] for name in ("inputs", "outputs")}
        hidden = {"inputs": [f"{number} h{i}" for i in range(4)], "outputs": [f"out h{i}" for i in range(4)]}
        base = 0.05 + 0.5 * random.Random(number).random()
        table = [[_turn(rng, public, base + gain * t, bent, t) for t in range(turns)] for _ in range(samples)]
        by_turn = list(zip(*table, strict=True))
        opening = DEFAULT.messages(DEFAULT.wrap(f"Problem {number}: <b>add</b>."))
        rows.append({
            "id": f"task-{number:03}", "difficulty": ("easy", "medium", "hard")[number % 3],
            "starter_code": "class Solution:" if number % 4 == 0 else "", "question": f"Problem {number}",
            "public_test_cases": json.dumps(public), "perturbed_public_test_cases": json.dumps(public),
            "modified_test_cases": json.dumps({name: values[:2] for name, values in public.items()}),
            "hidden_test_cases": json.dumps(hidden),
            "raw_responses": [[f"step by step</think>{each['text']}" for each in turn] for turn in by_turn],
            "conversations": [
                _dialogue(opening, [(turn["text"], turn["said"]) for turn in each]) for each in table
            ],
            "public_pass_rates": [[sum(each["result"]["passing"]) / 3 for each in turn] for turn in by_turn],
            "public_exec_results": [[each["result"] for each in turn] for turn in by_turn],
            "usage": [[{"prompt_tokens": 300, "completion_tokens": 90}] * samples] * turns,
            "all_pass_rates": [[turn["rate"] for turn in each] for each in table],
            "exec_status": [["ok"] * turns] * samples,
            "hidden_test_status": [[turn["hidden"] for turn in each] for each in table],
        })  # fmt: skip
    write_jsonl(path, rows)
    write_manifest(path, settings={"stage": "hidden tests", "model": f"models/{path.stem}"})
    return path


def _turn(rng: random.Random, public: Row, chance: float, bent: float, turn: int) -> Row:
    right = rng.random() < chance
    passing = [rng.random() < bent, rng.random() < bent, True]
    lines = ["import sys", "", "def main():", "    a, b = sys.stdin.readline().split()[:2]",
             f"    total = int(a) + {rng.randrange(3)}", "    print(total)", "", "main()"]  # fmt: skip
    said = [_said(i, o) for i, o in zip(public["inputs"], public["outputs"], strict=True)]
    status = ["passed" if ok else "wrong_answer" for ok in passing]
    return {
        "text": f"I looked at turn {turn}.\n```python\n" + "\n".join(lines) + "\n```",
        "said": next((text for ok, text in zip(passing, said, strict=True) if not ok), None),
        "result": {"passing": passing, "feedback": said, "status": "ok",
                   "per_test": [{"status": s, "cpu_s": 0.0, "wall_s": 0.0, "returncode": 0} for s in status]},
        "rate": 1.0 if right else rng.choice([0.0, 0.25, 0.75]),
        "hidden": ["passed"] * 4 if right else ["passed", "wrong_answer", "time_limit", "runtime_error"],
    }  # fmt: skip


def analysed(folder: Path, *, tasks: int = 24, samples: int = 4, turns: int = 4) -> list[str]:
    """Everything a report can be made from: two runs, turn errors with verdicts, metrics."""
    made, more = [], []
    for name, gain in (("reference", 0.02), ("cobalt", 0.12)):
        path = folder / f"{name}_eval.jsonl"
        run = trajectories(path, tasks=tasks, samples=samples, turns=turns, gain=gain)
        errors, judged = (run.with_name(f"{run.stem}_{name}.jsonl") for name in ("errors", "judged"))
        turn_errors(run, run, errors)
        asyncio.run(judge_file(errors, judged, LabelJudge(), JudgeSettings(votes=3)))
        made.append(run)
        more += [errors, judged]
    metrics = folder / "cobalt" / "metrics.jsonl"
    metrics.parent.mkdir()
    names = ("reward/acc", "reward/shaped", "actor/entropy", "response_length/mean")
    write_jsonl(metrics, ({"step": s, **dict.fromkeys(names, s / 80)} for s in range(1, 41)))
    return [str(path) for path in [*made, *more, metrics]]
