"""The result of a run in words and tables, the same on its page and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import table
from rich.console import Console
from rich.text import Text

from cobalt.evaluation.format import percent, points, rate, tone
from cobalt.report.tables import Table

Results = Mapping[str, Any]

_STYLES = {"better": "bold green", "worse": "bold red", "unclear": "yellow"}
_CONTROLS = {
    "single_turn_training": "trained on first turns only, as many completions",
    "blank_feedback": "trained model, feedback blanked",
    "other_feedback": "trained model, feedback of another task",
    "best_of_turns": "reference, best of {turns} independent programs by public tests",
}
_SLOTS = {"format": "output format"}
_TRAINED = {"cobalt": "Cobalt", "cobalt_ptb": "Cobalt-PTB"}  # by recipe; others are called as they are
_COUNTED = "difference [95 %]"


def trained_name(results: Results) -> str:
    """What the trained model of a run is called."""
    recipe = Path(str(results.get("recipe", "cobalt"))).stem
    return _TRAINED.get(recipe, recipe)


def set_name(results: Results) -> str:
    """What the tasks of a run's evaluation are called."""
    return str(results.get("set", "heldout")).replace("heldout", "held-out").replace("_", " ")


def headline(results: Results) -> str:
    """The finding in one sentence."""
    before, after = (percent(results["pass_at_1"][name][-1]) for name in ("reference", "cobalt"))
    return (
        f"Pass@1 at turn {results['turns']} on {results['tasks']} {set_name(results)} tasks: {before} % "
        f"before, {after} % after training, {points(results['gain_by_turn'][-1])} points (95 % interval)."
    )


def run_tables(results: Results) -> dict[str, Table]:
    """The tables there is something for, by name."""
    made = [_by_turn(results)]
    if results["slots"]:
        made.append(_by_slot(results))
    if results["controls"]:
        made.append(_controls(results))
    made += [_behaviour(results), _stages(results)]
    return {table.name: table for table in made}


def _by_turn(results: Results) -> Table:
    gains = results["gain_by_turn"]
    rows = []
    for turn, gain in enumerate(gains):
        arms = [
            rate(results["pass_at_1"][name][turn], results["ci95"][name][turn])
            for name in ("reference", "cobalt")
        ]
        rows.append([str(turn + 1), *arms, points(gain)])
    size = f"{results['tasks']} {set_name(results)} tasks x {results['samples_per_task']} samples"
    return Table(
        "by_turn", f"Pass@1 by turn, % ({size})",
        ["turn", "reference", trained_name(results), _COUNTED], rows,
        "Rates: 95 % intervals by task. Differences are paired by task; their interval is the wider of those "
        f"by task and by {results['n_structures']} structures. Green and red say that it excludes zero.",
        _tones(gains, 3),
    )  # fmt: skip


def _by_slot(results: Results) -> Table:
    rows = []
    for row in results["slots"]:
        only = "only " if row["kind"] == "only" and row["slot"] != "nothing" else ""
        change = f"{percent(row['before'])} → {percent(row['after'])}"
        rows.append(
            [f"{only}{_SLOTS.get(row['slot'], row['slot'])} vague", str(row["n"]), change, points(row)]
        )
    return Table(
        "by_slot", f"Turn {results['turns']} by what the statement leaves vague, %",
        ["tasks with", "n", "before → after", _COUNTED], rows,
        "“Constant vague” holds every task in which it is, “only constant vague” those in which nothing "
        "else is.",
        _tones(results["slots"], 3),
    )  # fmt: skip


def _controls(results: Results) -> Table:
    found = results["controls"]
    rows = [
        [control_name(name, results), rate(row["pass_at_1"][-1], row["ci95"][-1]),
         points(row["minus_reference"]), points(row["cobalt_minus"])]
        for name, row in found.items()
    ]  # fmt: skip
    head = ["control", "Pass@1", "minus reference [95 %]", f"{trained_name(results)} has more [95 %]"]
    tones = _tones([row["cobalt_minus"] for row in found.values()], 3)
    return Table("controls", f"Controls at turn {results['turns']}, %", head, rows, "", tones)


