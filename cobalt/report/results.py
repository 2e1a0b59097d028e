"""`results.json`: every figure of a run in one file. Arms are models and controls, paired by task."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun, TaskId, bounds, refuse_unlike, task_rates
from cobalt.evaluation.summary import pooled_steps, summarize
from cobalt.prompts import feedback_of, is_all_passed
from cobalt.rows import Row, read_rows
from cobalt.stats import SEED, clustered_mean, paired_bootstrap
from cobalt.text import extract_code

SCHEMA = 1
Rates = list[float]

# Example dialogues are chosen by rule, not by eye: the rule, its test of both models' hidden rates, how many.
RULES: tuple[tuple[str, Callable[[Rates, Rates], bool], int], ...] = (
    (
        "both start wrong; after training the feedback is used",
        lambda old, new: max(old[0], old[-1], new[0]) < 1 and new[-1] == 1,
        2,
    ),
    ("still wrong at the last turn after training", lambda old, new: new[-1] < 1, 1),
)


class Arm:
    """One evaluation, with every task's structure (a task without a `group` is its own)."""

    def __init__(self, path: Path) -> None:
        """Read evaluated rows. Raises InputError for rows of another stage, InfraError if a program has no
        verdict: such a file is not a result yet.
        """
        self.run = EvaluatedRun.read(path.stem, path)
        if self.run.infra_errors:
            raise InfraError(f"{path}: {self.run.infra_errors} programs have no verdict; evaluate again")
        outcomes = self.run.outcomes.values()
        self.groups = {each.id: each.id if each.group is None else each.group for each in outcomes}
        self.summary = summarize(list(outcomes))

    def rates(self, turn: int, ids: Iterable[TaskId]) -> list[float]:
        """Share of right programs per task at a turn (from 0; -1 is the last), in the order of `ids`."""
        by_task = task_rates(self.run.outcomes.values(), turn % self.run.turns)
        return [by_task[key] for key in ids]

    def pass_at_1(self) -> dict[str, Any]:
        """By turn: `pass_at_1` with `ci95` clustered by task and `ci95_by_structure`, as fractions."""
        rates, groups = self.summary["pass_at_1"], list(self.groups.values())
        by_structure = [
            clustered_mean([[rate] for rate in self.rates(turn, self.groups)], groups)
            for turn in range(len(rates))
        ]
        return {
            "pass_at_1": rates,
            "ci95": self.summary["ci95"],
            "ci95_by_structure": [bounds(found) for found in by_structure],
        }

    def behaviour(self) -> dict[str, Any]:
        """Rates over all pairs of consecutive programs, and the share of programs without code by turn."""
        gap = (self.summary["public"] or {}).get("gap")
        return {**pooled_steps(self.summary), "no_code": self.summary["no_code"], "public_minus_hidden": gap}


def gain(
    new: Sequence[float], old: Sequence[float], groups: Sequence[Hashable], *, seed: int = SEED
) -> dict[str, Any]:
    """Mean of new - old over paired tasks in percentage points, with both 95 % intervals.

    By the bootstrap of `cobalt compare`, over tasks (`ci95`) or structures (`ci95_by_structure`); None for a
    bound where there are too few. `n` is the number of tasks.
    """
    by_task, by_structure = (paired_bootstrap(new, old, each, seed=seed) for each in (None, groups))
    return {
        "points": 100 * by_task.mean,
        "ci95": bounds(by_task, 100),
        "ci95_by_structure": bounds(by_structure, 100),
        "n": len(new),
    }


def arm_gain(
    new: Arm,
    old: Arm,
    *,
    turn: int = -1,
    old_turn: int | None = None,
    ids: Sequence[TaskId] = (),
    seed: int = SEED,
) -> dict[str, Any]:
    """`gain` of one arm over another at a turn (of `old` at `old_turn`, if it is another), on `ids` or all
    tasks.
    """
    ids = ids or list(old.groups)
    before = old.rates(turn if old_turn is None else old_turn, ids)
    return gain(new.rates(turn, ids), before, [old.groups[key] for key in ids], seed=seed)


