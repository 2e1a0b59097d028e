"""Stored groups: completions of one prompt with their verdicts, to train on without sampling or running any.

``preproc/preproc_codenet.py`` makes them from submissions, ``cobalt stored_groups`` from the rows of a
single-turn run (``run_single_turn_vllm.py``), or from evaluated trajectories.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.contexts.trajectories import read_trajectories
from cobalt.errors import InputError
from cobalt.files import replacing
from cobalt.own import Own, absolute, fault_in, is_spec
from cobalt.own import load as find_function
from cobalt.prompts import Prompts, load
from cobalt.recipes.offline_rl import OBJECTIVES, REWARDS, rewards_of, weigh
from cobalt.recipes.rejection_sft import best
from cobalt.recipes.rltf_sd import revisions
from cobalt.rows import Row, read_rows, require, row_id
from cobalt.text import extract_code
from cobalt.training.data import check_prompt, read_parquet
from cobalt.training.own_recipe import module_folder

COLUMNS = ("prompt", "completions", "extra_info")


@dataclass(frozen=True)
class Group:
    """Completions of one prompt and the weight of each in the loss, [n] each; ``rewards`` in [-1, 1]."""

    prompt: list[dict[str, str]]
    texts: list[str]
    weights: list[float]
    rewards: list[float]


def check_groups(path: Path, config: Any) -> list[Group]:
    """Read the groups of a Parquet file as the recipe uses them.

    ``sft`` keeps the ``keep`` shortest right completions of every prompt, whatever groups they are in; a
    function as objective those groups that it gives a weight, the others groups with a right and a wrong one.
    Raises InputError that names file, row and field, or the function's line, or for no usable group.
    """
    settings, what = config.cobalt.offline, f"stored groups {path}"
    own = None
    if is_spec(str(settings.objective)):
        spec = absolute(settings.objective, module_folder(config) or Path.cwd())
        own = find_function(spec, "cobalt.offline.objective", ("rewards", "completions"))
    if (own is None and settings.objective not in OBJECTIVES) or settings.reward not in REWARDS:
        raise InputError(
            f"cobalt.offline: objective must be one of {', '.join(OBJECTIVES)} and reward one of "
            f"{', '.join(REWARDS)}, got {settings.objective!r} and {settings.reward!r}"
        )
    for name in ("temperature", "clip"):
        value = getattr(settings, name)
        if value is not None and not float(value) > 0:
            raise InputError(f"cobalt.offline.{name} must be positive, got {value!r}")
    table = read_parquet(path, "stored groups")
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        lacks = f"column {', '.join(missing)} missing"
        raise InputError(f"{what}: {lacks}; make the file with `cobalt stored_groups`")
    rows = table.select(list(COLUMNS)).to_pylist()
    for number, row in enumerate(rows):
        _check(row, f"{what}: row {number}")
    if settings.objective == "sft":
        found, lacking = best(rows, int(settings.keep)), "no right completion"
        groups = [Group(prompt, kept, [1.0] * len(kept), [1.0] * len(kept)) for prompt, kept in found]
    elif own is not None:
        weighed = (_weighed(row, own, settings, f"{what}: row {number}") for number, row in enumerate(rows))
        groups, lacking = [group for group in weighed if any(group.weights)], "every weight is 0"
    else:
        groups = [group for row in rows if (group := _group(row, settings)) is not None]
        lacking = "no group has right and wrong completions"
    if not groups:
        raise InputError(f"{what}: none of {table.num_rows} rows can be used ({lacking})")
    return groups


def _check(row: Mapping[str, Any], where: str) -> None:
    check_prompt(row["prompt"], where)
    completions = row["completions"]
    if not isinstance(completions, list) or len(completions) < 1:
        raise InputError(f"{where}: field 'completions' must be a list")
    for item in completions:
        rate = item.get("pass_rate") if isinstance(item, dict) else None
        usable = isinstance(rate, int | float) and 0.0 <= rate <= 1.0
        if not usable or not isinstance(item.get("text"), str):
            raise InputError(f"{where}: 'completions' must hold 'text' and 'pass_rate' in [0, 1]")
        if not isinstance(item.get("cpu_time"), int | float | None):
            raise InputError(f"{where}: 'cpu_time' of a completion must be a number (ms)")


def _group(row: Mapping[str, Any], settings: Any) -> Group | None:
    """The group of a row, weighed; None without right or wrong ones, or where rewards are equal."""
    completions = row["completions"]
    right = sum(item["pass_rate"] == 1.0 for item in completions)
    rewards = rewards_of(completions, settings)
    if right in (0, len(completions)) or len(set(rewards)) == 1:
        return None
    return Group(row["prompt"], [item["text"] for item in completions], weigh(rewards, settings), rewards)


def _weighed(row: Mapping[str, Any], own: Own, settings: Any, where: str) -> Group:
    """The group of a row, by a function: one finite weight per completion, or InputError."""
    completions = row["completions"]
    rewards = rewards_of(completions, settings)
    try:
        weights = [float(value) for value in own(rewards=rewards, completions=completions)]
    except Exception as error:
        raise InputError(f"{where}: {fault_in(own, error)}") from error
    if len(weights) != len(completions) or not all(map(math.isfinite, weights)):
        raise InputError(
            f"{where}: {own.where}: {own.setting}={own.spec}: must return a finite weight for each of "
            f"{len(completions)} completions, got {weights}"
        )
    return Group(row["prompt"], [item["text"] for item in completions], weights, rewards)


def revised(rows: Iterator[tuple[str, Row]]) -> Iterator[dict[str, Any]]:
    """Of evaluated trajectories a row per task: second programs as completions, for rltf_sd."""
    for where, row in rows:
        task = read_trajectories(row, where)
        if completions := revisions(task):
            yield _row(task.conversations[0][:2], completions, task.task_id)


def _row(prompt: Any, completions: list[dict[str, Any]], key: str | int) -> dict[str, Any]:
    return {
        "data_source": "code_taco_verified",
        "prompt": prompt,
        "completions": completions,
        "extra_info": {"split": "train", "index": str(key)},
    }


def stored_groups(
    rows: Iterator[tuple[str, Mapping[str, Any]]], messages: Any, *, size: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Groups of ``size`` stored completions of a task, at least one right and one wrong in each; then, in a
    row of their own, the right ones left over (all of a task that every sample solved), for objective sft.

    ``rows``: (place, row) of a single-turn run with ``instruction``, ``responses`` [S] and ``exec_results``
    [S]; ``messages(instruction)`` opens the prompt. A task gives as many disjoint groups as it can. Raises
    InputError for rows that lack these fields, or hold a response without verdict.
    """
    for where, row in rows:
        key, made = row_id(row, where), _judged(row, where)
        random.Random(f"{seed}:{key}").shuffle(made)
        right = [item for item in made if item["pass_rate"] == 1.0]
        wrong = [item for item in made if item["pass_rate"] < 1.0]
        groups = []
        while right and wrong and len(right) + len(wrong) >= size:
            group = [right.pop(), wrong.pop()]
            while len(group) < size:
                group.append((right if len(right) > len(wrong) else wrong or right).pop())
            groups.append(group)
        for completions in [*groups, right] if right else groups:
            yield _row(messages(row["instruction"]), completions, key)