def _behaviour(results: Results) -> Table:
    names = {"reference": "before", "cobalt": f"after ({trained_name(results)})"}
    rows = [
        [names.get(name) or control_name(name, results),
         *(f"{percent(row[key]['rate'])} ({row[key]['count']} of {row[key]['of']})"
           for key in ("right_to_wrong", "wrong_to_right")),
         percent(row["no_code"][-1])]
        for name, row in results["behaviour"].items()
    ]  # fmt: skip
    head = ["dialogues", "right, then wrong", "wrong, then right", "no code at the last turn"]
    return Table("behaviour", "From one turn to the next, %", head, rows)


def _stages(results: Results) -> Table:
    rows = [
        [stage["name"].replace("_", " "), f"{stage['wall_s']:.1f}",
         *(f"{stage[name]:,}" for name in ("rows_in", "rows_out"))]
        for stage in results["stages"]
    ]  # fmt: skip
    rows.append(["whole run", f"{results['wall_s']:.1f}", "", ""])
    beside = results["training"].get("side_by_side")
    notes = "The two trainings ran side by side; the second is given what it took beyond the first."
    head = ["stage", "wall, s", "rows in", "rows out"]
    return Table("stages", "Stages", head, rows, notes if beside else "")


def control_name(name: str, results: Results) -> str:
    """What a control is."""
    return _CONTROLS.get(name, name.replace("_", " ")).format(turns=results["turns"])


def _tones(differences: Sequence[Mapping[str, Any]], column: int) -> dict[tuple[int, int], str]:
    return {(row, column): tone(difference) for row, difference in enumerate(differences)}


def show(results: Results, out: Path, console: Console) -> None:
    """Print headline, tables, files and what to try next on a terminal."""
    console.print()
    console.print(Text(headline(results), style="bold"), soft_wrap=True)
    for name, each in run_tables(results).items():
        if name != "stages":
            console.print(_on_terminal(each))
    training, evaluator = results["training"], results["evaluator"]
    text = (
        f"\nTook {results['wall_s'] / 60:.1f} min and at most {results['peak_memory_mib'] / 1024:.1f} GiB of "
        f"memory; {training['trainer']} trained {training['steps']} steps on {training['samples']:,} "
        f"programs; "
        f"{evaluator['tests']:,} tests run ({evaluator['isolation']}), {evaluator['infra_errors']} faults.\n"
        f"\nFiles: {out}/report.html (open it in a browser; it has example dialogues and leads to every "
        f"trajectory in {out}/report), {out}/results.json, each stage's rows in {out}\n"
    )
    if results.get("family_hash") and not results.get("smoke"):
        seed, task_seed = results["seed"] + 1, results["task_seed"] + 1
        text += (
            f"\nTo try next:\n"
            f"  make demo SEED={seed} OUT={out}-seed{seed}  another seed for sampling and training\n"
            f"  make demo TASK_SEED={task_seed} OUT={out}-tasks{task_seed}  other tasks\n"
            f"  edit configs/tiny.yaml, then make demo OUT=...  other settings (docs/reproduce.md)\n"
        )
    console.print(Text(text), highlight=False, soft_wrap=True)


def _on_terminal(given: Table) -> table.Table:
    made = table.Table(
        title=Text(f"\n{given.title}", style="bold", no_wrap=True), title_justify="left", box=None,
        pad_edge=False, header_style="dim",
    )  # fmt: skip
    for head in given.head:
        made.add_column(Text(head))
    for row, cells in enumerate(given.rows):
        styles = [_STYLES.get(given.tones.get((row, column), ""), "") for column in range(len(cells))]
        made.add_row(*map(Text, cells, styles))
    return made
