"""`cobalt compare A B [C...]`: is one run really better than another on the same tasks?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.analysis.compare import PERMUTATIONS, RESAMPLES, compare
from cobalt.analysis.runs import EvaluatedRun, named_paths
from cobalt.cli import parser, positive_int
from cobalt.errors import InputError

_ABOUT = """Compare evaluated runs task by task: paired differences of Pass@1 at every turn, with 95 %
intervals (bootstrap over tasks, and over groups where rows have one), a permutation test, Holm's correction
over all tests made, and the smallest true difference that this many tasks would show. Runs whose tasks or
tests differ are refused."""

_WIDTH = 150


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt compare`; returns the exit code."""
    flags = parser(_ABOUT)
    flags.add_argument(
        "runs", nargs="+", metavar="RUN", help="evaluated file, or NAME=FILE; the first is the base"
    )
    flags.add_argument("--all_pairs", action="store_true", help="every pair, not only each against the first")
    flags.add_argument(
        "--turns", type=_turn, nargs="+", metavar="TURN", help="these turns only, from 0 (-1 is the last)"
    )
    flags.add_argument("--seed", type=int, default=0, help="of bootstrap and permutations")
    flags.add_argument("--resamples", type=positive_int, default=RESAMPLES, help="of the bootstrap")
    flags.add_argument("--permutations", type=positive_int, default=PERMUTATIONS, help="of the test")
    flags.add_argument("-o", "--output_file", help="write everything as JSON to this file")
    args = flags.parse_args(argv)
    if len(args.runs) < 2:
        raise InputError("cobalt compare needs at least two evaluated files")
    runs = [EvaluatedRun.read(name, path) for name, path in named_paths(args.runs)]
    turns = args.turns
    if turns is not None:
        last = min(run.turns for run in runs) - 1
        turns = sorted({last if turn == -1 else turn for turn in turns})
    found = compare(
        runs, turns=turns, all_pairs=args.all_pairs, seed=args.seed,
        resamples=args.resamples, permutations=args.permutations,
    )  # fmt: skip
    if args.output_file:
        from cobalt.files import atomic_write

        atomic_write(args.output_file, json.dumps(found, indent=1, allow_nan=False) + "\n")
    show(found)
    return 0


def show(found: Mapping[str, Any]) -> None:
    """Print a comparison, one table for each pair."""
    from rich.console import Console

    grouped = found["groups"] is not None
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)  # a terminal that is narrower wraps, a file does not
    size = f"{found['tasks']} tasks" + (f" in {found['groups']} groups" if grouped else "")
    console.print(f"Paired differences of Pass@1, {size}")
    pairs = dict.fromkeys((row["a"], row["b"]) for row in found["comparisons"])
    for a, b in pairs:
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

    heads = ["turn", f"{a}, %", f"{b}, %", "difference [95 % by task]", "[by group]", "p", "p Holm"]
    heads += ["p Holm by group", "tasks +/-/=", "detectable"]
    table = Table(box=None, pad_edge=False)
    kept = [head for head in heads if grouped or "group" not in head]
    for head in kept:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for row in rows:
        cells = dict.fromkeys(heads, "n/a") | {"turn": str(row["turn"])}
        if row["n"]:
            cells |= {
                heads[1]: _percent(row["pass_at_1"][0]),
                heads[2]: _percent(row["pass_at_1"][1]),
                heads[3]: f"{row['points']:+.2f} {_interval(row['ci95'])}",
                heads[4]: _interval(row.get("ci95_group", [None, None])),
                "p": _p(row["p"]),
                "p Holm": _p(row.get("p_holm")),
                "p Holm by group": _p(row.get("p_group_holm")),
                "tasks +/-/=": f"{row['better']}/{row['worse']}/{row['equal']}",
                "detectable": _points(row["detectable_points"]),
            }
        table.add_row(*(Text(cells[head]) for head in kept))
    return table


def _turn(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < -1:
        raise argparse.ArgumentTypeError("turns count from 0; -1 is the last")
    return value


def _percent(rate: float | None) -> str:
    return "n/a" if rate is None else f"{100 * rate:.2f}"


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}"


def _interval(ends: list[float | None]) -> str:
    lo, hi = ends
    return "" if lo is None or hi is None else f"[{lo:+.2f}, {hi:+.2f}]"


def _p(value: float | None) -> str:
    return "n/a" if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}"
