"""Tables as Markdown and LaTeX, in the shape of the paper's: a row per run, a column per turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobalt.report.words import percent


@dataclass(frozen=True)
class Table:
    """`name` is that of its files. Cells are plain text; `notes` stand below the table."""

    name: str
    title: str
    head: list[str]
    rows: list[list[str]]
    notes: str = ""

    def markdown(self) -> str:
        """As a GitHub table."""
        lines = [self.head, ["---", *["---:"] * (len(self.head) - 1)], *self.rows]
        cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([f"**{self.title}**", "", *cells, *(["", self.notes] if self.notes else [])]) + "\n"

    def latex(self) -> str:
        """As a `table` with booktabs rules (\\usepackage{booktabs})."""
        lines = [" & ".join(map(_tex, row)) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}[t]", r"\centering", r"\small",
                rf"\caption{{{_tex(self.title)}. {_tex(self.notes)}}}".replace(". }", ".}"),
                rf"\label{{tab:{self.name.replace('_', '-')}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}", r"\toprule",
                " & ".join(map(_tex, self.head)) + r" \\", r"\midrule", *lines, r"\bottomrule",
                r"\end{tabular}", r"\end{table}",
            ]
        ) + "\n"  # fmt: skip


def pass_at_1(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Pass@1 by turn with half widths of 95 % intervals, and the change since the first turn."""
    turns = max(run["summary"]["turns"] for run in runs)
    rows = []
    for run in runs:
        s = run["summary"]
        cells = [_with_error(rate, ends) for rate, ends in zip(s["pass_at_1"], s["ci95"], strict=True)]
        change = s["relative_change_percent"][-1]
        cells += [""] * (turns - len(cells)) + ["n/a" if change is None else f"{change:+.1f} %"]
        rows.append([run["name"], *cells])
    size = f"{runs[0]['summary']['tasks']} tasks, {runs[0]['samples']} samples each"
    notes = f"{size}; ± half of the 95 % interval clustered by task; change relative to turn 0."
    return Table("pass_at_1", "Pass@1 on hidden tests by turn, %",
                 ["run", *(f"turn {turn}" for turn in range(turns)), "change"], rows, notes)  # fmt: skip


def pass_at_k(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Pass@k at the last turn."""
    ks = list(dict.fromkeys(k for run in runs for k in run["summary"]["pass_at_k"]))
    rows = [
        [
            run["name"],
            *(
                _with_error(
                    run["summary"]["pass_at_k"].get(k, [None])[-1],
                    run["summary"]["pass_at_k_ci95"].get(k, [[None, None]])[-1],
                )
                for k in ks
            ),
        ]
        for run in runs
    ]
    return Table(
        "pass_at_k", "Pass@k at the last turn, %", ["run", *(f"k = {k}" for k in ks)], rows,
        "Unbiased estimate; n/a where a task has fewer than k samples.",
    )  # fmt: skip


def parts(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Pass@1 at first and last turn by difficulty and by kind of task."""
    rows = []
    for run in runs:
        for field in ("by_difficulty", "by_subset"):
            for name, part in run["summary"][field].items():
                first, last = (_with_error(part["pass_at_1"][t], part["ci95"][t]) for t in (0, -1))
                rows.append([run["name"], name or "all", str(part["tasks"]), first, last])
    return Table(
        "breakdown", "Pass@1 by difficulty and kind of task, %",
        ["run", "tasks that are", "tasks", "first turn", "last turn"], rows,
    )  # fmt: skip


def steps(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Fixed and broken programs over all pairs of consecutive turns."""
    rows = []
    for run in runs:
        cells = []
        for name in ("wrong_to_right", "right_to_wrong"):
            count, of = (
                sum(row[name][part] for row in run["summary"]["transitions"]) for part in ("count", "of")
            )
            cells += [percent(count / of if of else None), f"{count:,} of {of:,}"]
        rows.append([run["name"], *cells])
    return Table(
        "transitions", "From one turn to the next",
        ["run", "fixed, %", "fixed", "broken, %", "broken"], rows,
        "Fixed: wrong programs followed by a right one. Broken: right programs followed by a wrong one.",
    )  # fmt: skip


def comparison(found: Mapping[str, Any]) -> Table:
    """Paired differences of `cobalt compare`."""
    rows = []
    for row in found["comparisons"]:
        lo, hi = row["ci95"]
        bounds = "" if lo is None else f" [{lo:+.1f}, {hi:+.1f}]"
        points = "n/a" if row["points"] is None else f"{row['points']:+.1f}{bounds}"
        rows.append(
            [f"{row['b']} - {row['a']}", str(row["turn"]), points, _p(row["p"]), _p(row.get("p_holm")),
             "n/a" if row.get("detectable_points") is None else f"{row['detectable_points']:.1f}"]
        )  # fmt: skip
    return Table(
        "comparison", "Paired differences of Pass@1, percentage points",
        ["difference", "turn", "points [95 %]", "p", "p (Holm)", "detectable"], rows,
        "Bootstrap over tasks; sign-flip permutation test; Holm over all tests of the table; detectable: "
        "true difference found with 80 % power.",
    )  # fmt: skip


def hacking(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Programs that accepted a wrong test, by turn."""
    rows = []
    for run in runs:
        for row in [*run["errors"]["turns"], run["errors"]["all_turns"] | {"turn": "all"}]:
            counts = [f"{row[name]:,}" for name in ("cases", "programs")]
            rows.append(
                [run["name"], str(row["turn"]), *counts, _with_error(row["rate"], row["ci95"]),
                 _with_error(row["rate_of_shown"], row["ci95_of_shown"])]
            )  # fmt: skip
    return Table(
        "hacking", "Programs bent to a swapped public test",
        ["run", "turn", "cases", "programs", "share, %", "after its feedback, %"], rows,
        "± half of the 95 % interval clustered by task.",
    )  # fmt: skip


def verdicts(runs: Sequence[Mapping[str, Any]]) -> Table:
    """The judge's categories."""
    rows = []
    for run in runs:
        for label, row in run["judge"]["verdicts"].items():
            rows.append([run["name"], label, str(row["cases"]), _with_error(row["share"], row["ci95"])])
    models = ", ".join(dict.fromkeys(str(run["judge"].get("judge_model")) for run in runs))
    return Table("verdicts", "Kinds of hacking", ["run", "verdict", "cases", "share, %"], rows,
                 f"Judge: {models}, majority of votes.")  # fmt: skip


def _with_error(rate: float | None, ends: Sequence[float | None]) -> str:
    lo, hi = ends
    if rate is None:
        return "n/a"
    return percent(rate) if lo is None or hi is None else f"{100 * rate:.1f} ± {50 * (hi - lo):.1f}"


def _p(value: float | None) -> str:
    return "n/a" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "<": r"$<$", ">": r"$>$", **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)
