"""What a terminal is told of a run: a table by turn, and the score of first programs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import Outcomes
from cobalt.evaluation.format import percent, points, rate, shown
from cobalt.evaluation.summary import summarize
from cobalt.rollouts.inputs import tests_of
from cobalt.rows import Row, read_rows


def turn_table(summary: dict[str, Any], title: str) -> None:
    """Print the statistics of an evaluation (`summarize`), a line for each turn, which count from 1."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    samples, most = summary["samples_per_task"], max(summary["pass_at_k"], key=int)
    heads = ["turn", "Pass@1 % [95 %]", "against turn 1", f"Pass@{most} %", "public tests %", "no program %"]
    heads = [head for head in heads if most != "1" or head != "Pass@1 %"]
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(Text(head), justify="right", no_wrap=True)
    public = (summary["public"] or {}).get("pass_at_1") or [None] * summary["turns"]
    ends = shown(summary)
    for turn in range(summary["turns"]):
        gain = summary["gain"][turn]
        at_most = summary["pass_at_k"][most][turn], summary["pass_at_k_ci95"][most][turn]
        cells = [
            str(turn + 1), rate(summary["pass_at_1"][turn], ends[turn]),
            points(gain) if turn and gain else "", *([rate(*at_most)] if most != "1" else []),
            percent(public[turn]), percent(summary["no_code"][turn]),
        ]  # fmt: skip
        table.add_row(*map(Text, cells))
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, 110)
    each = "" if samples is None else f", {samples} {'sample' if samples == 1 else 'samples'} each"
    faults = f", {summary['infra_errors']} programs without a verdict" if summary["infra_errors"] else ""
    console.print(f"{title}: {summary['tasks']} tasks{each}{faults}\n", soft_wrap=True)
    console.print(table)


def score_lines(path: Path) -> list[str]:
    """Pass@1 (and Pass@k) of a file of single-turn completions by the verdicts that it holds: on all tests,
    and on the public ones where every row names some.
    """
    whole: list[Outcomes] = []
    public: list[Outcomes] = []
    for where, row in read_rows(path):
        whole.append(_judged(row, None, where))
        with contextlib.suppress(InputError):  # the row does not say which they are
            public.append(_judged(row, len(tests_of(row, "public_test_cases", where)), where))
    told = {"all tests": whole, "public tests": public if len(public) == len(whole) else []}
    return [_score(what, outcomes) for what, outcomes in told.items() if outcomes]


def _judged(row: Row, first: int | None, where: str) -> Outcomes:
    """Verdicts on the first so many tests of a row, public ones first, in the place of hidden tests."""
    verdicts = [result["passing"][:first] for result in row["exec_results"]]
    rates = [[sum(passing) / len(passing)] for passing in verdicts]
    return Outcomes.of({"id": row["id"], "group": row.get("group"), "all_pass_rates": rates}, where)


def _score(what: str, outcomes: list[Outcomes]) -> str:
    found = summarize(outcomes)
    most = max(found["pass_at_k"], key=int)
    line = f"{what}: Pass@1 {rate(found['pass_at_1'][0], shown(found)[0])} %"
    if most != "1" and found["pass_at_k"][most][0] is not None:
        line += f", Pass@{most} {rate(found['pass_at_k'][most][0], found['pass_at_k_ci95'][most][0])} %"
    return f"{line} ({found['tasks']} tasks, {found['counts']['trajectories']} completions)"
