"""`cobalt picture RUN -o FILE`: the result of a finished run as one picture, for a README or a slide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobalt.cli import parser
from cobalt.errors import InputError
from cobalt.report.page import LABELS, arms_of
from cobalt.report.plots import draw_pass_by_turn

SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = {
    "ink": "#1f2328", "soft": "#59636e", "grid": "#d1d9e0",
    "reference": "#6e7781", "cobalt": "#0b57d0", "control": "#b35900",
}  # fmt: skip


def save(results: Mapping[str, Any], path: Path) -> None:
    """Pass@1 by turn of both models, and of the control if there is one, with 95 % intervals.

    `results` as in `results.json`. Raises InputError for another suffix than SUFFIXES, or a path that cannot
    be written.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: a picture's name ends in {', '.join(SUFFIXES)}")
    import matplotlib

    drawing = draw_pass_by_turn(arms_of(results), LABELS, COLOURS)
    axes = drawing.axes[0]
    axes.set_title(
        f"{results['tasks']} held-out tasks, {results['samples_per_task']} dialogues each", loc="left",
        fontsize=10, color=COLOURS["ink"],
    )  # fmt: skip
    kw: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
    try:
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "picture"}):
            drawing.savefig(path, dpi=160, facecolor="white", **kw)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("The result of a finished run as one picture: Pass@1 by turn with 95 % intervals.")
    flags.add_argument("run", type=Path, help="folder of the run (cobalt run --out), or its results.json")
    flags.add_argument("-o", "--output", type=Path, required=True, help=f"file: {', '.join(SUFFIXES)}")
    args = flags.parse_args(argv)
    path = args.run / "results.json" if args.run.is_dir() else args.run
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        arms_of(results)
    except OSError:
        raise InputError(f"{path}: no results there; has the run ended?") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the results.json of a run ({error})") from None
    save(results, args.output)
    print(f"{args.output}: Pass@1 by turn of {', '.join(arms_of(results))}")
    return 0
