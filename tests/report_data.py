"""Evaluated rows with known rates, of the schema that evaluation writes: for tests of report and page."""

import asyncio
import json
import random
from pathlib import Path

from cobalt.engines.base import Completion
from cobalt.evaluation.judge import JudgeSettings, judge_file
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.evaluation.verdicts import LABELS
from cobalt.manifest import manifest_path, write_manifest
from cobalt.output import write_jsonl
from cobalt.prompts import DEFAULT, load
from cobalt.report.paired_arms import Evaluations, statistics
from cobalt.rows import Row
from cobalt.tasks import tiny
from cobalt.testcases import TestCases

SLOTS = ("constant", "rearrangement", "format")


def evaluated(path: Path, rates: list[float], *, n: int = 40, samples: int = 2, seed: int = 0) -> Path:
    """Write `n` rows whose programs are right with chance rates[turn]; returns `path`."""
    rng = random.Random(f"{path.name} {seed}")
    prompts = load("tiny")
    rows: list[Row] = []
    for task in tiny.draw_tasks("heldout", n, seed):
        tests = TestCases.parse(task["public_test_cases"])
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
            {"step": step, "reward/acc": low + up * step / (step + 20) + rng.uniform(-0.06, 0.06)}
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
    rng = random.Random(f"{path.name} {seed}")
    rows: list[Row] = []
    for number in range(tasks):
        public = {
            "inputs": [f"{number} {i} in" for i in range(3)],
            "outputs": [f"{number} {i} out" for i in range(3)],
        }
        hidden = {"inputs": [f"{number} h{i}" for i in range(4)], "outputs": [f"out h{i}" for i in range(4)]}
        pairs = {name: values[:2] for name, values in public.items()}
        base = 0.05 + 0.5 * random.Random(number).random()
        table = [[_turn(rng, public, base + gain * t, bent, t) for t in range(turns)] for _ in range(samples)]
        by_turn = list(zip(*table, strict=True))
        conversations = []
        for sample in table:
            messages: list[Row] = [
                dict(m) for m in DEFAULT.messages(DEFAULT.wrap(f"Problem {number}: <b>add</b>."))
            ]
            for turn in sample:
                messages.append({"role": "assistant", "content": turn["text"]})
                messages.append({"role": "user", "content": DEFAULT.feedback_message(turn["said"])})
            conversations.append(messages)
        rows.append(
            {
                "id": f"task-{number:03}",
                "difficulty": ("easy", "medium", "hard")[number % 3],
                "starter_code": "class Solution:" if number % 4 == 0 else "",
                "question": f"Problem {number}",
                "public_test_cases": json.dumps(public),
                "perturbed_public_test_cases": json.dumps(public),
                "modified_test_cases": json.dumps(pairs),
                "hidden_test_cases": json.dumps(hidden),
                "raw_responses": [
                    [f"step by step</think>{turn['text']}" for turn in turn_] for turn_ in by_turn
                ],
                "conversations": conversations,
                "public_pass_rates": [[sum(turn["passing"]) / 3 for turn in turn_] for turn_ in by_turn],
                "public_exec_results": [[turn["result"] for turn in turn_] for turn_ in by_turn],
                "usage": [[{"prompt_tokens": 300, "completion_tokens": 90}] * samples] * turns,
                "all_pass_rates": [[turn["rate"] for turn in sample] for sample in table],
                "exec_status": [["ok"] * turns] * samples,
                "hidden_test_status": [[turn["hidden"] for turn in sample] for sample in table],
            }
        )
    write_jsonl(path, rows)
    write_manifest(path, settings={"stage": "hidden tests", "model": f"models/{path.stem}"})
    return path


def _turn(rng: random.Random, public: Row, chance: float, bent: float, turn: int) -> Row:
    right = rng.random() < chance
    passing = [rng.random() < bent, rng.random() < bent, True]
    lines = ["import sys", "", "def main():", "    a, b = sys.stdin.readline().split()[:2]"]
    lines += [f"    total = int(a) + {rng.randrange(3)}", "    print(total)", "", "main()"]
    said = [
        f"Input:\n{i}\nProgram's Output:\n<i>7</i>\nExpected Output:\n{o}"
        for i, o in zip(public["inputs"], public["outputs"], strict=True)
    ]
    status = ["passed" if ok else "wrong_answer" for ok in passing]
    return {
        "text": f"I looked at turn {turn}.\n```python\n" + "\n".join(lines) + "\n```",
        "said": next((text for ok, text in zip(passing, said, strict=True) if not ok), None),
        "passing": passing,
        "result": {"passing": passing, "feedback": said, "status": "ok",
                   "per_test": [{"status": s, "cpu_s": 0.0, "wall_s": 0.0, "returncode": 0} for s in status]},
        "rate": 1.0 if right else rng.choice([0.0, 0.25, 0.75]),
        "hidden": ["passed"] * 4 if right else ["passed", "wrong_answer", "time_limit", "runtime_error"],
    }  # fmt: skip


def analysed(folder: Path, *, tasks: int = 24, samples: int = 4, turns: int = 4) -> list[str]:
    """Everything a report can be made from: two runs, turn errors with verdicts, metrics, a funnel."""
    runs = [
        trajectories(folder / f"{name}_eval.jsonl", tasks=tasks, samples=samples, turns=turns, gain=gain)
        for name, gain in (("reference", 0.02), ("cobalt", 0.12))
    ]
    more = []
    for run in runs:
        errors, judged = (run.with_name(f"{run.stem}_{name}.jsonl") for name in ("errors", "judged"))
        turn_errors(run, run, errors)
        asyncio.run(judge_file(errors, judged, LabelJudge(), JudgeSettings(votes=3)))
        more += [errors, judged]
    metrics = folder / "cobalt" / "metrics.jsonl"
    metrics.parent.mkdir()
    rng = random.Random(0)
    write_jsonl(
        metrics,
        [
            {
                "step": s,
                "reward/acc": s / 80 + rng.random() / 5,
                "reward/shaped": s / 90,
                "actor/entropy": 1 / s,
                "response_length/mean": 90.0,
                "response_length/clip_ratio": 0.1,
            }
            for s in range(1, 41)
        ],
    )
    manifest = json.loads(manifest_path(runs[0]).read_text())
    manifest["counts"] = {"funnel": {"rows_in": 900, "images": 120, "length": 33, "rows_out": 747}}
    manifest_path(runs[0]).write_text(json.dumps(manifest))
    return [str(path) for path in [*runs, *more, metrics]]
