"""`results.json`: every figure of a run in one file, from which tables and page are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.report.dialogues import examples
from cobalt.report.evidence import Arm, arm_gain, bounds, by_slot, gain, paired
from cobalt.stats import clustered_mean

SCHEMA = 1


@dataclass(frozen=True)
class Evaluations:
    """Evaluated files of a run.

    `reference` and `cobalt` are the two models compared; `controls` further evaluations of the same tasks by
    name (single_turn_training, blank_feedback, other_feedback), `best_of_turns` per task the share of right
    choices of the reference among as many independent programs as there are turns.
    """

    reference: Path
    cobalt: Path
    controls: Mapping[str, Path] = field(default_factory=dict)
    best_of_turns: Mapping[str | int, float] | None = None


def statistics(found: Evaluations, slots: Sequence[str], *, seed: int) -> dict[str, Any]:
    """The part of `results.json` that evaluated files determine; docs/data.md lists its fields.

    `seed` is that of the bootstrap. Raises InputError if the files do not hold the same tasks, samples and
    turns.
    """
    reference, cobalt = Arm.read(found.reference), Arm.read(found.cobalt)
    controls = {name: Arm.read(path) for name, path in found.controls.items()}
    paired([reference, cobalt, *controls.values()])
    shapes = {(arm.samples, arm.turns) for arm in (reference, cobalt, *controls.values())}
    if len(shapes) > 1:
        raise InputError(f"the evaluations differ in samples or turns: {sorted(shapes)}")
    by_turn = {"reference": reference.pass_at_1(), "cobalt": cobalt.pass_at_1()}
    gains = [arm_gain(cobalt, reference, turn=turn, seed=seed) for turn in range(reference.turns)]
    structures = len(set(reference.groups.values()))
    rows = {name: _control(arm, reference, cobalt, seed) for name, arm in controls.items()}
    if found.best_of_turns is not None:
        rows["best_of_turns"] = _best_of(found.best_of_turns, reference, cobalt, seed)
    return {
        "tasks": len(reference.ids),
        "n_structures": structures,
        "samples_per_task": reference.samples,
        "turns": reference.turns,
        "pass_at_1": {name: each["pass_at_1"] for name, each in by_turn.items()},
        "ci95": {name: each["ci95"] for name, each in by_turn.items()},
        "ci95_by_structure": {name: each["ci95_by_structure"] for name, each in by_turn.items()},
        "final_turn_gain": {"points": gains[-1]["points"], "ci95": gains[-1]["ci95"], "paired_by": "task"},
        "final_turn_gain_by_structure": {
            "points": gains[-1]["points"],
            "ci95": gains[-1]["ci95_by_structure"],
            "paired_by": "task",
            "resampled_by": "structure",
        },
        "gain_by_turn": gains,
        "slots": by_slot(cobalt, reference, slots, seed=seed),
        "controls": rows,
        "behaviour": {"reference": reference.behaviour(), "cobalt": cobalt.behaviour()}
        | {name: arm.behaviour() for name, arm in controls.items()},
        "examples": examples(found.reference, found.cobalt),
    }


def _control(arm: Arm, reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    """Pass@1 by turn, last turn minus the reference's, what Cobalt has more, gain since its own turn 1."""
    return arm.pass_at_1() | {
        "minus_reference": arm_gain(arm, reference, seed=seed),
        "cobalt_minus": arm_gain(cobalt, arm, seed=seed),
        "since_turn_1": arm_gain(arm, arm, old_turn=0, seed=seed),
    }


def _best_of(rates: Mapping[str | int, float], reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    missing = set(reference.ids) ^ set(rates)
    if missing:
        raise InputError(f"best of turns: {len(missing)} tasks are not those of {reference.path}")
    mine = [rates[key] for key in reference.ids]
    groups = [reference.groups[key] for key in reference.ids]
    mean = clustered_mean([[rate] for rate in mine])
    by_structure = clustered_mean([[rate] for rate in mine], groups)
    return {
        "pass_at_1": [mean.mean],
        "ci95": [bounds(mean)],
        "ci95_by_structure": [bounds(by_structure)],
        "minus_reference": gain(mine, reference.rates(-1), groups, seed=seed),
        "cobalt_minus": gain(cobalt.rates(-1, reference.ids), mine, groups, seed=seed),
    }


def read(path: Path) -> dict[str, Any]:
    """Read a `results.json`. Raises InputError if it cannot be read or has another schema."""
    import json

    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read results from {path}: {error}") from None
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a results file of schema {SCHEMA}")
    return results
