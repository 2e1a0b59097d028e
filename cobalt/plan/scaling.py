"""The same plan at other amounts of data and on other devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from cobalt.errors import InputError
from cobalt.plan.arithmetic import number
from cobalt.plan.assumptions import GPUS, Assumptions
from cobalt.plan.devices import DoesNotFit
from cobalt.plan.estimate import Estimate, estimate
from cobalt.plan.models import KNOWN, SIZES
from cobalt.plan.workload import Workload

_ONE_PROCESS = ("contexts", "parquet", "report")
# (what, unit, value of a plan and of that at the first amount of data)
_ROWS: list[tuple[str, str, Callable[[Estimate, Estimate], float]]] = [
    ("prompt tokens", "M", lambda found, _: found.total("prompt_tokens") / 1e6),
    ("completion tokens", "M", lambda found, _: found.total("completion_tokens") / 1e6),
    ("GPUs", "GPU h", lambda found, _: found.total("gpu_h")),
    ("programs", "CPU h", lambda found, _: found.total("cpu_h")),
    ("wall time", "h", lambda found, _: found.total("wall_h")),
    ("of it one process", "h", lambda found, _: _hours(found, _ONE_PROCESS)),
    ("disk", "GB", lambda found, _: found.disk_gb),
    ("money", "USD", lambda found, _: found.usd),
    ("in the first's time", "GPUs", lambda found, first: first.workload.gpus * _times(found, first, "gpu_h")),
    (
        "in the first's time",
        "cores",
        lambda found, first: first.evaluator_cores * _times(found, first, "cpu_h"),
    ),
]


def _hours(found: Estimate, names: Sequence[str]) -> float:
    return math.fsum(stage.wall_h for stage in found.stages if stage.name in names)


def _times(found: Estimate, first: Estimate, what: str) -> float:
    return found.total(what) / (first.total(what) or 1.0)


def scales(work: Workload, a: Assumptions, factors: Sequence[float]) -> list[Estimate]:
    """The plan at each multiple of the training data."""
    return [estimate(work.scaled(factor), a) for factor in factors]


def table(found: Sequence[Estimate], factors: Sequence[float]) -> list[str]:
    """The totals side by side, and the GPUs and cores that would do the work in the first one's wall time."""
    lines = [f"  {'training data':<20}{'':<7}" + "".join(f"{f'x {factor:g}':>16}" for factor in factors)]
    for name, unit, value in _ROWS:
        cells = "".join(f"{value(each, found[0]):>16,.2f}" for each in found)
        lines.append(f"  {name:<20}{unit:<7}{cells}")
    return lines


def devices(work: Workload, a: Assumptions) -> list[str]:
    """GPU hours of the same run by model size and GPU kind; "-" where a model does not fit.

    Raises InputError if a measured rate stands for sampling.
    """
    if a.rows["sampling.measured_tokens_per_s"].default:
        raise InputError("a measured rate is that of one device and model, and cannot compare several")
    names = list(dict.fromkeys([work.model.name, *SIZES]))
    models = [work.model if name == work.model.name else KNOWN[name] for name in names]
    models.sort(key=lambda model: model.params_b)
    width = max(len(model.name) for model in models)
    lines = [f"  {f'on {work.gpus} of':<{width}}" + "".join(f"{kind:>14}" for kind in GPUS)]
    for model in models:
        cells = []
        for kind in GPUS:
            try:
                hours = estimate(replace(work, model=model, device=kind), a).total("gpu_h")
                cells.append(number(round(hours, 1 if hours < 100 else 0)))
            except DoesNotFit:
                cells.append("-")
        lines.append(f"  {model.name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    return lines
