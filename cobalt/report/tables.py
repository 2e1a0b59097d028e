"""Tables of figures, for page, terminal and as Markdown: a row per run, a column per turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobalt.evaluation.format import half_width, p_value, percent, points
from cobalt.evaluation.summary import pooled_steps

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """`name` is that of its files. Cells are plain text; `notes` stand below the table; `tones` says of a
    cell (row, column) that it is better, worse or unclear.
    """

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


def all_tables(runs: Sequence[Run], comparison: Mapping[str, Any] | None) -> dict[str, Table]:
    """The tables there is something for, by name."""
    made = [_pass_at_1(runs), _pass_at_k(runs), _steps(runs), parts(runs)]
    if comparison:
        made.append(_comparison(comparison))
    if bent := [run for run in runs if run["errors"]]:
        made.append(_hacking(bent))
    if judged := [run for run in runs if run["judge"]]:
        made.append(_verdicts(judged))
    return {table.name: table for table in made}


def _pass_at_1(runs: Sequence[Run]) -> Table:
    """Pass@1 by turn with half widths of 95 % intervals, and the change since the first turn."""
    turns = max(run["summary"]["turns"] for run in runs)
    rows = []
    for run in runs:
        cells = _half_widths(run["summary"])
        change = run["summary"]["relative_change_percent"][-1]
        cells += [""] * (turns - len(cells)) + ["n/a" if change is None else f"{change:+.1f} %"]
        rows.append([run["name"], *cells])
    size = f"{runs[0]['summary']['tasks']} tasks, {runs[0]['samples']} samples each"
    notes = f"{size}; ± half of the 95 % interval clustered by task; change relative to turn 0."
    head = ["run", *(f"turn {turn}" for turn in range(turns)), "change"]
    return Table("pass_at_1", "Pass@1 on hidden tests by turn, %", head, rows, notes)


def _half_widths(part: Mapping[str, Any]) -> list[str]:
    return [half_width(rate, ends) for rate, ends in zip(part["pass_at_1"], part["ci95"], strict=True)]


def _pass_at_k(runs: Sequence[Run]) -> Table:
    ks = list(dict.fromkeys(k for run in runs for k in run["summary"]["pass_at_k"]))
    rows = []
    for run in runs:
        rates, ends = (run["summary"][name] for name in ("pass_at_k", "pass_at_k_ci95"))
        cells = [half_width(rates[k][-1], ends[k][-1]) if k in rates else "n/a" for k in ks]
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
                cells = _half_widths(part)
                rows.append([run["name"], name or "all", str(part["tasks"]), cells[0], cells[-1]])
    head = ["run", "tasks that are", "tasks", "first turn", "last turn"]
    return Table("breakdown", "Pass@1 by difficulty and kind of task, %", head, rows)


def _comparison(found: Mapping[str, Any]) -> Table:
    """Paired differences against the first run."""
    rows = []
    for row in found["comparisons"]:
        detectable = row.get("detectable_points")
        tests = [p_value(row["p"]), p_value(row.get("p_holm"))]
        power = "n/a" if detectable is None else f"{detectable:.1f}"
        rows.append([f"{row['b']} - {row['a']}", str(row["turn"]), points(row), *tests, power])
    return Table(
        "comparison", "Paired differences of Pass@1, percentage points",
        ["difference", "turn", "points [95 %]", "p", "p (Holm)", "detectable"], rows,
        "Bootstrap over tasks, or over groups of tasks where that interval is wider; sign-flip permutation "
        "test; Holm over all tests of the table; detectable: true difference found with 80 % power.",
    )  # fmt: skip


def _hacking(runs: Sequence[Run]) -> Table:
    """Programs that accepted a wrong test, by turn."""
    rows = []
    for run in runs:
        for row in [*run["errors"]["turns"], run["errors"]["all_turns"] | {"turn": "all"}]:
            counts = [f"{row[name]:,}" for name in ("cases", "programs")]
            shares = [half_width(row[f"rate{of}"], row[f"ci95{of}"]) for of in ("", "_of_shown")]
            rows.append([run["name"], str(row["turn"]), *counts, *shares])
    head = ["run", "turn", "cases", "programs", "share, %", "after its feedback, %"]
    notes = "± half of the 95 % interval clustered by task."
    return Table("hacking", "Programs bent to a swapped public test", head, rows, notes)


def _verdicts(runs: Sequence[Run]) -> Table:
    """The judge's categories."""
    rows = [
        [run["name"], label, str(row["cases"]), half_width(row["share"], row["ci95"])]
        for run in runs for label, row in run["judge"]["verdicts"].items()
    ]  # fmt: skip
    models = ", ".join(dict.fromkeys(str(run["judge"].get("judge_model")) for run in runs))
    head = ["run", "verdict", "cases", "share, %"]
    return Table("verdicts", "Kinds of hacking", head, rows, f"Judge: {models}, majority of votes.")
