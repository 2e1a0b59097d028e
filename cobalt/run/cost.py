"""What several runs cost together: `python -m cobalt.run.cost 'CONFIG [SECTION.KEY=VALUE ...]' ...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.cli import parser, run_main
from cobalt.run.config import load

if TYPE_CHECKING:
    from cobalt.planning.estimate import Estimate

_SHARED = ("collect", "repair")  # stages that runs of equal settings take over from each other


def estimates(runs: Sequence[str]) -> Iterator[Estimate]:
    """A plan for each distinct run. The reference is evaluated, and collects, once for all runs of a file."""
    from cobalt.planning.estimate import estimate
    from cobalt.planning.from_config import workload

    seen: set[str] = set()
    for run in dict.fromkeys(" ".join(each.split()) for each in runs):
        name, *settings = run.split()
        path = Path(name)
        work = workload(load(path, settings), path)
        if name in seen:
            fewer = (
                replace(each, models=each.models - 1) if each.models > 1 else each for each in work.sampling
            )
            work = replace(work, sampling=tuple(fewer))
        seen.add(name)
        yield estimate(work)


def line(runs: Sequence[str]) -> str:
    """GPU hours and disk of all runs, what they share counted once."""
    hours: dict[str, float] = {}
    known: set[tuple[str, object]] = set()
    disk = 0.0
    for number, found in enumerate(estimates(runs)):
        model = found.workload.model.name
        for stage in found.stages:
            key = (model, stage)
            if not (number and stage.name.startswith(_SHARED) and key in known):
                kind = found.workload.device
                hours[kind] = hours.get(kind, 0.0) + stage.gpu_h
            known.add(key)
        disk += found.disk_gb
    said = ", ".join(f"{round(value, -1 if value >= 100 else 0):,.0f} GPU hours ({kind})"
                     for kind, value in hours.items())  # fmt: skip
    return f"{said}, {round(disk, -1 if disk >= 100 else 0):,.0f} GB of disk"


def main(argv: list[str] | None = None) -> int:
    """Print the line; returns the exit code."""
    flags = parser("What several runs cost together, as `cobalt plan` works it out for each.")
    flags.add_argument("runs", nargs="+", help="'CONFIG [SECTION.KEY=VALUE ...]'")
    print(line(flags.parse_args(argv).runs))
    return 0


if __name__ == "__main__":
    run_main(main)
