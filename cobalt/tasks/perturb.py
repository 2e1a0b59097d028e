"""Perturbed public tests: the expected outputs of two of them exchanged (`preproc/run_perturbation.py`;
arXiv 2602.03806, PTB). No value is edited, so what a perturbed test expects is always the right answer to
another one.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from typing import Any

from cobalt.cli import Progress, make_progress, parser, tell
from cobalt.convert import Converted, bad_row_flag, convert_rows, record, rejected
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.rows import INPUT_HELP, Row, Rows, UniqueIds, as_rows, require
from cobalt.tasks.own import PERTURBED, is_perturbed
from cobalt.testcases import TestCases


def perturb(tests: TestCases, rng: random.Random, n_pairs: int = 2) -> tuple[TestCases, TestCases] | str:
    """(the exchanged tests, all tests with these first), or why it cannot be done.

    The (input, output) pairs are shuffled. The first pair of each distinct stripped output goes to one list,
    the others to a second. The first `n_pairs` pairs of the first list exchange their outputs two by two;
    then come the rest of the first list and the second. Inputs and outputs are the same multisets as before.
    """
    pairs = tests.pairs()
    rng.shuffle(pairs)
    distinct: list[tuple[Any, Any]] = []
    others: list[tuple[Any, Any]] = []
    seen: set[str] = set()
    for pair in pairs:
        output = pair[1]
        key = output.strip() if isinstance(output, str) else json.dumps(output, sort_keys=True)
        (others if key in seen else distinct).append(pair)
        seen.add(key)
    if len(distinct) < n_pairs:
        return f"fewer than {n_pairs} distinct outputs"
    swapped = []
    for first, second in zip(distinct[:n_pairs:2], distinct[1:n_pairs:2], strict=True):
        swapped += [(first[0], second[1]), (second[0], first[1])]
    everything = swapped + distinct[n_pairs:] + others
    return TestCases.of(swapped, tests.fn_name), TestCases.of(everything, tests.fn_name)


def run_perturbation(
    source: Rows | StrPath,
    output: StrPath,
    *,
    seed: int = 42,
    n_pairs: int = 2,
    again: bool = False,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> Converted:
    """Replace `output`, atomically, by the tasks of `source` with `modified_test_cases` and
    `perturbed_public_test_cases` added. Every task draws from `seed` and its id, so a task is perturbed in
    the same way in any file. Tasks that are perturbed already are refused unless `again`.

    Raises InputError for an input that cannot be used (`file:line`, field); nothing has been changed then.
    """
    if n_pairs < 2 or n_pairs % 2:
        raise InputError(f"--n_pairs must be even and at least 2, got {n_pairs}: pairs exchange two by two")
    source = as_rows(source)
    ids = UniqueIds()

    def made(row: Row, where: str) -> Row | str:
        if is_perturbed(row) and not again:
            raise InputError(
                f"{where}: field '{next(name for name in PERTURBED if name in row)}': this task is perturbed "
                "already; use the file as it is, or perturb it once more with --again"
            )
        public = require(row, "public_test_cases", (str, dict), where)
        tests = TestCases.parse(public, where=f"{where}: field 'public_test_cases'")
        found = perturb(tests, random.Random(f"perturbation {seed} {ids(row, where)!r}"), n_pairs)
        if isinstance(found, str):
            return found
        return row | {name: each.to_json() for name, each in zip(PERTURBED, found, strict=True)}

    counts = convert_rows(source, output, made, unit="tasks", on_bad_row=on_bad_row, progress=progress)
    settings = {"stage": "perturbation", "seed": seed, "n_pairs": n_pairs, "on_bad_row": on_bad_row}
    record(output, source, settings, asdict(counts))
    return counts


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        "Exchange the expected outputs of public tests, so that no right program can pass them all."
    )
    flags.add_argument("-i", "--input_file", required=True, help=f"tasks: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL to write")
    flags.add_argument(
        "--seed", type=int, default=42, help="together with a task's id it decides what is drawn"
    )
    flags.add_argument(
        "--n_pairs", type=int, default=2, help="(input, output) pairs that exchange outputs two by two"
    )
    flags.add_argument("--again", action="store_true", help="perturb tasks that are perturbed already")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    with make_progress() as progress:
        counts = run_perturbation(
            args.input_file, args.output_file, seed=args.seed, n_pairs=args.n_pairs,
            again=args.again, on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    lines = [f"{args.output_file}: {counts.written} of {counts.read} tasks perturbed"]
    lines += [f"{count} tasks dropped: {reason}" for reason, count in counts.dropped.items()]
    tell(lines + rejected(counts.bad_rows, args.output_file))
    return 0