def _judged(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    responses = require(row, "responses", list, where)
    results = require(row, "exec_results", list, where)
    if len(responses) != len(results):
        raise InputError(f"{where}: {len(responses)} 'responses' but {len(results)} 'exec_results'")
    made = []
    for text, result in zip(responses, results, strict=True):
        if result.get("status") == "infra_error":
            raise InputError(f"{where}: a response has no verdict; run the single-turn door again")
        passing = result["passing"]
        rate = sum(passing) / len(passing) if passing and extract_code(text or "") is not None else 0.0
        made.append({"text": text or "", "pass_rate": rate})
    return made


def write_groups(
    source: Path | str, target: Path | str, prompts: Prompts, *, size: int, seed: int = 42
) -> int:
    """Replace the Parquet file ``target`` by the rows of a file of single-turn rows; returns how many of them
    are groups of ``size``, right and wrong.

    Raises InputError for rows that cannot be used, or if no task has a right completion.
    """
    groups = list(stored_groups(read_rows(source), prompts.messages, size=size, seed=seed))
    if not groups:
        raise InputError(f"{source}: no task has a right completion (among {size}, right and wrong)")
    _write(groups, target)
    return sum(any(item["pass_rate"] < 1.0 for item in group["completions"]) for group in groups)


def write_revisions(source: Path | str, target: Path | str) -> int:
    """Replace the Parquet file ``target`` by `revised` rows of evaluated trajectories; returns their number.

    Raises InputError for rows that cannot be used, or if there is no second program.
    """
    tasks = list(revised(read_rows(source)))
    if not tasks:
        raise InputError(f"{source}: no dialogue has a second program with a verdict")
    _write(tasks, target)
    return len(tasks)


def _write(groups: list[dict[str, Any]], target: Path | str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with replacing(target) as handle:
        parquet.write_table(pa.Table.from_pylist(groups), handle)


def main(argv: list[str] | None = None) -> int:
    """`cobalt stored_groups`: Parquet for recipes that train on stored groups."""
    flags = parser("Make groups of stored completions from the rows of a single-turn run.")
    flags.add_argument("-i", "--input_file", required=True, help="JSONL with 'responses' and 'exec_results'")
    flags.add_argument(
        "--revisions", action="store_true",
        help="read evaluated trajectories: second programs, beside the first ones' mean (recipe rltf_sd)",
    )  # fmt: skip
    flags.add_argument("-o", "--output_file", required=True, help="Parquet file, replaced")
    flags.add_argument("--group_size", type=positive_int, default=4, help="completions per group")
    flags.add_argument("--prompts", default="default", help="whose system message opens the prompt")
    flags.add_argument("--seed", type=int, default=42, help="of the choice of completions")
    args = flags.parse_args(argv)
    if args.group_size < 2:
        raise InputError("--group_size must be at least 2")
    if args.revisions:
        count = write_revisions(args.input_file, args.output_file)
        print(f"{args.output_file}: second programs of {count} tasks")
        return 0
    size, prompts = args.group_size, load(args.prompts)
    made = write_groups(args.input_file, args.output_file, prompts, size=size, seed=args.seed)
    print(f"{args.output_file}: {made} groups of {size}, and right completions left over")
    return 0
