"""The result of a finished run as one picture, for a README: Pass@1 by turn with 95 % intervals."""

from pathlib import Path

import matplotlib

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.report.charts import LIGHT, pass_by_turn, stamped
from cobalt.report.render import arms_of
from cobalt.report.results import read_results
from cobalt.report.tables import set_name

SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = {**LIGHT, "ink": "#1f2328", "c1": "#0b57d0", "c2": "#6e7781", "c3": "#b35900"}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(__doc__ or "")
    flags.add_argument("run", type=Path, help="folder of the run (cobalt run --out), or its results.json")
    flags.add_argument("-o", "--output", type=Path, required=True, help=f"file: {', '.join(SUFFIXES)}")
    args = flags.parse_args(argv)
    if args.output.suffix not in SUFFIXES:
        raise InputError(f"{args.output}: a picture's name ends in {', '.join(SUFFIXES)}")
    results = read_results(args.run / "results.json" if args.run.is_dir() else args.run)
    drawing = pass_by_turn(arms_of(results), COLOURS)
    title = f"{results['tasks']} {set_name(results)} tasks, {results['samples_per_task']} dialogues each"
    drawing.axes[0].set_title(title, loc="left", fontsize=10, color=COLOURS["ink"])
    if results.get("smoke"):
        stamped(drawing, COLOURS)
    undated = {"metadata": {"Date": None}} if args.output.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "picture"}):
        drawing.savefig(args.output, dpi=160, facecolor="white", **undated)
    print(f"{args.output}: Pass@1 by turn of {', '.join(arm['name'] for arm in arms_of(results))}")
    return 0


if __name__ == "__main__":
    run_main(main)
