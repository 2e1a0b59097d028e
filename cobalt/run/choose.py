"""Which stages of a run are asked for: `--from`, `--until`, `--only`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from cobalt.errors import InputError
from cobalt.run.stage import Records, Stage

ALIASES = {"tasks": "data"}
KNOWN = (
    "data", "collect", "repair", "judge", "contexts", "ptb_contexts", "parquet", "train", "train_single",
    "evaluate", "perturb", "hack_analysis", "controls", "report",
)  # fmt: skip


def choose(
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
    by_name = {stage.name: stage for stage in stages}
    pending, needed = [by_name[name] for name in chosen], dict[str, Stage]()
    while pending:
        stage = pending.pop()
        for other in stages:
            if stage.needs(other) and other.name not in chosen and other.name not in needed:
                needed[other.name] = other
                pending.append(other)
    for stage in stages:
        why = records.why(stage) if stage.name in needed else None
        if why is not None:
            raise InputError(
                f"{chosen[0]} builds on stage {stage.name}, which must run first ({why}); run it with "
                f"--from {stage.name}, or leave --from and --only out"
            )
