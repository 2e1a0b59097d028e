"""What a run ends in on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cobalt.report.tables import STAMP, Results, Table, headline, run_tables

ENDS = ("line", "table", "all")
_STYLES = {"better": "bold green", "worse": "bold red", "unclear": "yellow"}


def show(results: Results, out: Path, console: Any, end: str = "table") -> None:
    """Print a run's finding on a terminal, a `rich.console.Console`: as a `line`, with a `table` (Pass@1 by
    turn) and what it took, or with `all` tables.
    """
    from rich.text import Text

    stamp = f"{STAMP}: that every stage works is all it shows. " if results.get("smoke") else ""
    console.print()
    console.print(Text(stamp, style="yellow") + Text(headline(results), style="bold"), soft_wrap=True)
    if end == "line":
        return
    tables = run_tables(results)
    for name in tables if end == "all" else ("by_turn",):
        if name != "stages":
            console.print(on_terminal(tables[name]))
    training, evaluator = results["training"], results["evaluator"]
    text = (
        f"\nTook {results['wall_s'] / 60:.1f} min and at most {results['peak_memory_mib'] / 1024:.1f} GiB of "
        f"memory; {training['steps']} steps on {training['samples']:,} programs in {training['trainer']}; "
        f"{evaluator['tests']:,} tests run ({evaluator['isolation']}), {evaluator['infra_errors']} faults.\n"
        f"\nFiles: {out}/report.html (open it in a browser: all tables, example dialogues, the way to every "
        f"trajectory in {out}/report), {out}/results.json, each stage's rows in {out}\n"
    )
    console.print(Text(text), highlight=False, soft_wrap=True)


def on_terminal(given: Table) -> Any:
    """A table for a `rich` console; better and worse are coloured."""
    from rich import table
    from rich.console import Group
    from rich.text import Text

    made = table.Table(box=None, pad_edge=False, header_style="dim")
    for head in given.head:
        made.add_column(Text(head))
    for row, cells in enumerate(given.rows):
        styles = [_STYLES.get(given.tones.get((row, column), ""), "") for column in range(len(cells))]
        made.add_row(*map(Text, cells, styles))
    return Group(Text(f"\n{given.title}", style="bold"), made)