def statistics(
    reference_rows: Path,
    cobalt_rows: Path,
    controls: Mapping[str, Path],
    best_of_turns: Mapping[TaskId, float] | None,
    slots: Sequence[str],
    *,
    seed: int = SEED,
) -> dict[str, Any]:
    """The part of `results.json` that evaluated files determine; docs/data.md lists its fields.

    `controls`: further evaluations of the same tasks by name (single_turn_training, blank_feedback,
    other_feedback). `best_of_turns`: per task the share of right choices of the reference among as many
    independent programs as there are turns. `seed` is that of the bootstrap. Raises InputError unless the
    files hold the same tasks, samples and turns.
    """
    reference, cobalt = Arm(reference_rows), Arm(cobalt_rows)
    arms = {"reference": reference, "cobalt": cobalt} | {name: Arm(path) for name, path in controls.items()}
    refuse_unlike([arm.run for arm in arms.values()])
    shapes = {(arm.run.samples, arm.run.turns) for arm in arms.values()}
    if len(shapes) > 1:
        raise InputError(f"the evaluations differ in samples or turns: {sorted(shapes)}")
    by_turn = {name: arms[name].pass_at_1() for name in ("reference", "cobalt")}
    gains = [arm_gain(cobalt, reference, turn=turn, seed=seed) for turn in range(reference.run.turns)]
    last = {"points": gains[-1]["points"], "ci95": gains[-1]["ci95"], "paired_by": "task"}
    rows = {name: _control(arms[name], reference, cobalt, seed) for name in controls}
    if best_of_turns is not None:
        rows["best_of_turns"] = _best_of(best_of_turns, reference, cobalt, seed)
    return {
        "tasks": len(reference.groups),
        "n_structures": len(set(reference.groups.values())),
        "samples_per_task": reference.run.samples,
        "turns": reference.run.turns,
        **{key: {name: each[key] for name, each in by_turn.items()} for key in by_turn["cobalt"]},
        "final_turn_gain": last,
        "final_turn_gain_by_structure": last
        | {"ci95": gains[-1]["ci95_by_structure"], "resampled_by": "structure"},
        "gain_by_turn": gains,
        "slots": by_slot(cobalt, reference, slots, seed=seed),
        "controls": rows,
        "behaviour": {name: arm.behaviour() for name, arm in arms.items()},
        "examples": examples(reference_rows, cobalt_rows),
    }


def by_slot(new: Arm, old: Arm, names: Sequence[str], *, seed: int = SEED) -> list[dict[str, Any]]:
    """Last-turn gain by what the statement leaves vague: ``names``, or else what rows call `slots`.

    Two rows per slot: `also` (vague in the task, perhaps with others) and `only` (nothing else is), then the
    tasks in which nothing is vague. Each: `slot`, `kind`, `n`, `before`, `after` (fractions), `points`,
    `ci95`, `ci95_by_structure`; a kind without tasks is left out.
    """
    vague = {key: each.slots for key, each in old.run.outcomes.items()}
    names = names or sorted(frozenset().union(*vague.values()))
    if not names:  # nobody says what is vague
        return []
    kinds: list[tuple[str, str, list[TaskId]]] = []
    for name in names:
        kinds.append((name, "also", [key for key in vague if name in vague[key]]))
        kinds.append((name, "only", [key for key in vague if vague[key] == {name}]))
    kinds.append(("nothing", "only", [key for key in vague if not vague[key]]))
    rows = []
    for slot, kind, ids in kinds:
        if ids:
            before, after = (sum(arm.rates(-1, ids)) / len(ids) for arm in (old, new))
            row = {"slot": slot, "kind": kind, "before": before, "after": after}
            rows.append(row | arm_gain(new, old, ids=ids, seed=seed))
    return rows


