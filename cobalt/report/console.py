"""The result of a run on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import table
from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from cobalt.evaluation.format import percent
from cobalt.report.run_tables import Results, headline, run_tables
from cobalt.report.tables import Table

_STYLES = {"better": "bold green", "worse": "bold red", "unclear": "yellow"}


def show(results: Results, out: Path, console: Console, *, dialogues: bool = True) -> None:
    """Print headline, tables, example dialogues, files and what to try next."""
    console.print()
    console.print(Text(headline(results), style="bold"), soft_wrap=True)
    for name, each in run_tables(results).items():
        if name != "stages":
            console.print(_table(each))
    for example in results["examples"] if dialogues else ():
        console.print(_dialogue(example))
    console.print(_closing(results, out), highlight=False, soft_wrap=True)


def _table(given: Table) -> table.Table:
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


def _dialogue(example: Mapping[str, Any]) -> Panel:
    """One task, the reference's dialogue beside the trained model's."""
    columns = table.Table.grid(expand=True, padding=(0, 2))
    columns.add_column(ratio=1)
    columns.add_column(ratio=1)
    columns.add_row(Text("before", style="bold"), Text("after training", style="bold"))
    for turn, pair in enumerate(zip(example["before"], example["after"], strict=True), start=1):
        columns.add_row(*(_turn(turn, each) for each in pair))
    title = f"{example['rule']} ({example['fits']} of {example['tasks']} tasks)"
    head = Text(f"{example['instruction']}\n", style="italic")
    foot = f"{example['id']}, vague: {', '.join(example['slots']) or 'nothing'}"
    return Panel(Group(head, columns), title=title, subtitle=foot, title_align="left")


def _turn(number: int, turn: Mapping[str, Any]) -> Group:
    right = turn["hidden"] == 1
    said = "right" if right else f"wrong ({percent(turn['hidden'])} % of hidden tests)"
    mark = Text.assemble((f"turn {number}: ", "dim"), (said, "green" if right else "red"))
    code: Text | Syntax = Text("(no code block)")
    if turn["code"] is not None:
        code = Syntax(turn["code"], "python", theme="ansi_dark", background_color="default", word_wrap=True)
    # Labels stand on lines of their own in the feedback; here they share one with their value.
    said = "all public tests passed" if turn["feedback"] is None else turn["feedback"].replace(":\n", ": ")
    return Group(mark, code, Text(said + "\n", style="dim"))


def _closing(results: Results, out: Path) -> Text:
    """Cost, files and what to try next."""
    training, evaluator = results["training"], results["evaluator"]
    seed, task_seed = results["seed"], results["task_seed"]
    text = (
        f"\nTook {results['wall_s'] / 60:.1f} min and at most {results['peak_memory_mib'] / 1024:.1f} GiB of "
        f"memory; {training['trainer']} trained {training['steps']} steps on {training['samples']:,} "
        f"programs; "
        f"{evaluator['tests']:,} tests run ({evaluator['isolation']}), {evaluator['infra_errors']} faults.\n"
        f"\nFiles: {out}/report.html (open it in a browser; it leads to every trajectory in {out}/report), "
        f"{out}/results.json, each stage's rows in {out}\n"
    )
    if results.get("family_hash") and not results.get("smoke"):
        text += (
            f"\nTo try next:\n"
            f"  make demo SEED={seed + 1} OUT={out}-seed{seed + 1}  another seed for sampling and training\n"
            f"  make demo TASK_SEED={task_seed + 1} OUT={out}-tasks{task_seed + 1}  other tasks\n"
            f"  edit configs/tiny.yaml, then make demo OUT=...  other settings (docs/reproduce.md)\n"
        )
    return Text(text)
