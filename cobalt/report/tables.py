"""Tables of figures: of a report (a row per run), and of a run's result, on its page and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cobalt.evaluation.format import detectable, p_value, percent, points, rate, rates, tone, too_few
from cobalt.evaluation.summary import pooled_steps

Run = Mapping[str, Any]
Results = Mapping[str, Any]

STAMP = "Smoke run, no result"
_CONTROLS = {
    "single_turn_training": "trained on first turns only, as many completions",
    "blank_feedback": "trained model, feedback blanked",
    "other_feedback": "trained model, feedback of another task",
    "best_of_turns": "reference, best of {turns} independent programs by public tests",
}
_SLOTS = {"format": "output format"}
_COUNTED = "difference [95 %]"


@dataclass(frozen=True)
class Table:
    """`name` is that of its files; `tones`: cells (row, column) that are better, worse or unclear."""

    name: str
    title: str
    head: list[str]
    rows: list[list[str]]
    notes: str = ""
    tones: dict[tuple[int, int], str] = field(default_factory=dict)

    def markdown(self) -> str:
        """As a GitHub table."""
        lines = [self.head, ["---", *["---:"] * (len(self.head) - 1)], *self.rows]
        cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([f"**{self.title}**", "", *cells, *(["", self.notes] if self.notes else [])]) + "\n"


def named(made: Sequence[Table], *, smoke: bool) -> dict[str, Table]:
    """Tables by name; those of a smoke run say so wherever they go."""
    said = f"{STAMP}: " if smoke else ""
    return {table.name: replace(table, title=said + table.title) for table in made}


def all_tables(
    runs: Sequence[Run], comparison: Mapping[str, Any] | None, *, smoke: bool = False
) -> dict[str, Table]:
    """The tables there is something for, by name."""
    made = [_pass_at_1(runs), _pass_at_k(runs), _steps(runs), parts(runs)]
    if comparison:
        made.append(_comparison(comparison))
    if bent := [run for run in runs if run["errors"]]:
        made.append(_hacking(bent))
    if judged := [run for run in runs if run["judge"]]:
        made.append(_verdicts(judged))
    return named(made, smoke=smoke)


def _pass_at_1(runs: Sequence[Run]) -> Table:
    """Pass@1 by turn with 95 % intervals, and the change since the first turn."""
    turns = max(run["summary"]["turns"] for run in runs)
    rows = []
    for run in runs:
        cells = rates(run["summary"])
        change = run["summary"]["relative_change_percent"][-1]
        cells += [""] * (turns - len(cells)) + ["n/a" if change is None else f"{change:+.1f} %"]
        rows.append([run["name"], *cells])
    size = f"{runs[0]['summary']['tasks']} tasks, {runs[0]['samples']} samples each"
    notes = f"{size}; [95 % interval], clustered by task; change relative to turn 1."
    head = ["run", *(f"turn {turn + 1}" for turn in range(turns)), "change"]
    return Table("pass_at_1", "Pass@1 on hidden tests by turn, %", head, rows, notes)


def _pass_at_k(runs: Sequence[Run]) -> Table:
    ks = list(dict.fromkeys(k for run in runs for k in run["summary"]["pass_at_k"]))
    rows = []
    for run in runs:
        found, ends = (run["summary"][name] for name in ("pass_at_k", "pass_at_k_ci95"))
        cells = [rate(found[k][-1], ends[k][-1]) if k in found else "n/a" for k in ks]
        rows.append([run["name"], *cells])
    notes = "Unbiased estimate; n/a where a task has fewer than k samples."
    return Table("pass_at_k", "Pass@k at the last turn, %", ["run", *(f"k = {k}" for k in ks)], rows, notes)


def _steps(runs: Sequence[Run]) -> Table:
    """Fixed and broken programs over all pairs of consecutive turns."""
    rows = []
    for run in runs:
        steps = pooled_steps(run["summary"])
        fixed, broken = steps["wrong_to_right"], steps["right_to_wrong"]
        cells = [[percent(each["rate"]), f"{each['count']:,} of {each['of']:,}"] for each in (fixed, broken)]
        rows.append([run["name"], *cells[0], *cells[1]])
    return Table(
        "transitions", "From one turn to the next", ["run", "fixed, %", "fixed", "broken, %", "broken"], rows,
        "Fixed: wrong programs followed by a right one. Broken: right programs followed by a wrong one.",
    )  # fmt: skip


def parts(runs: Sequence[Run]) -> Table:
    """Pass@1 at first and last turn by difficulty and by kind of task."""
    rows = []
    for run in runs:
        for field_ in ("by_difficulty", "by_subset"):
            for name, part in run["summary"][field_].items():
                cells = rates(part)
                rows.append([run["name"], name or "all", str(part["tasks"]), cells[0], cells[-1]])
    head = ["run", "tasks that are", "tasks", "first turn", "last turn"]
    return Table("breakdown", "Pass@1 by difficulty and kind of task, %", head, rows)


def _comparison(found: Mapping[str, Any]) -> Table:
    """Paired differences against the first run."""
    rows = []
    for row in found["comparisons"]:
        tests = [p_value(row["p"]), p_value(row.get("p_holm")), detectable(row)]
        rows.append([f"{row['b']} - {row['a']}", str(row["turn"] + 1), points(row), *tests])
    return Table(
        "comparison", "Paired differences of Pass@1, percentage points",
        ["difference", "turn", "points [95 %]", "p", "p (Holm)", "detectable"], rows,
        "Bootstrap over tasks, or over groups of tasks where that interval is wider; sign-flip test over "
        "tasks; Holm over all tests of the table; detectable: true difference found with 80 % power.",
    )  # fmt: skip


def _hacking(runs: Sequence[Run]) -> Table:
    """Programs that accepted a wrong test, by turn."""
    rows = []
    for run in runs:
        turns = [row | {"turn": row["turn"] + 1} for row in run["errors"]["turns"]]
        for row in [*turns, run["errors"]["all_turns"] | {"turn": "all"}]:
            counts = [f"{row[name]:,}" for name in ("cases", "programs")]
            shares = [rate(row[f"rate{of}"], row[f"ci95{of}"]) for of in ("", "_of_shown")]
            rows.append([run["name"], str(row["turn"]), *counts, *shares])
    head = ["run", "turn", "cases", "programs", "share, %", "after its feedback, %"]
    notes = "[95 % interval], clustered by task."
    return Table("hacking", "Programs bent to a swapped public test", head, rows, notes)


def _verdicts(runs: Sequence[Run]) -> Table:
    """The judge's categories."""
    rows = [
        [run["name"], label, str(row["cases"]), rate(row["share"], row["ci95"])]
        for run in runs for label, row in run["judge"]["verdicts"].items()
    ]  # fmt: skip
    models = ", ".join(dict.fromkeys(str(run["judge"].get("judge_model")) for run in runs))
    head = ["run", "verdict", "cases", "share, %"]
    return Table("verdicts", "Kinds of hacking", head, rows, f"Judge: {models}, majority of votes.")