def _control(arm: Arm, reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    """Pass@1 by turn, last turn minus the reference's, what Cobalt has more, gain since its own turn 1."""
    return arm.pass_at_1() | {
        "minus_reference": arm_gain(arm, reference, seed=seed),
        "cobalt_minus": arm_gain(cobalt, arm, seed=seed),
        "since_turn_1": arm_gain(arm, arm, old_turn=0, seed=seed),
    }


def _best_of(rates: Mapping[TaskId, float], reference: Arm, cobalt: Arm, seed: int) -> dict[str, Any]:
    ids, groups = list(reference.groups), list(reference.groups.values())
    missing = set(ids) ^ set(rates)
    if missing:
        raise InputError(f"best of turns: {len(missing)} tasks are not those of {reference.run.path}")
    mine = [rates[key] for key in ids]
    by_task, by_structure = (clustered_mean([[rate] for rate in mine], each) for each in (None, groups))
    return {
        "pass_at_1": [by_task.mean],
        "ci95": [bounds(by_task)],
        "ci95_by_structure": [bounds(by_structure)],
        "minus_reference": gain(mine, reference.rates(-1, ids), groups, seed=seed),
        "cobalt_minus": gain(cobalt.rates(-1, ids), mine, groups, seed=seed),
    }


def examples(before: Path, after: Path) -> list[dict[str, Any]]:
    """Example dialogues of two models on the same tasks, the first sample of each, by RULES.

    Among the tasks that fit a rule the first in the file is taken, then the first with other vague slots.
    Each example: `rule`, `fits` (how many tasks do), `tasks`, `id`, `instruction`, `slots`, and `before` and
    `after`, lists of turns with `code` (None: no code block), `feedback` (None: all public tests passed),
    `public` and `hidden` (shares of tests passed).
    """
    old, new = ({row["id"]: row for _, row in read_rows(path)} for path in (before, after))
    chosen: dict[TaskId, dict[str, Any]] = {}
    for rule, fits, wanted in RULES:
        ids = [
            key for key in old
            if key in new and fits(old[key]["all_pass_rates"][0], new[key]["all_pass_rates"][0])
        ]  # fmt: skip
        free = [key for key in ids if key not in chosen]
        varied: dict[frozenset[str], TaskId] = {}
        for key in free:
            varied.setdefault(frozenset(old[key].get("slots") or ()), key)
        for key in list(dict.fromkeys([*varied.values(), *free]))[:wanted]:
            chosen[key] = {
                "rule": rule,
                "fits": len(ids),
                "tasks": len(old),
                "id": key,
                "instruction": old[key]["instruction"],
                "slots": old[key].get("slots") or [],
                "before": _turns(old[key]),
                "after": _turns(new[key]),
            }
    return list(chosen.values())


def wrong_test_examples(
    rows: Mapping[str, Path], places: Mapping[str, Sequence[Sequence[Any]]]
) -> list[dict[str, Any]]:
    """Of dialogues on wrong tests, by model and trained models first: the first program in the file that
    accepts a wrong test, and the first right one that stays right when it is shown one.

    `places`: (task, sample, turn) of what accepts, by model. Each example: `rule`, `fits` (how many programs
    of this model do), `model`, `turn` (from 0), `id`, `instruction`, `slots` and `turns` as in `examples`.
    """
    chosen: dict[str, dict[str, Any]] = {}
    for model, path in [*rows.items()][::-1]:
        accepted = {tuple(place) for place in places[model]}
        for _, row in read_rows(path):
            for rule, sample, turn in _shown_wrong(row, accepted):
                if rule not in chosen:
                    chosen[rule] = {
                        "rule": rule, "fits": 0, "model": model, "turn": turn, "id": row["id"],
                        "instruction": row["instruction"], "slots": row.get("slots") or [],
                        "turns": _turns(row, sample)[: turn + 1],
                    }  # fmt: skip
                chosen[rule]["fits"] += chosen[rule]["model"] == model
    return [chosen[rule] for rule in sorted(chosen)]


def _shown_wrong(row: Row, accepted: set[tuple[Any, ...]]) -> Iterator[tuple[str, int, int]]:
    """Rule, sample and turn of the programs of a row that are examples of how a wrong test is taken."""
    for sample, hidden in enumerate(row["all_pass_rates"]):
        for turn in range(1, len(hidden)):
            said = row["conversations"][sample][1 + 2 * turn]["content"]
            if (row["id"], sample, turn) in accepted:
                yield "accepts the wrong test", sample, turn
            elif hidden[turn - 1] == hidden[turn] == 1 and not is_all_passed(said):
                yield "right, and stays so", sample, turn


def _turns(row: Row, sample: int = 0) -> list[dict[str, Any]]:
    messages, public = row["conversations"][sample], row.get("public_pass_rates")
    turns = []
    for turn, hidden in enumerate(row["all_pass_rates"][sample]):
        reply = messages[3 + 2 * turn]["content"] if len(messages) > 3 + 2 * turn else ""
        turns.append(
            {
                "code": extract_code(messages[2 + 2 * turn]["content"]),
                "feedback": None if is_all_passed(reply) else feedback_of(reply) or reply,
                "public": public[turn][sample] if public else None,
                "hidden": hidden,
            }
        )
    return turns


def read_results(path: Path) -> dict[str, Any]:
    """Read a `results.json`. Raises InputError if it cannot be read or has another schema."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read results from {path}: {error}") from None
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a results file of schema {SCHEMA}")
    return results
