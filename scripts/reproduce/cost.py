"""What several runs cost together, as `cobalt plan` works it out for each; stages that they share count once.

python scripts/reproduce/cost.py 'CONFIG [SECTION.KEY=VALUE ...]' ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cobalt.cli import parser, run_main
from cobalt.config.load import load
from cobalt.plan.estimate import Estimate, estimate
from cobalt.plan.from_config import workload

_SHARED = ("collect", "repair")  # stages that runs of equal settings take over from each other


def estimates(runs: Sequence[str]) -> Iterator[Estimate]:
    """A plan for each distinct run. The reference is evaluated, and collects, once for all runs of a file."""
    seen: set[str] = set()
    for run in dict.fromkeys(" ".join(each.split()) for each in runs):
        name, *settings = run.split()
        work = workload(load(Path(name), settings), Path(name))
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
        for stage in found.stages:
            key = (found.workload.model.name, stage)
            if not (number and stage.name.startswith(_SHARED) and key in known):
                kind = found.workload.device
                hours[kind] = hours.get(kind, 0.0) + stage.gpu_h
            known.add(key)
        disk += found.disk_gb
    said = ", ".join(f"{_round(value)} GPU hours ({kind})" for kind, value in hours.items())
    return f"{said}, {_round(disk)} GB of disk"


def _round(value: float) -> str:
    return f"{round(value, -1 if value >= 100 else 0):,.0f}"


def main(argv: list[str] | None = None) -> int:
    """Print the line; returns the exit code."""
    flags = parser("What several runs cost together, as `cobalt plan` works it out for each.")
    flags.add_argument("runs", nargs="+", help="'CONFIG [SECTION.KEY=VALUE ...]'")
    print(line(flags.parse_args(argv).runs))
    return 0


if __name__ == "__main__":
    run_main(main)