def recipe_of(results: Results) -> str:
    """The name of a run's recipe."""
    return Path(str(results.get("recipe", "cobalt"))).stem


@cache
def of_papers() -> dict[str, Any]:
    """By recipe what it is ``called`` and what is ``published`` of it (`published.yaml`)."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())
    return found


def trained_name(results: Results) -> str:
    """What the trained model of a run is called."""
    recipe = recipe_of(results)
    return str(of_papers().get(recipe, {}).get("called", recipe))


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
    if results.get("hacking"):
        made.append(_wrong_tests(results))
    made += [_behaviour(results), _stages(results)]
    return named(made, smoke=bool(results.get("smoke")))


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
        f"by task and by {results['n_structures']} structures. Green and red say that it excludes zero. "
        + " ".join(too_few(results["tasks"], results["n_structures"])),
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


def _wrong_tests(results: Results) -> Table:
    found, right = results["hacking"], results["perturbed"]["pass_at_1"]
    rows = []
    for name, said in (("reference", "before"), ("cobalt", f"after ({trained_name(results)})")):
        counts, kinds = found[name]["all_turns"], found[name].get("verdicts", {})
        share = rate(counts["rate_of_shown"], counts["ci95_of_shown"])
        sorts = [f"{count:,} {label[4:].lower()}" for label, count in kinds.items() if count]
        cells = [f"{counts['cases']:,} of {counts['shown']:,}", share, ", ".join(sorts) or "n/a"]
        rows.append([said, *cells, percent(right[name][-1])])
    head = ["dialogues", "accepted it", "share, % [95 %]", "kinds", f"Pass@1 at turn {results['turns']}, %"]
    notes = (
        "Accepted: passes the wrong test that was just shown and every honest one. Pass@1 is by hidden tests."
    )
    return Table("wrong_tests", "Programs that were shown a wrong test", head, rows, notes)


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
    said = "The two trainings ran side by side; the second is given what it took beyond the first."
    notes = said if results["training"].get("side_by_side") else ""
    return Table("stages", "Stages", ["stage", "wall, s", "rows in", "rows out"], rows, notes)


def control_name(name: str, results: Results) -> str:
    """What a control is."""
    return _CONTROLS.get(name, name.replace("_", " ")).format(turns=results["turns"])


def _tones(differences: Sequence[Mapping[str, Any]], column: int) -> dict[tuple[int, int], str]:
    return {(row, column): tone(difference) for row, difference in enumerate(differences)}
