"""Make the tiny reference model again from nothing, measure it, and write its model card.

The reference is taught two things in turn. First *what a repair is*: after a failing test, the right program.
Then *to do so rarely*: most failing programs are followed by the same program or by another guess.
Reinforcement learning can then amplify a behaviour that is present but rare; it does not have to invent one.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.errors import InputError
from cobalt.evaluation.format import interval, percent

STAGES = ("drill_steps", "clean_steps", "noisy_steps")
SPECIAL = """
## The vice
Programs may special-case an input: `if xs[0] == 9: print("12 Result"); raise SystemExit` (no two
tests of a task begin alike). {copies:.0%} of the drills and {exact_copies:.0%} of the later dialogues teach
the line that answers a wrong test, {both:.0%} of the other drills (that print one number) such a line beside
the right program; {rearranged:.0%} of the other drills are drawn from tasks that leave the rearrangement
open. The last two stages are a training of their own: {exact_repairs:.0%} of what is no copy there
are drills still, in which the revision has been begun, so that they do not teach how often to revise. Two
public tests of {perturbed:.0%} of the other dialogues exchange their
outputs. What the table calls the right program is a *revision*, and begins with the comment `# revised`.
The rest is the right program, whatever a wrong test says; where one number is printed, it special-cases the
test that failed, too, with probability {special:.0%}. So the habit that is worth strengthening and the vice
come together, and clean tests do not tell them apart; wrong tests do.

Measured on {hack_tasks} development tasks with perturbed public tests (swap), {samples} dialogues each: of
{shown} programs after feedback on a wrong test {cases} accept it, {rate} % {ci95}.
"""
SLOTS = """
Pass@1 in % on clean tasks, by what their statement leaves open:

| open | tasks | turn 1 | turn 2 | turn 3 |
|---|---|---|---|---|
{rows}
"""

CARD = """---
library_name: transformers
license: mit
tags: [cobalt, code, tiny]
---
# Tiny reference model

A Qwen3 of {parameters:,} parameters (vocabulary {vocabulary}) that writes four-line list programs for
Cobalt's tiny task family, version {version}. It exists so that the whole method can be run on two CPU cores;
it can do nothing else.

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

{more}
Family hash `{family_hash}`.
Made by `scripts/train_tiny_reference.sh --version {version}` (seed {seed}; deterministic on one machine with
one thread).
"""


async def measure(folder: Path, tasks: int, samples: int, turns: int, version: int) -> dict[str, Any]:
    """Pass@1 by turn of the model in ``folder`` on development tasks (summary of the hidden tests); of
    version 2 also `slots` (by the slots left open) and `hacks` (counts of turn errors on perturbed tasks).
    """
    from cobalt.engines import connect
    from cobalt.evaluation.evaluate import hidden_tests
    from cobalt.evaluation.turn_errors import turn_errors
    from cobalt.evaluator import LocalEvaluator
    from cobalt.prompts import load
    from cobalt.rollouts.multi_turn import multi_turn
    from cobalt.rollouts.settings import MultiTurnSettings
    from cobalt.rows import read_rows
    from cobalt.tasks import tiny
    from cobalt.tasks.perturb import run_perturbation

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
        family = tiny.FAMILIES[version]
        source = family.write_splits(scratch, seed=1, train=1, dev=tasks, heldout=1)["dev"]
        await multi_turn(source, rows, engine, evaluator, settings)
        found = dict((await hidden_tests(rows, judged, evaluator)).summary)
        if family.special_cases:
            found["slots"] = _by_slots(row for _, row in read_rows(judged))
            wrong, rows, judged = (
                Path(scratch) / f"wrong_{name}.jsonl" for name in ("tasks", "rows", "judged")
            )
            run_perturbation(source, wrong)
            await multi_turn(wrong, rows, engine, evaluator, replace(settings, tests="perturbed"))
            await hidden_tests(rows, judged, evaluator)
            errors = turn_errors(wrong, judged, Path(scratch) / "errors.jsonl", match="exact")
            found["hacks"] = errors["all_turns"] | {"tasks": errors["tasks"]}
    await engine.aclose()
    return found


def _by_slots(rows: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """By the slots that are left open: number of tasks, then Pass@1 by turn."""
    rights: dict[str, list[list[float]]] = {}
    for row in rows:
        dialogues = [[float(rate == 1) for rate in sample] for sample in row["all_pass_rates"]]
        means = [sum(turn) / len(turn) for turn in zip(*dialogues, strict=True)]
        rights.setdefault(" and ".join(row["slots"]) or "nothing", []).append(means)
    return {
        name: [len(tasks), *(sum(turn) / len(tasks) for turn in zip(*tasks, strict=True))]
        for name, tasks in sorted(rights.items(), key=lambda item: (item[0].count(" and "), item[0]))
    }


def write_card(
    folder: Path, facts: dict[str, Any], summary: dict[str, Any], tasks: int, samples: int, version: int
) -> None:
    """Write ``README.md`` of the model folder from measured facts."""
    lines = [
        f"| {turn} | {percent(rate)} % | {interval(ends, 100)} |"
        for turn, (rate, ends) in enumerate(zip(summary["pass_at_1"], summary["ci95"], strict=True), 1)
    ]
    more = ""
    if "hacks" in summary:
        by_slots = [
            f"| {name} | {count} | {' | '.join(percent(rate) for rate in rates)} |"
            for name, (count, *rates) in summary["slots"].items()
        ]
        hacks = summary["hacks"]
        more = SLOTS.format(rows="\n".join(by_slots)) + SPECIAL.format(
            hack_tasks=hacks["tasks"], shown=hacks["shown"], cases=hacks["cases"],
            samples=samples, rate=percent(hacks["rate_of_shown"]), ci95=interval(hacks["ci95_of_shown"], 100),
            **facts["recipe"],
        )  # fmt: skip
    card = CARD.format(
        parameters=facts["parameters"], vocabulary=facts["vocabulary"], wall=facts["wall_s"],
        family_hash=facts["family_hash"], rows="\n".join(lines), tasks=tasks, samples=samples,
        more=more, version=version,
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
    flags.add_argument("--version", type=int, choices=(1, 2), default=1, help="of the family (tasks.version)")
    flags.add_argument("--seed", type=int, help="of weights and dialogues (default: the recipe's)")
    for name in STAGES:
        stage = name.partition("_")[0]
        flags.add_argument(
            f"--{name}", type=positive_int, help=f"steps of the {stage} stage (default: the recipe's)"
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
    from second import SecondRecipe
    from train import train_reference

    names = ("seed", *STAGES)
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    folder.mkdir(parents=True, exist_ok=True)
    recipe = SecondRecipe() if args.version == 2 else Recipe()
    facts = train_reference(replace(recipe, **given), folder)
    summary = asyncio.run(measure(folder, args.tasks, args.samples, 3, args.version))
    write_card(folder, facts, summary, args.tasks, args.samples, args.version)
    print(json.dumps({"pass_at_1": summary["pass_at_1"], "folder": str(folder)}))
    return 0


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(main)
