"""Paired comparison of evaluated runs: differences per task with intervals, tests and their power.

`cobalt compare A B [C...]`: is one run really better than another on the same tasks?
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun, bounds, named_paths, refuse_unlike, task_rates
from cobalt.evaluation.format import detectable, interval, p_value, percent, points, too_few
from cobalt.evaluation.origin import rehearsals
from cobalt.files import atomic_write
from cobalt.stats import RESAMPLES, SEED, detectable_difference, holm, paired_bootstrap, paired_permutation

SCHEMA = 1
PERMUTATIONS, POWER = 20_000, 0.8


def compare(
    runs: Sequence[EvaluatedRun],
    *,
    turns: Sequence[int] | None = None,
    all_pairs: bool = False,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
) -> dict[str, Any]:
    """Every run against the first (or, with `all_pairs`, every pair), at each turn that all have.

    Returns `runs`, `tasks`, `turns`, `samples`, `tests` (how many tests Holm's correction is over), `notes`
    and `comparisons`, each with `a`, `b`, `turn` (from 0), `pass_at_1` of both (fractions), `points` (b - a,
    percentage points: the mean over tasks of the difference of a task's shares of right programs), `se` and
    `ci95` (`paired_bootstrap` over tasks), `p` (sign-flip permutation over tasks), `p_holm`,
    `detectable_points` (true difference found with 80 % power at 5 %), `better`, `worse`, `equal` (tasks) and
    `n`; where rows have a `group`, `ci95_group`, `p_group`, `p_group_holm` and `detectable_points_group`
    resample and flip whole groups. All of these are None for fewer than MIN_CLUSTERS tasks or groups. Tasks
    in which a run has no verdict are left out of a turn, and counted.

    `turns` picks turns (from 0). Raises InputError for fewer than two runs, runs whose tasks or tests
    differ, or a turn that is not there.
    """
    if len(runs) < 2:
        raise InputError("a comparison needs at least two runs")
    notes = refuse_unlike(runs) + rehearsals((run.name, run.path) for run in runs)
    common = min(run.turns for run in runs)
    chosen = list(range(common)) if turns is None else list(turns)
    missing = [turn for turn in chosen if not 0 <= turn < common]
    if missing:
        raise InputError(f"turn {missing[0] + 1} is not in all runs: they have turns 1 to {common}")
    faults = sum(run.infra_errors for run in runs)
    if faults:
        notes.append(f"{faults} programs have no verdict (masked)")
    notes += too_few(len(runs[0].outcomes), runs[0].groups)
    pairs = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :] if all_pairs or i == 0]
    how = {"seed": seed, "resamples": resamples, "permutations": permutations}
    rows = [_row(a, b, turn, **how) for a, b in pairs for turn in chosen]
    for name in ("p", "p_group"):
        known = [row for row in rows if row.get(name) is not None]
        for row, adjusted in zip(known, holm([row[name] for row in known]), strict=True):
            row[f"{name}_holm"] = adjusted
    return {
        "schema": SCHEMA,
        "runs": [{"name": run.name, "path": str(run.path), "samples": run.samples} for run in runs],
        "tasks": len(runs[0].outcomes),
        "groups": runs[0].groups,
        "turns": chosen,
        "tests": len(rows),
        "power": POWER,
        **how,
        "notes": notes,
        "comparisons": rows,
    }


def _row(a: EvaluatedRun, b: EvaluatedRun, turn: int, **how: int) -> dict[str, Any]:
    first, second = (task_rates(run.outcomes.values(), turn) for run in (a, b))
    both = [key for key in first if key in second]
    row: dict[str, Any] = {"a": a.name, "b": b.name, "turn": turn, "n": len(both)}
    row["left_out"] = len(a.outcomes) - len(both)
    if not both:
        return row | {"pass_at_1": [None, None], "points": None, "ci95": [None, None], "p": None}
    old, new = ([rates[key] for key in both] for rates in (first, second))
    differences = [y - x for x, y in zip(old, new, strict=True)]
    row |= {
        "pass_at_1": [sum(old) / len(old), sum(new) / len(new)],
        "better": sum(d > 0 for d in differences),
        "worse": sum(d < 0 for d in differences),
        "equal": sum(d == 0 for d in differences),
    }
    row |= _tested(old, new, None, "", **how)
    if a.groups:
        row |= _tested(old, new, [a.outcomes[key].group for key in both], "_group", **how)
    return row


def _tested(
    old: list[float], new: list[float], groups: list[Any] | None, suffix: str,
    *, seed: int, resamples: int, permutations: int,
) -> dict[str, Any]:  # fmt: skip
    found = paired_bootstrap(new, old, groups, n=resamples, seed=seed)
    clusters = len(old) if groups is None else len(set(groups))
    p = paired_permutation(new, old, groups, n=permutations, seed=seed)
    power = detectable_difference(found.se, clusters, POWER)
    tested = {
        f"se{suffix}": _known(100 * found.se),
        f"ci95{suffix}": bounds(found, 100),
        f"p{suffix}": _known(p),
        f"detectable_points{suffix}": _known(100 * power),
    }
    return {"points": 100 * found.mean} | tested if groups is None else tested


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


_ABOUT = """Compare evaluated runs task by task: paired differences of Pass@1 at every turn, with 95 %
intervals (bootstrap over tasks, or over groups where rows have one and that interval is wider), a permutation
test, Holm's correction over all tests made, and the smallest true difference that this many tasks would show.
Runs whose tasks or tests differ are refused."""


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt compare`; returns the exit code."""
    flags = parser(_ABOUT)
    flags.add_argument(
        "runs", nargs="+", metavar="RUN", help="evaluated file, or NAME=FILE; the first is the base"
    )
    flags.add_argument(
        "--turns", type=int, nargs="+", metavar="TURN", help="these turns only, from 1 (-1 is the last)"
    )
    flags.add_argument("--all_pairs", action="store_true", help="every pair, not only each against the first")
    flags.add_argument("--seed", type=int, default=SEED, help="of bootstrap and permutations")
    flags.add_argument("--resamples", type=positive_int, default=RESAMPLES, help="of the bootstrap")
    flags.add_argument("--permutations", type=positive_int, default=PERMUTATIONS, help="of the test")
    flags.add_argument("-o", "--output_file", help="write everything as JSON to this file")
    args = flags.parse_args(argv)
    if len(args.runs) < 2:
        raise InputError("cobalt compare needs at least two evaluated files")
    runs = [EvaluatedRun.read(name, path) for name, path in named_paths(args.runs)]
    last = min(run.turns for run in runs)
    turns = args.turns and sorted({(last if turn == -1 else turn) - 1 for turn in args.turns})
    found = compare(
        runs, turns=turns, all_pairs=args.all_pairs, seed=args.seed, resamples=args.resamples,
        permutations=args.permutations,
    )  # fmt: skip
    if args.output_file:
        atomic_write(args.output_file, json.dumps(found, indent=1, allow_nan=False) + "\n")
    show(found)
    return 0


def show(found: Mapping[str, Any]) -> None:
    """Print a comparison, one table for each pair."""
    from rich.console import Console

    grouped = found["groups"] is not None
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, 150)  # a terminal that is narrower wraps, a file does not
    size = f"{found['tasks']} tasks" + (f" in {found['groups']} groups" if grouped else "")
    console.print(f"Paired differences of Pass@1, {size}")
    for a, b in dict.fromkeys((row["a"], row["b"]) for row in found["comparisons"]):
        rows = [row for row in found["comparisons"] if (row["a"], row["b"]) == (a, b)]
        console.print(f"\n{b} against {a}")
        console.print(_table(rows, a, b, grouped))
    console.print(
        f"\np: sign-flip permutation test with tasks{' (or groups)' if grouped else ''} as units; "
        f"Holm: corrected for {found['tests']} tests.\n"
        f"detectable: true difference in points that is found with {100 * found['power']:.0f} % power at 5 %."
    )
    for note in found["notes"]:
        console.print(f"note: {note}")


def _table(rows: Sequence[Mapping[str, Any]], a: str, b: str, grouped: bool) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    heads = ["turn", f"{a}, %", f"{b}, %", "difference [95 %]", "[by task]", "[by group]", "p", "p Holm",
             "by group", "tasks +/-/=", "detectable"]  # fmt: skip
    shown = [grouped or not head.strip("[").startswith("by ") for head in heads]
    for head, show in zip(heads, shown, strict=True):
        if show:
            table.add_column(Text(head), justify="right", no_wrap=True)
    for row in rows:
        cells = [str(row["turn"] + 1), *["n/a"] * (len(heads) - 1)]
        if row["n"]:
            none = [None, None]
            cells[1:] = [
                *map(percent, row["pass_at_1"]), points(row),
                *(interval(row.get(name, none), sign=True) for name in ("ci95", "ci95_group")),
                *(p_value(row.get(name), 4) for name in ("p", "p_holm", "p_group_holm")),
                f"{row['better']}/{row['worse']}/{row['equal']}", detectable(row),
            ]  # fmt: skip
        table.add_row(*(Text(cell) for cell, show in zip(cells, shown, strict=True) if show))
    return table
