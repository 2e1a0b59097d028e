"""Make the tiny reference model again from nothing, measure it, and write its model card.

The reference is taught two things in turn. First *what a repair is*: after a failing test, the right program.
Then *to do so rarely*: most failing programs are followed by the same program or by another guess.
Reinforcement learning can then amplify a behaviour that is present but rare; it does not have to invent one.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.errors import InputError
from cobalt.evaluation.format import interval, percent

STAGES = ("drill_steps", "clean_steps", "noisy_steps")

CARD = """---
library_name: transformers
license: mit
tags: [cobalt, code, tiny]
---
# Tiny reference model

A Qwen3 of {parameters:,} parameters (vocabulary {vocabulary}) that writes four-line list programs for
Cobalt's tiny task family. It exists so that the whole method can be run on two CPU cores; it can do nothing
else.

## What it was taught
Supervised dialogues on the family's *training* structures only, in three stages ({wall:.0f} s on one core of
a shared machine). What a failing program is followed by:

| stage | steps | the same program | another guess | the right program |
|---|---|---|---|---|
| drill (loss on repairs only) | {drill_steps} | - | - | 100% |
| clean | {clean_steps} | {clean[repeat]:.0%} | {clean[guess]:.0%} | {clean[repair]:.0%} |
| noisy | {noisy_steps} | {noisy[repeat]:.0%} | {noisy[guess]:.0%} | {noisy[repair]:.0%} |

A guess draws the vague slots at random; {corrupt:.0%} of guesses also ignore one stated slot. After the
message that all public tests passed, {change_after_pass:.0%} of dialogues go on with another guess. The last
stage hides a skill that the first one taught: a gain from reinforcement learning is the amplification of a
behaviour that is present here but rare, not its discovery.

## Measured
Pass@1 on hidden tests by turn, {tasks} tasks x {samples} dialogues on *development* structures (never
trained on), temperature 1, every dialogue running all turns:

| turn | Pass@1 | 95 % interval (by task) |
|---|---|---|
{rows}

Family hash `{family_hash}`.
Made by `scripts/train_tiny_reference.sh` (seed {seed}; deterministic on one machine with one thread).
"""


async def measure(folder: Path, tasks: int, samples: int, turns: int) -> dict[str, Any]:
    """Pass@1 by turn of the model in ``folder`` on development tasks (summary of the hidden tests)."""
    from cobalt.engines import connect
    from cobalt.evaluation.evaluate import hidden_tests
    from cobalt.evaluator import LocalEvaluator
    from cobalt.prompts import load
    from cobalt.rollouts.multi_turn import multi_turn
    from cobalt.rollouts.settings import MultiTurnSettings
    from cobalt.tasks import tiny

    settings = MultiTurnSettings(
        temperature=1.0,
        top_p=1.0,
        max_tokens=64,
        n=samples,
        seed=0,
        prompts=load("tiny"),
        turns=turns,
        first_turn=True,
    )
    engine = connect("transformers", str(folder), max_context=512)
    with tempfile.TemporaryDirectory(prefix="cobalt-") as scratch, LocalEvaluator() as evaluator:
        rows, judged = Path(scratch) / "rollouts.jsonl", Path(scratch) / "judged.jsonl"
        source = tiny.write_splits(scratch, seed=1, train=1, dev=tasks, heldout=1)["dev"]
        await multi_turn(source, rows, engine, evaluator, settings)
        result = await hidden_tests(rows, judged, evaluator)
    await engine.aclose()
    return result.summary


def write_card(
    folder: Path, facts: dict[str, Any], summary: dict[str, Any], tasks: int, samples: int
) -> None:
    """Write ``README.md`` of the model folder from measured facts."""
    lines = [
        f"| {turn} | {percent(rate)} % | {interval(ends, 100)} |"
        for turn, (rate, ends) in enumerate(zip(summary["pass_at_1"], summary["ci95"], strict=True), 1)
    ]
    card = CARD.format(
        parameters=facts["parameters"], vocabulary=facts["vocabulary"], wall=facts["wall_s"],
        family_hash=facts["family_hash"], rows="\n".join(lines), tasks=tasks, samples=samples,
        **facts["recipe"],
    )  # fmt: skip
    (folder / "README.md").write_text(card)


def main(argv: list[str] | None = None) -> int:
    """The command line of `scripts/train_tiny_reference.sh`; returns the exit code."""
    flags = parser(
        "Train the tiny reference from random weights, measure it on development tasks, write its card."
    )
    flags.add_argument(
        "-o", "--output", required=True, help="folder to write (Hugging Face format); must not exist"
    )
    flags.add_argument("--seed", type=int, default=2, help="seed of weights and dialogues")
    flags.add_argument(
        "--clean_steps", type=positive_int, help="steps of the clean stage (default: the recipe's)"
    )
    flags.add_argument(
        "--noisy_steps", type=positive_int, help="steps of the noisy stage (default: the recipe's)"
    )
    flags.add_argument("--tasks", type=positive_int, default=200, help="development tasks of the measurement")
    flags.add_argument(
        "--samples", type=positive_int, default=4, help="dialogues per task of the measurement"
    )
    args = flags.parse_args(argv)
    folder = Path(args.output)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} exists and is not empty: name another --output or remove it")
    from dialogues import Recipe
    from train import train_reference

    given = {name: getattr(args, name) for name in STAGES if getattr(args, name)}
    folder.mkdir(parents=True, exist_ok=True)
    facts = train_reference(replace(Recipe(), seed=args.seed, **given), folder)
    summary = asyncio.run(measure(folder, args.tasks, args.samples, turns=3))
    write_card(folder, facts, summary, args.tasks, args.samples)
    print(json.dumps({"pass_at_1": summary["pass_at_1"], "folder": str(folder)}))
    return 0


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(main)
