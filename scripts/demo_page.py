"""The demo's figures, wherever they stand: `demo_page.py RUN...` takes finished runs into docs/demo.json,
the first of them being what `make demo` makes, and draws docs/demo.png; then, or without runs, it writes
README.md and docs/benchmarks.md from that file.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import picture
from reference import renewed as renewed_parts

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.evaluation.format import interval, percent, points
from cobalt.evaluation.format import rate as cell
from cobalt.files import atomic_write
from cobalt.report.results import read_results

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "demo.json"
ARMS = ("reference", "cobalt")
KEPT = (
    *("seed", "task_seed", "tasks", "samples_per_task", "pass_at_1", "gain_by_turn", "slots", "controls"),
    *("hacking", "wall_s", "peak_memory_mib", "family_hash", "model_sha256", "stages"),
)
Run = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(__doc__ or "")
    flags.add_argument("runs", nargs="*", type=Path, help="folders of finished runs of configs/demo.yaml")
    args = flags.parse_args(argv)
    if args.runs:
        atomic_write(RECORD, json.dumps([taken(folder) for folder in args.runs], indent=1) + "\n")
        picture.main([str(args.runs[0]), "--output", str(ROOT / "docs" / "demo.png")])
    runs = json.loads(RECORD.read_text(encoding="utf-8"))
    for path in PAGES:
        atomic_write(path, renewed(path, runs))
    return 0


def taken(folder: Path) -> Run:
    """What is kept of a run."""
    found = read_results(folder / "results.json")
    if found["name"] != "demo" or found["smoke"]:
        raise InputError(f"{folder}: no run of configs/demo.yaml")
    ended = time.strftime("%Y-%m-%d", time.gmtime((folder / "results.json").stat().st_mtime))
    more = {"steps": found["training"]["steps"], "on_wrong_tests": found["perturbed"]["pass_at_1"]}
    return {key: found[key] for key in KEPT} | more | {"ended": ended}


def renewed(path: Path, runs: list[Run]) -> str:
    """A page with its made part as it would be written now."""
    return renewed_parts(path.read_text(encoding="utf-8"), {"demo": lambda: PAGES[path](runs)})


def readme(runs: list[Run]) -> str:
    """The picture of the first run, what it shows, and the second half in a sentence."""
    run = runs[0]
    before, after = (percent(run["pass_at_1"][name][-1]) for name in ARMS)
    single = percent(run["controls"]["single_turn_training"]["pass_at_1"][-1])
    bent = [run["hacking"][name]["all_turns"] for name in ARMS]
    shares = [cell(each["rate_of_shown"], each["ci95_of_shown"]) for each in bent]
    end = f"before the training, {shares[1]} % after"
    said = f"Pass@1 by turn on {run['tasks']} held-out tasks: {before} % before, {after} % after, "
    return "\n".join([
        f'<img src="docs/demo.png" width="500" alt="{said}{single} % trained on first turns only">',
        "",
        f"*What `make demo` found (seed {run['seed']}, {run['ended']}, 95 % intervals), drawn by `python",
        "scripts/demo_page.py outputs/demo`.* It also counts how a model takes wrong tests: of the programs",
        f"that were shown one {shares[0]} % accepted it {end}",
        "([what lowers that](docs/hacking.md)).",
    ])  # fmt: skip


def benchmarks(runs: list[Run]) -> str:
    """Tables of all runs: Pass@1, slots, controls, wrong tests, time."""
    names = [
        f"seed {run['seed']}" + (f", task seed {run['task_seed']}" if run["task_seed"] else "")
        for run in runs
    ]
    first = runs[0]
    slots = [row["slot"] for row in first["slots"] if row["kind"] == "only"]
    lines = [
        f"Family `{first['family_hash'][:12]}`, reference model `{first['model_sha256'][:12]}`, "
        f"{first['steps']} steps. Pass@1 by turn on {first['tasks']} held-out tasks x "
        f"{first['samples_per_task']} dialogues, in %:",
        "",
        "| run | reference | Cobalt | gain at the last turn, by task | by structure | minutes | GiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, run in zip(names, runs, strict=True):
        rates = [", ".join(map(percent, run["pass_at_1"][arm])) for arm in ARMS]
        gain = run["gain_by_turn"][-1]
        lines.append(
            f"| {name} ({run['ended']}) | {rates[0]} | {rates[1]} | {gain['points']:+.1f} "
            f"{interval(gain['ci95'], sign=True)} | {interval(gain['ci95_by_structure'], sign=True)} | "
            f"{run['wall_s'] / 60:.1f} | {run['peak_memory_mib'] / 1024:.1f} |"
        )
    lines += ["", "Gain at the last turn by what alone is left open (tasks):", ""]
    lines += [f"| run | {' | '.join(slots)} |", "|---|" + "---|" * len(slots)]
    for name, run in zip(names, runs, strict=True):
        found = {row["slot"]: f"{points(row)} ({row['n']})" for row in run["slots"] if row["kind"] == "only"}
        cells = [found.get(slot, "") for slot in slots]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "Programs that accepted the wrong test just shown, in % of those that were shown one:", ""]
    lines += ["| run | before | after | Pass@1 there, last turn |", "|---|---|---|---|"]
    for name, run in zip(names, runs, strict=True):
        bent = [run["hacking"][arm]["all_turns"] for arm in ARMS]
        shares = [
            f"{cell(each['rate_of_shown'], each['ci95_of_shown'])} ({each['cases']} of {each['shown']})"
            for each in bent
        ]
        right = " → ".join(percent(run["on_wrong_tests"][arm][-1]) for arm in ARMS)
        lines.append(f"| {name} | {' | '.join(shares)} | {right} |")
    lines += [
        "",
        f"Controls at the last turn, {names[0]}:",
        "",
        "| control | Pass@1 | Cobalt has more |",
        "|---|---|---|",
    ]
    for control, row in first["controls"].items():
        said = control.replace("_", " ")
        lines.append(f"| {said} | {percent(row['pass_at_1'][-1])} | {points(row['cobalt_minus'])} |")
    seconds = ", ".join(
        f"{stage['name'].replace('_', ' ')} {stage['wall_s']:.0f}" for stage in first["stages"]
    )
    return "\n".join([*lines, "", f"Seconds by stage, {names[0]}: {seconds}."])


PAGES = {ROOT / "README.md": readme, ROOT / "docs" / "benchmarks.md": benchmarks}

if __name__ == "__main__":
    run_main(main)
