"""Which stages of a run are asked for (`--from`, `--until`, `--only`), and what each would do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from cobalt.errors import InputError
from cobalt.run.stage_cache import Records, Shared, Stage

ALIASES = {"tasks": "data"}
KNOWN = (
    "data", "collect", "repair", "judge", "contexts", "ptb_contexts", "parquet", "train", "train_single",
    "evaluate", "perturb", "hack_analysis", "controls", "report",
)  # fmt: skip


def select_stages(
    stages: Sequence[Stage], begin: str | None, end: str | None, only: str | None
) -> tuple[str, ...] | None:
    """Names of the stages from `begin` until `end`, or `only` one; None for all of them.

    Raises InputError for a name that is no stage of this run.
    """
    if only is not None:
        if begin is not None or end is not None:
            raise InputError("--only goes with neither --from nor --until")
        begin = end = only
    if begin is None and end is None:
        return None
    names = [stage.name for stage in stages]
    first = 0 if begin is None else _place(begin, names)
    last = len(names) - 1 if end is None else _place(end, names)
    if first > last:
        raise InputError(f"--from {begin} --until {end}: {names[first]} comes after {names[last]}")
    return tuple(names[first : last + 1])


def _place(given: str, names: Sequence[str]) -> int:
    name = given.replace("-", "_")
    name = ALIASES.get(name, name)
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=1)
    advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    if name in KNOWN:
        raise InputError(f"stage {name} is not part of this configuration; {advice}")
    raise InputError(f"there is no stage '{given}'; {advice}")


def check_earlier(stages: Sequence[Stage], chosen: Sequence[str], records: Records) -> None:
    """Raises InputError unless the stages that the chosen ones build on are done and unchanged."""
    needed = set(chosen)
    for stage in reversed(stages):  # a stage reads only what stands before it
        if any(stage.name != each.name and each.name in needed and each.needs(stage) for each in stages):
            needed.add(stage.name)
    for stage in stages:
        why = records.why(stage) if stage.name in needed and stage.name not in chosen else None
        if why is not None:
            raise InputError(
                f"{chosen[0]} builds on stage {stage.name}, which must run first ({why}); run it with "
                f"--from {stage.name}, or leave --from and --only out"
            )


def stage_lines(
    stages: Sequence[Stage], records: Records, only: Collection[str] | None, shared: Shared
) -> list[str]:
    """A line for each stage: runs, is kept, is taken over or is not asked for, and why."""
    width = max(len(stage.name) for stage in stages)
    lines, to_run, taken = [], list[Stage](), list[Stage]()
    for stage in stages:
        again = next((other.name for other in to_run if stage.needs(other)), None)
        open_ = next((other.name for other in taken if stage.needs(other)), None)
        why = f"after {again}" if again else records.why(stage)
        if only is not None and stage.name not in only:
            said = "not asked for"
        elif why is None:
            said = "kept, nothing has changed"
        elif open_ and not again:
            said = f"runs or is taken over, as {open_}"
            taken.append(stage)
        elif not again and records.has_shared(stage, shared):
            said = "taken over from another run"
            taken.append(stage)
        else:
            said = f"runs ({why})"
            to_run.append(stage)
        lines.append(f"  {stage.name:<{width}}  {said}")
    return lines
