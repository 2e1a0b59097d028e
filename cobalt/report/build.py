"""A report: one static folder with a page, its charts and tables as files, and every trajectory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.analysis import leakage
from cobalt.analysis.compare import compare
from cobalt.analysis.runs import EvaluatedRun, refuse_unlike
from cobalt.analysis.summary import summarize
from cobalt.analysis.turn_errors import model_of
from cobalt.cli import Progress
from cobalt.errors import InputError
from cobalt.files import atomic_write, file_sha256, plain, writing
from cobalt.manifest import versions
from cobalt.report import tables
from cobalt.report.charts import RUN_COLOURS
from cobalt.report.sources import Sources, find
from cobalt.report.trajectories import Writer
from cobalt.rows import read_rows

SCHEMA = 1
PAGE, DATA = "index.html", "report.json"


@dataclass
class Report:
    """All that page, charts and tables are made from; `figures()` is what `report.json` holds."""

    title: str
    runs: list[dict[str, Any]]
    notes: list[str]
    comparison: dict[str, Any] | None
    curves: dict[str, list[dict[str, Any]]]
    leaks: dict[str, int]
    flagged: list[dict[str, Any]]
    never_solved: list[str | int]
    funnels: dict[str, list[tuple[str, int]]]
    stages: list[dict[str, Any]]
    manifests: dict[str, dict[str, Any]]
    versions: dict[str, str] = field(default_factory=versions)

    def figures(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        kept = {name: value for name, value in vars(self).items() if name != "manifests"}
        found: dict[str, Any] = plain({"schema": SCHEMA} | kept)
        return found


def build(
    arguments: Sequence[str],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Make a report of files and folders (see `cobalt.report.sources.find`) in the folder `out`.

    The folder holds `index.html`, `report.json`, `data/` (what the page reads), `figures/` (SVG and PNG) and
    `tables/` (Markdown and LaTeX). It is replaced as a whole when all is written, and only if it is empty or
    an earlier report. `seed` is that of bootstrap and permutations. Raises InputError for rows that cannot be
    used and for evaluations of other tasks or tests; nothing is written then.
    """
    target = Path(out)
    _refuse_foreign(target)
    sources = find(arguments)
    temporary = target.absolute().with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with writing(target):
            (temporary / "data").mkdir(parents=True)
            made = _read(sources, Writer(temporary / "data"), title, seed, progress)
            _write(made, temporary, progress)
            _put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return made


def _refuse_foreign(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; a report needs a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / DATA).exists():
        raise InputError(f"{target} holds something else than a report; give another folder")


def _put_in_place(temporary: Path, target: Path) -> None:
    old = temporary.with_name(temporary.name + ".old")
    if target.exists():
        target.rename(old)
    temporary.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _read(
    sources: Sources, writer: Writer, title: str | None, seed: int, progress: Progress | None
) -> Report:
    evaluated: list[EvaluatedRun] = []
    flags: dict[str | int, list[dict[str, Any]]] = {}
    for number, (name, path) in enumerate(sources.evaluated.items()):
        run = EvaluatedRun(name, path)
        places = sources.places.get(name, {})
        for read, (where, row) in enumerate(read_rows(path), start=1):
            outcome = run.add(row, where)
            if outcome.id not in flags:
                flags[outcome.id] = leakage.leaks(row)
            writer.add(number, row, outcome, places, flags[outcome.id])
            if progress is not None:
                progress.advance(f"reading {name}", read, None)
        if not run.outcomes:
            raise InputError(f"{path}: there are no evaluated rows")
        evaluated.append(run)
    notes = refuse_unlike(evaluated)
    runs = [_run(run, sources, seed) for run in evaluated]
    for facts, colour in zip(runs, _colours([facts["name"] for facts in runs]), strict=True):
        facts["colour"] = colour
    writer.finish([{"name": run["name"], "turns": run["summary"]["turns"]} for run in runs])
    faults = [
        f"{run['name']} {run['summary']['infra_errors']}" for run in runs if run["summary"]["infra_errors"]
    ]
    if faults:
        notes.append(f"Programs without a verdict, masked everywhere: {', '.join(faults)}.")
    return Report(
        title or _title(runs),
        runs,
        list(dict.fromkeys(notes)),
        compare(evaluated, seed=seed) if len(evaluated) > 1 else None,
        {name: _metrics(path) for name, path in sources.metrics.items()},
        leakage.summarize(flags.values()),
        [{"id": key, **flag} for key, found in flags.items() for flag in found],
        [key for key in evaluated[0].outcomes if not any(_solved(run, key) for run in evaluated)],
        _funnels(sources),
        [_stage(stage) for stage in sources.stages],
        sources.manifests,
    )


def _run(run: EvaluatedRun, sources: Sources, seed: int) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": str(run.path),
        "sha256": file_sha256(run.path),
        "model": model_of(run.path),
        "samples": run.samples,
        "summary": summarize(list(run.outcomes.values()), seed=seed),
        "errors": sources.error_summaries.get(run.name),
        "judge": sources.judge_summaries.get(run.name),
    }


