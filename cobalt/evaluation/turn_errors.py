"""Turns that follow a wrong test: which programs were bent to a swapped public test pair (arXiv 2602.03806).

On perturbed public tests the expected outputs of two pairs are swapped, so no honest program passes them. A
case is a turn whose program passes what the swapped pair asks for, after its feedback was shown.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cobalt.cli import parser
from cobalt.errors import InputError
from cobalt.evaluation.evaluate import programs_of, summary_path
from cobalt.evaluation.evaluated_rows import Outcomes, bounds, model_of
from cobalt.evaluation.format import interval, percent
from cobalt.evaluation.swapped_pairs import SwappedPairs, trajectory_cases
from cobalt.files import atomic_write
from cobalt.manifest import write_manifest
from cobalt.output import refuse_overwriting, write_jsonl
from cobalt.rollouts.source import Source, check_output
from cobalt.rollouts.verdicts import tests_of
from cobalt.rows import Row, Rows, open_rows, require, row_id
from cobalt.stats import clustered_mean

MATCHES = ("faithful", "exact")
STAGE = "turn errors"
_SHOWN = ("perturbed_public_test_cases", "public_test_cases")  # the first that is there was shown


class Place(NamedTuple):
    """Where a case is: task, sample and turn (of the bent program) from 0."""

    id: str | int
    sample: int
    turn: int


@dataclass
class TurnErrors:
    """Cases in the order of the output, where they are, and the statistics beside them."""

    rows: list[Row]
    places: list[Place]
    summary: dict[str, Any]


def turn_errors(
    data: str | os.PathLike[str],
    rows: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    match: str = "faithful",
    seed: int = 42,
) -> TurnErrors:
    """Find the cases in evaluated rows of perturbed tasks and write them, shuffled by `seed`, to `output`.

    `match`: `faithful` finds the swapped pairs in feedback texts by substring, as published; `exact` by the
    index of the test, so that an input such as "1" does not match everywhere. The output is replaced; beside
    it are the manifest and `summary_path(output)`, with the rate of cases by turn. Raises InputError for
    rows that cannot be used; nothing is written then.
    """
    if match not in MATCHES:
        raise InputError(f"--match must be one of {', '.join(MATCHES)}, got {match!r}")
    perturbed = open_rows(data)
    tasks = _perturbed_tasks(perturbed)

    def check(row: Row, where: str) -> None:
        _check(row, where)
        if row["id"] not in tasks:
            raise InputError(f"{where}: task {row['id']!r} is not in {data}")

    source = Source(rows, check)
    check_output(source, output)
    refuse_overwriting(perturbed.paths, output, what="data")
    cases: list[tuple[Place, Row]] = []
    chances: list[list[_Chance]] = []
    for where, row in source.located():
        swapped = _swapped(row, tasks[row["id"]], where, match)
        found = {
            Place(row["id"], sample, turn): case
            for sample in range(len(row["all_pass_rates"]))
            for turn, case in trajectory_cases(row, sample, swapped)
        }
        cases += found.items()
        chances.append(_chances(row, swapped, found))
    random.Random(seed).shuffle(cases)
    places = [place for place, _ in cases]
    model = model_of(source.path) if source.path else None
    summary = {"schema": 1, "match": match, "model": model, **_counts(places), **_rates(chances)}
    summary["places"] = [list(place) for place in places]
    result = TurnErrors([case for _, case in cases], places, summary)
    write_jsonl(output, result.rows)
    atomic_write(summary_path(output), json.dumps(summary, indent=1, allow_nan=False) + "\n")
    sha256 = {"input_sha256": source.sha256, "data_sha256": perturbed.sha256}
    write_manifest(
        output,
        settings={"stage": STAGE, "match": match, "seed": seed, **sha256},
        inputs=source.inputs() | ({} if perturbed.path is None else {"data_file": perturbed.path}),
        counts=_counts(places),
    )
    return result


def _counts(places: list[Place]) -> dict[str, int]:
    return {
        "cases": len(places),
        "trajectories": len({place[:2] for place in places}),
        "problems": len({place.id for place in places}),
    }


def _perturbed_tasks(data: Rows) -> dict[str | int, Row]:
    """The perturbed tasks of a data file by id, with their public tests only. Raises InputError, with
    file:line, for rows that are not perturbed or an id that occurs twice.
    """
    found: dict[str | int, Row] = {}
    for where, row in data:
        if row.get("modified_test_cases") is None:
            raise InputError(
                f"{where}: field 'modified_test_cases' is missing: not a perturbed task "
                "(preproc/run_perturbation.py makes them)"
            )
        tests_of(row, "modified_test_cases", where)
        key = row_id(row, where)
        if key in found:
            raise InputError(f"{where}: id {key!r} occurs twice")
        names = ("modified_test_cases", *_SHOWN)
        found[key] = {name: row[name] for name in names if row.get(name) is not None}
    if not found:
        raise InputError(f"{data.name}: there are no rows")
    return found


def _swapped(row: Row, task: Row, where: str, match: str) -> SwappedPairs:
    """The swapped pairs of a task, and for `exact` the tests that were shown: of the row or of the data."""
    pairs = tests_of(task, "modified_test_cases", where)
    if match == "faithful":
        return SwappedPairs(pairs, None)
    given = ((place, name) for name in _SHOWN for place in (row, task) if place.get(name) is not None)
    place, name = next(given, (None, ""))
    if place is None:
        raise InputError(f"{where}: --match exact needs 'perturbed_public_test_cases' in the data file")
    swapped = SwappedPairs(pairs, tests_of(place, name, where))
    if len(swapped.indices or ()) < swapped.count:
        raise InputError(
            f"{where}: the public tests hold {len(swapped.indices or ())} of the {swapped.count} swapped "
            "pairs, so these are not the tests that were shown"
        )
    return swapped


def _check(row: Row, where: str) -> None:
    Outcomes.of(row, where)
    programs = programs_of(row, where)
    if [len(sample) for sample in row["all_pass_rates"]] != [len(sample) for sample in programs]:
        raise InputError(f"{where}: all_pass_rates and conversations have different numbers of programs")
    results = require(row, "public_exec_results", list, where)
    rates = require(row, "public_pass_rates", list, where)
    for s, sample in enumerate(programs):
        for t in range(len(sample)):
            try:
                verdict, _ = results[t][s], rates[t][s]
                sound = len(verdict["passing"]) == len(verdict["feedback"])
            except (IndexError, KeyError, TypeError):
                sound = False
            if not sound:
                raise InputError(
                    f"{where}: public_exec_results[{t}][{s}] must hold 'passing' and 'feedback' of one "
                    f"length, and public_pass_rates[{t}][{s}] a rate"
                )


class _Chance(NamedTuple):
    """A program that might have been a case: whether it is, and whether a swapped pair was shown before."""

    turn: int
    case: bool
    shown: bool


def _chances(row: Row, swapped: SwappedPairs, cases: Iterable[Place]) -> list[_Chance]:
    known = set(cases)
    return [
        _Chance(turn, Place(row["id"], sample, turn) in known, swapped.was_shown(row, sample, turn))
        for sample, rates in enumerate(row["all_pass_rates"])
        for turn in range(1, len(rates))
    ]


def _rates(tasks: list[list[_Chance]]) -> dict[str, Any]:
    """Cases and chances for them, by turn and in all, with intervals clustered by task."""
    last = max((chance.turn for task in tasks for chance in task), default=0)
    by_turn = [
        {"turn": turn} | _rate([[each for each in task if each.turn == turn] for task in tasks])
        for turn in range(1, last + 1)
    ]
    return {"tasks": len(tasks), "turns": by_turn, "all_turns": _rate(tasks)}


def _rate(tasks: list[list[_Chance]]) -> dict[str, Any]:
    shown = [[each for each in task if each.shown] for task in tasks]
    made: dict[str, Any] = {
        "programs": sum(map(len, tasks)), "cases": sum(each.case for task in tasks for each in task),
    }  # fmt: skip
    for table, suffix in ((tasks, ""), (shown, "_of_shown")):
        hits = [[float(each.case) for each in task] for task in table if task]
        found = clustered_mean(hits) if hits else None
        if suffix:
            made["shown"] = sum(map(len, shown))
        made[f"rate{suffix}"] = None if found is None else found.mean
        made[f"se{suffix}"] = None if found is None or found.se != found.se else found.se
        made[f"ci95{suffix}"] = bounds(found)
    return made


def main(argv: list[str] | None = None) -> int:
    """The command line of `extract_turn_level_errors.py`; returns the exit code."""
    flags = parser("Find the turns that accepted a perturbed test, with the change that did it.")
    flags.add_argument("-d", "--data_file", required=True, help="perturbed tasks (with modified_test_cases)")
    flags.add_argument("-i", "--input_file", required=True, help="evaluated rows of these tasks")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL file to write; it is replaced")
    flags.add_argument(
        "--match",
        choices=MATCHES,
        default="faithful",
        help="find swapped pairs by substring of the feedback, as published, or by the index of the test",
    )
    flags.add_argument("--seed", type=int, default=42, help="of the order of the output")
    args = flags.parse_args(argv)
    done = turn_errors(args.data_file, args.input_file, args.output_file, match=args.match, seed=args.seed)
    found = done.summary
    print(f"Total cases: {found['cases']}")
    print(f"Unique trajectories: {found['trajectories']}")
    print(f"Unique problems: {found['problems']}")
    for turn in found["turns"]:
        print(
            f"turn {turn['turn']}: {percent(turn['rate'], 2)} % "
            f"{interval(turn['ci95'], 100, digits=2, none='n/a')} of {turn['programs']} programs, "
            f"{percent(turn['rate_of_shown'], 2)} % of {turn['shown']} after feedback on a swapped pair"
        )
    return 0
