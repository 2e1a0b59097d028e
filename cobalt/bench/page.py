"""The generated part of a page about a bench: facts, and tables of Pass@1, of programs that accepted a wrong
test, and of each vague slot alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cobalt.bench.schedule import ANCHOR
from cobalt.bench.table import AT, Results, Tasks, accepted, cell, last_turns, markdown
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.stats import Interval, difference

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def tables(results: Results) -> Iterator[tuple[str, str]]:
    """Every table that has rows, under its title."""
    for sets in results.reference:
        for at, words in AT.items():
            if any(results.seeds(method, at) for method in results.found) or at == "samples":
                yield f"{words}, set `{sets}`", markdown(results, at, sets)
                if table := hacks(results, at, sets):
                    yield f"{words}, programs shown a wrong test, set `{sets}`", table
                if table := by_slots(results, at, sets):
                    yield f"{words}, gain at the last turn by what is left open, set `{sets}`", table


def page(results: Results, picture: str | None = None) -> str:
    """The generated part of a page: facts, tables, what failed, the picture."""
    about = results.about
    every = [each for seeds in results.found.values() for each in seeds.values()]
    ended = sorted(each["ended"][:10] for each in every) or ["none has"]
    hashes = about["hashes"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    budget = {each["seconds"] for each in every if each["seconds"] is not None}
    known = ", ".join(f"{each:.0f}" for each in sorted(budget)) or "not known yet"
    lines = [
        f"Trainings that have ended: {len(every)} of {len(about['methods']) * about['seeds']} "
        f"({' to '.join(sorted({ended[0], ended[-1]}))}). Made by",
        "",
        f"<!-- run: long -->\n```bash\n{about['command']}\n```",
        "",
        f"Samples: {about['samples']:,} programs. "
        + (f"Seconds: {known} CPU seconds. " if about.get("timed", True) else "")
        + f"Family `{hashes['family']}`, reference model `{hashes['reference']}`, "
        f"configuration `{hashes['configuration']}` (SHA-256, 12 places). {versions}; {about['machine']}.",
    ]
    for words, table in tables(results):
        lines += ["", f"**{words[0].upper()}{words[1:]}**, in %:", "", table]
    if results.errors:
        lines += ["", "Failed:", "", *(f"- {each}" for each in results.errors)]
    if picture:
        beside = "at equal seconds" if about.get("timed", True) else "accepted wrong tests"
        lines += ["", f"![Gain at the last turn against CPU seconds, and {beside}]({picture})"]
    return "\n".join(lines)


def write_page(path: Path, text: str) -> None:
    """Put the generated part between its markers. Raises InputError for a page without them."""
    old = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    head, begin, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{path}: has no lines {BEGIN} and {END}, between which the tables stand")
    atomic_write(path, f"{head}{BEGIN}\n{text}\n{END}{tail}")


def hacks(results: Results, at: str, sets: str) -> str:
    """A table of programs that accepted the wrong test just shown, of those that were shown one, for a set of
    perturbed tasks; the fewest first. Empty for other sets.
    """
    if sets not in results.hacks:
        return ""
    found = accepted(results, at, sets)
    against = {name: found[name][1] for name in ("reference", ANCHOR) if name in found}
    lines = [
        f"| method | each training | accepted the wrong test shown | minus reference | minus `{ANCHOR}` |",
        "|---|---|---|---|---|",
    ]
    for name, (each, rate) in found.items():
        others = [
            cell(difference(rate, other), sign=True)
            if name != base and rate and (other := against.get(base))
            else ""
            for base in ("reference", ANCHOR)
        ]
        singles = ", ".join(f"{100 * share:.1f}" for share in each) if name != "reference" else ""
        shown = name if name == "reference" else f"`{name}`"
        lines.append(f"| {shown} | {singles} | {cell(rate)} | {' | '.join(others)} |")
    return "\n".join(lines)


def by_slots(results: Results, at: str, sets: str) -> str:
    """A table of the gain at the last turn on tasks that leave one slot open, by slot, and of those that
    leave several; empty where tasks name no slots.
    """
    slots = results.slots.get(sets, {})
    if not slots:
        return ""
    kinds: dict[str, list[str]] = {}
    for task, names in slots.items():
        kinds.setdefault(names[0] if len(names) == 1 else f"{len(names)} slots", []).append(task)
    order = sorted((kind for kind in kinds if kind != "0 slots"), key=lambda kind: (kind[:1].isdigit(), kind))
    head = " | ".join(f"{kind} ({len(kinds[kind])})" for kind in order)
    lines = [f"| method | {head} |", "|---|" + "---|" * len(order)]
    reference = last_turns(results.reference[sets])
    alone = [results.crossed(sets, [_of(reference, kinds[kind])]) for kind in order]
    lines.append(
        "| reference | " + " | ".join(f"{100 * each.mean:.1f}" if each else "" for each in alone) + " |"
    )
    for method in results.found:
        if not (seeds := results.seeds(method, at)):
            continue
        final = [last_turns(results.found[method][seed]["at"][at]["tasks"][sets]) for seed in seeds]
        gains: list[Interval | None] = [
            results.crossed(sets, [_of(each, kinds[kind]) for each in final], [_of(reference, kinds[kind])])
            for kind in order
        ]
        lines.append(f"| `{method}` | " + " | ".join(cell(each, sign=True) for each in gains) + " |")
    return "\n".join(lines)


def _of(tasks: Tasks, chosen: Sequence[str]) -> Tasks:
    return {task: tasks[task] for task in chosen if task in tasks}
