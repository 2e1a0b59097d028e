"""A report: one static folder with a page, its charts and tables as files, and every trajectory.

`cobalt report RUNS... -o report/`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from cobalt.cli import Progress, make_progress, parser
from cobalt.errors import InputError
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun, TaskId, refuse_unlike
from cobalt.evaluation.format import too_few
from cobalt.evaluation.origin import REHEARSAL, origin
from cobalt.evaluation.summary import summarize
from cobalt.files import atomic_write, file_sha256, writing
from cobalt.manifest import versions
from cobalt.report import render
from cobalt.report.charts import RUN_COLOURS
from cobalt.report.inputs import Inputs, find
from cobalt.report.published import overview, published
from cobalt.report.tables import all_tables, named
from cobalt.report.trajectories import Writer
from cobalt.rows import read_rows
from cobalt.stats import SEED

SCHEMA = 1
PAGE, DATA = "index.html", "report.json"
Figures = dict[str, Any]


def build(
    arguments: Sequence[str],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    seed: int = SEED,
    smoke: bool = False,
    progress: Progress | None = None,
) -> Figures:
    """Make a report of files and folders (see `cobalt.report.inputs.find`) in the folder `out`.

    The folder holds `index.html`, `report.json`, `data/` (what the page reads), `figures/` (SVG) and
    `tables/` (Markdown). It is replaced as a whole when all is written, and only if it is empty or
    an earlier report. `seed` is that of bootstrap and permutations; `smoke` says that the
    files are of a rehearsal where their manifests do not. Returns what `report.json` holds. Raises
    InputError for rows that cannot be used and for evaluations of other tasks or tests; nothing is written
    then.
    """
    target = Path(out)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; a report needs a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / DATA).exists():
        raise InputError(f"{target} holds something else than a report; give another folder")
    inputs = find(arguments)
    temporary = target.absolute().with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with writing(target):
            (temporary / "data").mkdir(parents=True)
            made = _read(inputs, Writer(temporary / "data"), title, seed, progress)
            made["smoke"] = smoke or any(run["smoke"] for run in made["runs"])
            _write(made, inputs.manifests, temporary)
            old = temporary.with_name(temporary.name + ".old")
            if target.exists():
                target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return made


def _read(inputs: Inputs, writer: Writer, title: str | None, seed: int, progress: Progress | None) -> Figures:
    evaluated: list[EvaluatedRun] = []
    for number, (name, path) in enumerate(inputs.evaluated.items()):
        run = EvaluatedRun(name, path)
        places = inputs.places.get(name, {})
        for read, (where, row) in enumerate(read_rows(path), start=1):
            outcome = run.add(row, where)
            writer.add(number, row, outcome, places)
            if progress is not None:
                progress.advance(f"reading {name}", read, None)
        run.refuse_empty()
        evaluated.append(run)
    notes = refuse_unlike(evaluated) + too_few(len(evaluated[0].outcomes), evaluated[0].groups)
    runs = [_facts(run, inputs, seed) for run in evaluated]
    for facts, colour in zip(runs, _colours([run.name for run in evaluated]), strict=True):
        facts["colour"] = colour
    writer.finish([{"name": run.name, "turns": run.turns} for run in evaluated])
    faults = [f"{run.name} {run.infra_errors}" for run in evaluated if run.infra_errors]
    if faults:
        notes.append(f"Programs without a verdict, masked everywhere: {', '.join(faults)}.")
    curves = {name: read_rows(path, repair=True) for name, path in inputs.metrics.items()}
    return {
        "schema": SCHEMA,
        "title": title or _title(evaluated, {run["data"] for run in runs}),
        "runs": runs,
        "notes": list(dict.fromkeys(notes)),
        "comparison": compare(evaluated, seed=seed) if len(evaluated) > 1 else None,
        "curves": {name: [row for _, row in rows] for name, rows in curves.items()},
        "never_solved": [key for key in evaluated[0].outcomes if not any(_solved(r, key) for r in evaluated)],
        "versions": versions(),
    }


def _facts(run: EvaluatedRun, inputs: Inputs, seed: int) -> Figures:
    known = origin(run.path)
    return {
        "name": run.name,
        "path": str(run.path),
        "sha256": file_sha256(run.path),
        "model": known.model,
        "recipe": known.recipe,
        "data": known.data,
        "published": published(known.config, known.set, known.recipe, known.changed),
        "smoke": known.smoke,
        "samples": run.samples,
        "summary": summarize(list(run.outcomes.values()), seed=seed),
        "errors": inputs.error_summaries.get(run.name),
        "judge": inputs.judge_summaries.get(run.name),
    }


def _solved(run: EvaluatedRun, key: TaskId) -> bool:
    return any(rate == 1 for sample in run.outcomes[key].rates for rate in sample)


def _colours(names: Sequence[str]) -> list[str]:
    """A colour per run, the first for the one called Cobalt, or else trained; further ones share others."""
    rest = [f"c{i + 2}" for i in range(RUN_COLOURS - 1)]
    trained = [i for i, name in enumerate(names) if name != "reference"]
    first = next((i for i in trained if "cobalt" in names[i].lower()), next(iter(trained), 0))
    return ["c1" if i == first else rest[(i - (i > first)) % len(rest)] for i in range(len(names))]


def _title(runs: Sequence[EvaluatedRun], data: Collection[str | None]) -> str:
    tasks, turns = len(runs[0].outcomes), max(run.turns for run in runs)
    names = ", ".join(run.name for run in runs[:3]) + (", ..." if len(runs) > 3 else "")
    known = [each for each in data if each]
    of = f" of {known[0]}" if len(data) == len(known) == 1 else ""
    return f"{names} on {tasks} tasks{of}, {turns} {'turn' if turns == 1 else 'turns'}"


def _write(figures: Figures, manifests: Figures, folder: Path) -> None:
    runs, smoke = figures["runs"], figures["smoke"]
    made = named([overview(runs, figures["comparison"])], smoke=smoke)
    made |= all_tables(runs, figures["comparison"], smoke=smoke)
    (folder / "tables").mkdir()
    for name, table in made.items():
        atomic_write(folder / "tables" / f"{name}.md", table.markdown())
    drawings = render.figures(runs, figures["curves"], folder / "figures", smoke)
    atomic_write(folder / DATA, json.dumps(figures, indent=1) + "\n")
    atomic_write(folder / PAGE, render.report_page(figures, manifests, drawings, made))


_ABOUT = """Make a static report that opens from disk: Pass@1 and Pass@k with intervals, paired differences,
transitions, difficulty, training curves, hacking, provenance, and a viewer for every trajectory. RUN is
an evaluated file, its turn errors, the judge's verdicts on them, a file of training metrics, or the folder of
a whole run. All evaluations must be of the same tasks and tests."""


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt report`; returns the exit code."""
    flags = parser(_ABOUT)
    flags.add_argument(
        "runs", nargs="+", metavar="RUN", help="file or folder, or NAME=FILE; the first is the base"
    )
    flags.add_argument("-o", "--output", required=True, help="folder to write; an earlier report is replaced")
    flags.add_argument("--title", help="of the page")
    flags.add_argument("--seed", type=int, default=SEED, help="of bootstrap and permutations")
    flags.add_argument(
        "--smoke", action="store_true", help="the runs were rehearsals: say so everywhere (runs of "
        "`cobalt run --smoke` are known to be)",
    )  # fmt: skip
    args = flags.parse_args(argv)
    with make_progress() as progress:
        made = build(
            args.runs, args.output, title=args.title, seed=args.seed, smoke=args.smoke, progress=progress
        )
    trajectories = sum(run["summary"]["counts"]["trajectories"] for run in made["runs"])
    runs = f"{len(made['runs'])} runs, {trajectories:,} trajectories"
    print(f"{args.output}/{PAGE}: {runs}; open it in a browser")
    if made["smoke"]:
        print(f"note: {REHEARSAL}")
    for note in made["notes"]:
        print(f"note: {note}")
    return 0
