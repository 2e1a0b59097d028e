"""Turns that follow a wrong test: which programs were bent to a swapped public test pair (arXiv 2602.03806).

On perturbed public tests the expected outputs of two pairs are swapped, so no honest program passes them. A
case is a turn whose program passes what the swapped pair asks for, after its feedback was shown.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cobalt.analysis.cases import Case, Pairs, trajectory_cases
from cobalt.analysis.hidden_tests import programs_of
from cobalt.analysis.outcomes import Outcomes
from cobalt.cli import parser
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.manifest import read_manifest, write_manifest
from cobalt.output import write_jsonl
from cobalt.rollouts.source import Source, refuse_overwriting
from cobalt.rollouts.verdicts import tests_of
from cobalt.rows import Row, open_rows, require, row_id
from cobalt.stats import Interval, clustered_mean
from cobalt.testcases import TestCases

MATCHES = ("faithful", "exact")
STAGE = "turn errors"


class Place(NamedTuple):
    """Where a case is: task, sample and turn (of the bent program) from 0."""

    id: str | int
    sample: int
    turn: int


@dataclass
class TurnErrors:
    """Cases in the order of the output, where they are, and the statistics beside them."""

    rows: list[Row] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


def summary_path(output: str | os.PathLike[str]) -> Path:
    """Where rates and places of the cases are: `<output>.summary.json`."""
    return Path(os.fspath(output) + ".summary.json")


def swapped_pairs(data: str | os.PathLike[str]) -> dict[str | int, Row]:
    """The perturbed tasks of a data file by id. Raises InputError, with file:line, for rows without
    `modified_test_cases` (they are not perturbed) or an id that occurs twice.
    """
    found: dict[str | int, Row] = {}
    for where, row in open_rows(data):
        if row.get("modified_test_cases") is None:
            raise InputError(
                f"{where}: field 'modified_test_cases' is missing: not a perturbed task "
                "(preproc/run_perturbation.py makes them)"
            )
        tests_of(row, "modified_test_cases", where)
        key = row_id(row, where)
        if key in found:
            raise InputError(f"{where}: id {key!r} occurs twice")
        names = ("modified_test_cases", "perturbed_public_test_cases", "public_test_cases")
        found[key] = {name: row[name] for name in names if row.get(name) is not None}
    if not found:
        raise InputError(f"{data}: there are no rows")
    return found


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
    pairs = swapped_pairs(data)

    def check(row: Row, where: str) -> None:
        _check(row, where, pairs, Path(data))

    source = Source(rows, check)
    refuse_overwriting(source, output)
    if Path(output).exists() and any(map(Path(output).samefile, open_rows(data).paths)):
        raise InputError(f"{output} is the data file; give another output file")
    cases: list[tuple[Case, Place]] = []
    rates = _Rates()
    for where, row in source.located():
        told = pairs[row["id"]]
        tests = shown_tests(row, told, where) if match == "exact" else None
        swapped = Pairs(tests_of(told, "modified_test_cases", where), tests)
        if swapped.indices is not None and len(swapped.indices) < len(swapped.inputs):
            raise InputError(
                f"{where}: the public tests hold {len(swapped.indices)} of the {len(swapped.inputs)} swapped "
                "pairs, so these are not the tests that were shown"
            )

        found = [
            (case, Place(row["id"], sample, case.turn))
            for sample in range(len(row["all_pass_rates"]))
            for case in trajectory_cases(row, sample, swapped)
        ]
        cases += found
        rates.add(row, swapped, [place for _, place in found])
    random.Random(seed).shuffle(cases)
    result = TurnErrors([case.row for case, _ in cases], [place for _, place in cases])
    result.summary = {
        "schema": 1,
        "match": match,
        "model": model_of(source.path) if source.path else None,
        "cases": len(cases),
        "trajectories": len({place[:2] for place in result.places}),
        "problems": len({place.id for place in result.places}),
        **rates.table(),
        "places": [list(place) for place in result.places],
    }
    write_jsonl(output, result.rows)
    atomic_write(summary_path(output), json.dumps(result.summary, indent=1, allow_nan=False) + "\n")
    perturbed = open_rows(data)
    inputs: dict[str, str | os.PathLike[str]] = dict(source.inputs())
    if perturbed.path is not None:
        inputs["data_file"] = perturbed.path
    write_manifest(
        output,
        settings={
            "stage": STAGE, "match": match, "seed": seed,
            "input_sha256": source.sha256, "data_sha256": perturbed.sha256,
        },
        inputs=inputs,
        counts={name: result.summary[name] for name in ("cases", "trajectories", "problems")},
    )  # fmt: skip
    return result


def shown_tests(row: Row, data: Row, where: str) -> TestCases:
    """The public tests that were shown, in their order: the perturbed set where there is one by that name,
    in the row or in the data, else `public_test_cases`. Raises InputError if there is none.
    """
    for name in ("perturbed_public_test_cases", "public_test_cases"):
        for place in (row, data):
            if place.get(name) is not None:
                return tests_of(place, name, where)
    raise InputError(f"{where}: --match exact needs 'perturbed_public_test_cases' in the data file")


def model_of(path: Path) -> str | None:
    """The model that made evaluated rows, as the manifest of the file they were made from names it."""
    for _ in range(3):
        manifest = read_manifest(path)
        if manifest is None:
            return None
        model = manifest.get("settings", {}).get("model")
        if model is not None:
            return str(model)
        before = (manifest.get("inputs") or {}).get("input_file", {}).get("path")
        # Paths in manifests are as they were given, so they may be relative to another folder.
        near = [Path(before), path.with_name(Path(before).name)] if before else []
        known = [each for each in near if each.exists() and each.absolute() != path.absolute()]
        if not known:
            return None
        path = known[0]
    return None


def _check(row: Row, where: str, pairs: dict[str | int, Row], data: Path) -> None:
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
    if row["id"] not in pairs:
        raise InputError(f"{where}: task {row['id']!r} is not in {data}")


@dataclass
class _Rates:
    """Cases and chances for them, by task and turn."""

    ids: list[str | int] = field(default_factory=list)
    programs: list[list[list[float]]] = field(default_factory=list)  # [task][turn][program]: 1.0 is a case
    shown: list[list[list[float]]] = field(default_factory=list)  # the same after feedback on a swapped pair

    def add(self, row: Row, swapped: Pairs, cases: Sequence[Place]) -> None:
        turns = max(len(sample) for sample in row["all_pass_rates"])
        hits = {(place.sample, place.turn) for place in cases}
        programs: list[list[float]] = [[] for _ in range(turns)]
        shown: list[list[float]] = [[] for _ in range(turns)]
        for sample, rates in enumerate(row["all_pass_rates"]):
            for turn in range(1, len(rates)):
                hit = float((sample, turn) in hits)
                programs[turn].append(hit)
                if swapped.was_shown(row, sample, turn):
                    shown[turn].append(hit)
        self.ids.append(row["id"])
        self.programs.append(programs)
        self.shown.append(shown)

    def table(self) -> dict[str, Any]:
        turns = max(len(each) for each in self.programs)
        programs, shown = (
            [[value for turn in task for value in turn] for task in table]
            for table in (self.programs, self.shown)
        )
        return {
            "tasks": len(self.ids),
            "turns": [
                {
                    "turn": turn,
                    "programs": sum(len(each) for each in _at(self.programs, turn)),
                    "cases": int(sum(sum(each) for each in _at(self.programs, turn))),
                    **_rate(_at(self.programs, turn), ""),
                    "shown": sum(len(each) for each in _at(self.shown, turn)),
                    **_rate(_at(self.shown, turn), "_of_shown"),
                }
                for turn in range(1, turns)
            ],
            "all_turns": {
                "programs": sum(map(len, programs)),
                "cases": int(sum(map(sum, programs))),
                **_rate(programs, ""),
                "shown": sum(map(len, shown)),
                **_rate(shown, "_of_shown"),
            },
        }


def _at(table: list[list[list[float]]], turn: int) -> Iterator[list[float]]:
    return (each[turn] for each in table if turn < len(each))


def _rate(by_task: Any, suffix: str) -> dict[str, Any]:
    kept = [values for values in by_task if values]
    found = clustered_mean(kept) if kept else Interval(*[float("nan")] * 4)
    mean, lo, hi, se = (None if value != value else value for value in found)
    return {f"rate{suffix}": mean, f"se{suffix}": se, f"ci95{suffix}": [lo, hi]}


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
    found = turn_errors(
        args.data_file, args.input_file, args.output_file, match=args.match, seed=args.seed
    ).summary
    print(f"Total cases: {found['cases']}")
    print(f"Unique trajectories: {found['trajectories']}")
    print(f"Unique problems: {found['problems']}")
    for turn in found["turns"]:
        lo, hi = turn["ci95"]
        bounds = "n/a" if lo is None else f"[{100 * lo:.2f}, {100 * hi:.2f}]"
        of_shown = "n/a" if turn["rate_of_shown"] is None else f"{100 * turn['rate_of_shown']:.2f}"
        print(
            f"turn {turn['turn']}: {100 * turn['rate']:.2f} % {bounds} of {turn['programs']} programs, "
            f"{of_shown} % of {turn['shown']} after feedback on a swapped pair"
        )
    return 0
