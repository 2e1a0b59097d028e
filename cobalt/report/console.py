"""The result on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from cobalt.report.words import (
    control_name,
    headline,
    interval,
    percent,
    points,
    slot_name,
    trained_name,
    verdict,
)

_STYLES = {"better": "bold green", "worse": "bold red", "unclear": "yellow"}


def show(results: Mapping[str, Any], out: Path, console: Console, *, dialogues: bool = True) -> None:
    """Print headline, tables, example dialogues, files and what to try next."""
    console.print()
    console.print(Text(headline(results), style="bold"), soft_wrap=True)
    console.print(by_turn(results))
    if results["slots"]:
        console.print(by_slot(results))
    if results["controls"]:
        console.print(controls(results))
    console.print(behaviour(results), highlight=False)
    if dialogues:
        for example in results["examples"]:
            console.print(dialogue(example))
    console.print(closing(results, out), highlight=False, soft_wrap=True)


def by_turn(results: Mapping[str, Any]) -> Table:
    """Pass@1 by turn: reference, trained model, difference by task and by structure."""
    size = f"{results['tasks']} held-out tasks x {results['samples_per_task']} samples"
    table = _table(f"Pass@1 by turn, % ({size})")
    table.add_column("turn", justify="right")
    table.add_column("reference")
    table.add_column(trained_name(results))
    table.add_column(Text("difference [95 % by task]"))
    table.add_column(Text(f"[by {results['n_structures']} structures]"))
    for turn, gain in enumerate(results["gain_by_turn"]):
        cells = [
            f"{percent(results['pass_at_1'][name][turn])} {interval(results['ci95'][name][turn], 100)}"
            for name in ("reference", "cobalt")
        ]
        last = turn == results["turns"] - 1
        table.add_row(
            str(turn + 1), *map(Text, cells), Text(points(gain), style=_STYLES[verdict(gain)]),
            Text(interval(gain["ci95_by_structure"], sign=True)), style="bold" if last else "",
        )  # fmt: skip
    return table


def by_slot(results: Mapping[str, Any]) -> Table:
    """Last turn by what the statement leaves vague."""
    table = _table(f"What it learned: turn {results['turns']} by what the statement leaves vague, %")
    table.add_column("tasks with")
    table.add_column("n", justify="right")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_column(Text("difference [95 % by task]"))
    table.add_column(Text("[by structure]"))
    for row in results["slots"]:
        table.add_row(
            slot_name(row), str(row["n"]), percent(row["before"]), percent(row["after"]),
            Text(points(row), style=_STYLES[verdict(row)]),
            Text(interval(row["ci95_by_structure"], sign=True)),
        )  # fmt: skip
    return table


def controls(results: Mapping[str, Any]) -> Table:
    """Controls at the last turn."""
    turn = results["turns"]
    table = _table(f"Controls at turn {turn}, %")
    table.add_column("")
    table.add_column("Pass@1")
    table.add_column(Text("minus reference [95 % by task]"))
    table.add_column(f"{trained_name(results)} has more")
    for name, row in results["controls"].items():
        table.add_row(
            control_name(name, turn),
            Text(f"{percent(row['pass_at_1'][-1])} {interval(row['ci95'][-1], 100)}"),
            Text(points(row["minus_reference"])), Text(points(row["cobalt_minus"])),
        )  # fmt: skip
    return table


def behaviour(results: Mapping[str, Any]) -> Text:
    """How answers change from one turn to the next, before and after."""
    lines = []
    for key, words in (("right_to_wrong", "right, then wrong"), ("wrong_to_right", "wrong, then right")):
        rates = [percent(results["behaviour"][name][key]["rate"]) for name in ("reference", "cobalt")]
        lines.append(f"{words}: {rates[0]} % of steps before, {rates[1]} % after")
    return Text("From one turn to the next: " + "; ".join(lines) + ".")


def dialogue(example: Mapping[str, Any]) -> Panel:
    """One task, the reference's dialogue beside the trained model's."""
    columns = Table.grid(expand=True, padding=(0, 2))
    columns.add_column(ratio=1)
    columns.add_column(ratio=1)
    columns.add_row(Text("before", style="bold"), Text("after training", style="bold"))
    for turn, (old, new) in enumerate(zip(example["before"], example["after"], strict=True), start=1):
        columns.add_row(_turn(turn, old), _turn(turn, new))
    vague = ", ".join(example["slots"]) or "nothing"
    title = f"{example['rule']} ({example['fits']} of {example['tasks']} tasks)"
    head = Text(f"{example['instruction']}\n", style="italic")
    foot = f"{example['id']}, vague: {vague}"
    return Panel(Group(head, columns), title=title, subtitle=foot, title_align="left")


def _turn(number: int, turn: Mapping[str, Any]) -> Group:
    right = turn["hidden"] == 1
    mark = Text(f"turn {number}: ", style="dim")
    mark.append(
        "right" if right else f"wrong ({percent(turn['hidden'])} % of hidden tests)",
        style="green" if right else "red",
    )
    code: Text | Syntax = Text("(no code block)")
    if turn["code"] is not None:
        code = Syntax(turn["code"], "python", theme="ansi_dark", background_color="default", word_wrap=True)
    # Labels stand on lines of their own in the feedback; here they share one with their value.
    said = "all public tests passed" if turn["feedback"] is None else turn["feedback"].replace(":\n", ": ")
    return Group(mark, code, Text(said + "\n", style="dim"))


def closing(results: Mapping[str, Any], out: Path) -> Text:
    """Cost, files and what to try next."""
    training, evaluator = results["training"], results["evaluator"]
    seed, task_seed = results["seed"], results["task_seed"]
    memory = results["peak_memory_mib"] / 1024
    demo = results.get("family_hash") and not results.get("smoke")
    next_ = (
        f"\nTo try next:\n"
        f"  make demo SEED={seed + 1} OUT={out}-seed{seed + 1}  another seed for sampling and training\n"
        f"  make demo TASK_SEED={task_seed + 1} OUT={out}-tasks{task_seed + 1}  other tasks\n"
        f"  edit configs/tiny.yaml, then make demo OUT=...  other settings (docs/reproduce.md)\n"
    )
    return Text(
        f"\nTook {results['wall_s'] / 60:.1f} min and at most {memory:.1f} GiB of memory; "
        f"{training['trainer']} trained {training['steps']} steps on {training['samples']:,} programs; "
        f"{evaluator['tests']:,} tests run ({evaluator['isolation']}), {evaluator['infra_errors']} faults.\n"
        f"\nFiles: {out}/report.html (open it in a browser; it leads to every trajectory in {out}/report), "
        f"{out}/results.json, each stage's rows in {out}\n" + (next_ if demo else "")
    )


def _table(title: str) -> Table:
    words = Text(f"\n{title}", style="bold", no_wrap=True)
    table = Table(title=words, title_justify="left", box=None, pad_edge=False)
    table.header_style = "dim"
    return table