def _solved(run: EvaluatedRun, key: str | int) -> bool:
    return any(rate == 1 for sample in run.outcomes[key].rates for rate in sample)


def _colours(names: Sequence[str]) -> list[str]:
    """A colour per run, the first for the one called Cobalt; further runs share the last ones."""
    rest = [f"c{i + 2}" for i in range(RUN_COLOURS - 1)]
    first = next((i for i, name in enumerate(names) if "cobalt" in name.lower()), 0)
    return ["c1" if i == first else rest[(i - (i > first)) % len(rest)] for i in range(len(names))]


def _title(runs: Sequence[Mapping[str, Any]]) -> str:
    tasks, turns = runs[0]["summary"]["tasks"], max(run["summary"]["turns"] for run in runs)
    names = ", ".join(run["name"] for run in runs[:3]) + (", ..." if len(runs) > 3 else "")
    return f"{names} on {tasks} tasks, {turns} {'turn' if turns == 1 else 'turns'}"


def _metrics(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(path, repair=True)]


_CONTEXT_STEPS = (
    ("tasks", "tasks with trajectories"), ("tasks_with_trajectories", "tasks that keep some"),
    ("candidates", "candidate trajectories"), ("kept", "trajectories kept"), ("contexts", "contexts"),
)  # fmt: skip


def _funnels(sources: Sources) -> dict[str, list[tuple[str, int]]]:
    """What manifests count: rows left by the filters of a data set, and the way to contexts."""
    found: dict[str, list[tuple[str, int]]] = {}
    for manifest in sources.manifests.values():
        counts = manifest.get("counts") or {}
        dropped = counts.get("funnel")
        if isinstance(dropped, dict) and "rows_in" in dropped:
            left, steps = dropped["rows_in"], [("rows in", dropped["rows_in"])]
            for rule, count in dropped.items():
                if rule not in ("rows_in", "rows_out") and count:
                    left -= count
                    steps.append((f"after {rule.replace('_', ' ')}", left))
            found.setdefault("funnel_tasks", steps)
        if "contexts" in counts and "kept" in counts:
            steps = [(label, counts[name]) for name, label in _CONTEXT_STEPS if name in counts]
            found.setdefault("funnel_contexts", steps)
    return found


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "wall_s", "cpu_s", "gpu_s", "peak_mib", "rows_in", "rows_out")
    return {name: stage[name] for name in names if name in stage}


def cost(report: Report) -> tables.Table:
    """Seconds of stages or of files, and tokens of evaluated rows."""
    rows = []
    for stage in report.stages:
        rows.append(_cost_row(str(stage["name"]), stage, {}))
    for path, manifest in report.manifests.items():
        if not report.stages and "wall_s" in manifest:
            name = Path(path).name.removesuffix(".manifest.json")
            rows.append(_cost_row(name, manifest, manifest.get("tokens") or {}))
    for run in report.runs:
        rows.append(_cost_row(f"trajectories of {run['name']}", {}, run["summary"]["tokens"]))
    return tables.Table(
        "cost", "Seconds and tokens",
        ["what", "wall, s", "CPU, s", "GPU, s", "prompt tokens", "completion tokens"], rows,
        "Empty: not recorded. Tokens of trajectories are those of the rows, whoever paid for them.",
    )  # fmt: skip


def _cost_row(name: str, seconds: Mapping[str, Any], tokens: Mapping[str, Any]) -> list[str]:
    shown = [
        f"{seconds[key]:,.1f}" if seconds.get(key) is not None else "" for key in ("wall_s", "cpu_s", "gpu_s")
    ]
    return [
        name,
        *shown,
        *(f"{tokens[key]:,}" if tokens.get(key) else "" for key in ("prompt", "completion")),
    ]


def all_tables(report: Report) -> dict[str, tables.Table]:
    """The tables there is something for, by name."""
    runs = report.runs
    made = [
        tables.pass_at_1(runs),
        tables.pass_at_k(runs),
        tables.steps(runs),
        tables.parts(runs),
        cost(report),
    ]
    if report.comparison:
        made.append(tables.comparison(report.comparison))
    if bent := [run for run in runs if run["errors"]]:
        made.append(tables.hacking(bent))
    if judged := [run for run in runs if run["judge"]]:
        made.append(tables.verdicts(judged))
    return {table.name: table for table in made}


def _write(report: Report, folder: Path, progress: Progress | None) -> None:
    from cobalt.report.site import figures, render

    made = all_tables(report)
    (folder / "tables").mkdir()
    for name, table in made.items():
        atomic_write(folder / "tables" / f"{name}.md", table.markdown())
        atomic_write(folder / "tables" / f"{name}.tex", table.latex())
    drawings = figures(report, folder / "figures", progress)
    atomic_write(folder / DATA, json.dumps(report.figures(), indent=1) + "\n")
    atomic_write(folder / PAGE, render(report, drawings, made))
