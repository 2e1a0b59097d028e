"""`cobalt report RUNS... -o report/`: charts, tables and every trajectory in one static folder."""

from __future__ import annotations

from cobalt.cli import make_progress, parser
from cobalt.report.build import PAGE, build

_ABOUT = """Make a static report that opens from disk: Pass@1 and Pass@k with intervals, paired differences,
transitions, difficulty, training curves, hacking, data, cost, provenance, and a viewer for every trajectory.
RUN is an evaluated file, its turn errors, the judge's verdicts on them, a file of training metrics, a folder
with such files, or the folder of a whole run. All evaluations must be of the same tasks and tests."""


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt report`; returns the exit code."""
    flags = parser(_ABOUT)
    flags.add_argument(
        "runs", nargs="+", metavar="RUN", help="file or folder, or NAME=FILE; the first is the base"
    )
    flags.add_argument("-o", "--output", required=True, help="folder to write; an earlier report is replaced")
    flags.add_argument("--title", help="of the page")
    flags.add_argument("--seed", type=int, default=0, help="of bootstrap and permutations")
    args = flags.parse_args(argv)
    with make_progress() as progress:
        made = build(args.runs, args.output, title=args.title, seed=args.seed, progress=progress)
    trajectories = sum(run["summary"]["counts"]["trajectories"] for run in made.runs)
    print(f"{args.output}/{PAGE}: {len(made.runs)} runs, {trajectories:,} trajectories; open it in a browser")
    for note in made.notes:
        print(f"note: {note}")
    return 0
