"""Perturbed public tests: wrong ones among them, so that no right program passes all (arXiv 2602.03806, PTB).

Three kinds (`KINDS`, `preproc/run_perturbation.py --kind`). `swap`, the published one: tests exchange their
outputs; no value is edited, so what a wrong test expects is always the right answer to another one. The
others after ImpossibleBench (arXiv 2510.20270): `one_off`, an expected output is off by one; `conflict`, an
input is asked for twice, with a wrong output and with the right one, so that the tests contradict each other.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from decimal import Decimal
from itertools import islice
from typing import Any

from cobalt.cli import Progress, make_progress, parser, tell
from cobalt.convert import Converted, bad_row_flag, convert_rows, record, rejected
from cobalt.errors import InputError
from cobalt.evaluator.checker import PUBLISHED, encode
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


Pairs = list[tuple[Any, Any]]
Found = tuple[TestCases, TestCases] | str  # the wrong tests, all that is shown; or why it cannot be done
_NUMBER = re.compile(r"(?<![\w.])-?\d+(\.\d+)?(?![\w.])")


def one_off(tests: TestCases, rng: random.Random, n_pairs: int = 1) -> Found:
    """`n_pairs` tests, drawn at random, expect an output that is off by one (`off_by_one`); they come first,
    the others follow in random order. Or why it cannot be done.
    """
    pairs = tests.pairs()
    rng.shuffle(pairs)
    wrong = list(islice(_edited(pairs, rng), n_pairs))
    if len(wrong) < n_pairs:
        return f"fewer than {n_pairs} outputs that can be off by one"
    edited = [(pairs[place][0], output) for place, output in wrong]
    others = [pair for place, pair in enumerate(pairs) if place not in dict(wrong)]
    return TestCases.of(edited, tests.fn_name), TestCases.of(edited + others, tests.fn_name)


def conflict(tests: TestCases, rng: random.Random, n_pairs: int = 1) -> Found:
    """`n_pairs` inputs, drawn at random, are asked for twice: first with a wrong output (that of another
    test, else one that is off by one), then with the right one. Wrong tests come first, all the true ones
    follow. Or why it cannot be done.
    """
    pairs = tests.pairs()
    rng.shuffle(pairs)
    wrong: Pairs = []
    for given, output in pairs:
        others = [other for _, other in pairs if not _accepts(output, other)]
        found = rng.choice(others) if others else off_by_one(output, rng)
        if found is not None and len(wrong) < n_pairs:
            wrong.append((given, found))
    if len(wrong) < n_pairs:
        return f"fewer than {n_pairs} outputs to contradict"
    return TestCases.of(wrong, tests.fn_name), TestCases.of(wrong + pairs, tests.fn_name)


def off_by_one(output: Any, rng: random.Random) -> Any:
    """An expected output changed as little as can be: one of its numbers, drawn at random, by one; without a
    number the last word is left out, or the last character of the only one, or a single character becomes
    the next. Of a value, one leaf is changed so. None if nothing can be changed, or a checker would not see
    it.
    """
    made: Any = None
    if isinstance(output, bool):
        made = not output
    elif isinstance(output, int | float):
        made = output + rng.choice((-1, 1))
    elif isinstance(output, str):
        made = _text_off_by_one(output, rng)
    elif isinstance(output, list | tuple | dict):
        places = list(output) if isinstance(output, dict) else list(range(len(output)))
        rng.shuffle(places)
        leaves = ((place, off_by_one(output[place], rng)) for place in places)
        place, leaf = next((found for found in leaves if found[1] is not None), (None, None))
        if leaf is not None:
            made = dict(output) if isinstance(output, dict) else list(output)
            made[place] = leaf
    return None if made is None or _accepts(output, made) else made


def _text_off_by_one(output: str, rng: random.Random) -> str | None:
    numbers = list(_NUMBER.finditer(output))
    if numbers:
        at, by = rng.choice(numbers), rng.choice((-1, 1))
        number = Decimal(at[0]) + by if "." in at[0] else int(at[0]) + by
        return f"{output[: at.start()]}{number}{output[at.end() :]}"
    kept = output.rstrip()
    if not kept:
        return None
    head, *words = kept.split()
    if words:
        return kept[: -len(words[-1])].rstrip() + output[len(kept) :]
    return (kept[:-1] if len(head) > 1 else chr(ord(kept) + 1)) + output[len(kept) :]


def _edited(pairs: Pairs, rng: random.Random) -> Iterator[tuple[int, Any]]:
    """(place, output that is off by one) of the pairs that have one."""
    for place, (_, output) in enumerate(pairs):
        made = off_by_one(output, rng)
        if made is not None:
            yield place, made


def _accepts(output: Any, wanted: Any) -> bool:
    """Whether a program that is right would pass a test that wants something else."""
    if isinstance(output, str) and isinstance(wanted, str):
        return PUBLISHED.accepts(encode(output), wanted)
    return bool(output == wanted)


KINDS: dict[str, tuple[Callable[[TestCases, random.Random, int], Found], int]] = {
    "swap": (perturb, 2), "one_off": (one_off, 1), "conflict": (conflict, 1),
}  # what makes the wrong tests, and of how many pairs where nothing is said  # fmt: skip


def run_perturbation(
    source: Rows | StrPath,
    output: StrPath,
    *,
    kind: str = "swap",
    seed: int = 42,
    n_pairs: int | None = None,
    again: bool = False,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> Converted:
    """Replace `output`, atomically, by the tasks of `source` with `modified_test_cases` (the wrong ones) and
    `perturbed_public_test_cases` added; all other fields, the true tests among them, stay. Every task draws
    from `seed` and its id, so a task is perturbed in the same way in any file. Tasks that are perturbed
    already are refused unless `again`. `kind`: one of KINDS; `n_pairs`: None is the kind's own.

    Raises InputError for an input that cannot be used (`file:line`, field); nothing has been changed then.
    """
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    make, usual = KINDS[kind]
    n_pairs = usual if n_pairs is None else n_pairs
    if kind == "swap" and (n_pairs < 2 or n_pairs % 2):
        raise InputError(f"--n_pairs must be even and at least 2, got {n_pairs}: pairs exchange two by two")
    if n_pairs < 1:
        raise InputError(f"--n_pairs must be at least 1, got {n_pairs}")
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
        found = make(tests, random.Random(f"perturbation {seed} {ids(row, where)!r}"), n_pairs)
        if isinstance(found, str):
            return found
        return row | {name: each.to_json() for name, each in zip(PERTURBED, found, strict=True)}

    counts = convert_rows(source, output, made, unit="tasks", on_bad_row=on_bad_row, progress=progress)
    settings = {"kind": kind, "seed": seed, "n_pairs": n_pairs, "on_bad_row": on_bad_row}
    record(output, source, {"stage": "perturbation", **settings}, asdict(counts))
    return counts


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Make public tests wrong, so that no right program can pass them all.")
    flags.add_argument("-i", "--input_file", required=True, help=f"tasks: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL to write")
    flags.add_argument(
        "--kind", choices=tuple(KINDS), default="swap",
        help="swap: tests exchange their outputs, as published; one_off: an output is off by one; conflict: "
        "an input is asked for twice, with a wrong output and with the right one",
    )  # fmt: skip
    flags.add_argument(
        "--seed", type=int, default=42, help="together with a task's id it decides what is drawn"
    )
    flags.add_argument(
        "--n_pairs", type=int, help="(input, output) pairs that become wrong (swap: two by two, 2; else 1)"
    )
    flags.add_argument("--again", action="store_true", help="perturb tasks that are perturbed already")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    with make_progress() as progress:
        counts = run_perturbation(
            args.input_file, args.output_file, kind=args.kind, seed=args.seed,
            n_pairs=args.n_pairs, again=args.again, on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    lines = [f"{args.output_file}: {counts.written} of {counts.read} tasks perturbed ({args.kind})"]
    lines += [f"{count} tasks dropped: {reason}" for reason, count in counts.dropped.items()]
    tell(lines + rejected(counts.bad_rows, args.output_file))
    return 0
