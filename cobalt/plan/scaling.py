"""Other sizes and devices: what changes with 10 and 100 times the data, and where each part saturates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cobalt.errors import InputError
from cobalt.plan.arithmetic import Sheet, number
from cobalt.plan.assumptions import GPUS, Assumptions
from cobalt.plan.devices import DoesNotFit
from cobalt.plan.estimate import Estimate, estimate
from cobalt.plan.models import KNOWN, SIZES
from cobalt.plan.workload import Workload

_ROWS: list[tuple[str, str, Callable[[Estimate], float]]] = [
    ("prompt tokens", "M", lambda found: found.total("prompt_tokens") / 1e6),
    ("completion tokens", "M", lambda found: found.total("completion_tokens") / 1e6),
    ("GPUs", "GPU h", lambda found: found.total("gpu_h")),
    ("programs", "CPU h", lambda found: found.total("cpu_h")),
    ("wall time", "h", lambda found: found.total("wall_h")),
    ("disk", "GB", lambda found: found.disk_gb),
    ("money", "USD", lambda found: found.usd),
]


def scales(work: Workload, a: Assumptions, factors: Sequence[float]) -> list[Estimate]:
    """The plan at each multiple of the training data."""
    return [estimate(work.scaled(factor), a) for factor in factors]


def table(found: Sequence[Estimate], factors: Sequence[float]) -> list[str]:
    """The totals side by side."""
    lines = [f"  {'training data':<20}{'':<7}" + "".join(f"{f'x {factor:g}':>16}" for factor in factors)]
    for name, unit, value in _ROWS:
        lines.append(f"  {name:<20}{unit:<7}" + "".join(f"{value(each):>16,.2f}" for each in found))
    return lines


def saturation(found: Sequence[Estimate], factors: Sequence[float], a: Assumptions) -> Sheet:
    """Where each part ends, and what it needs at each multiple for the wall time of the first."""
    sheet, base = Sheet(a.__getitem__), found[0]
    if base.workload.on_gpu:
        _one_size(sheet, base)
        parts = (("gpu_h", "GPUs", base.workload.gpus), ("cpu_h", "cores", base.evaluator_cores))
        for what, unit, held in parts:
            sheet.section = f"{unit} for the wall time of the first, if all parts shared them evenly"
            for each, factor in zip(found, factors, strict=True):
                if base.total(what):
                    hours = {"hours": each.total(what), "hours_of_the_first": base.total(what)}
                    formula = f"{unit} * hours / hours_of_the_first"
                    sheet.put(f"x {factor:g}", formula, unit, **hours, **{unit: held})
    for each, factor in zip(found, factors, strict=True):
        sheet.section = "disk"
        sheet.put(f"x {factor:g}: volumes", "ceil(disk_gb / disk.volume_gb)", "volumes", each)
    sheet.section = "parts that are one process (share of the first wall time)"
    for each, factor in zip(found, factors, strict=True):
        for stage in each.stages:
            if stage.name in ("contexts", "parquet", "report"):
                hours = {"hours": stage.wall_h, "wall_h": base.total("wall_h")}
                sheet.put(f"x {factor:g}: {stage.name}", "100 * hours / wall_h", "%", **hours)
    sheet.section = "memory (contexts, Parquet and the runners read row by row: theirs does not grow)"
    sheet.put("programs", "evaluator_cores * evaluator.memory_gib", "GiB", base)
    return sheet


def _one_size(sheet: Sheet, base: Estimate) -> None:
    """What more data does not change: how busy the evaluator is, useful replicas, the shortest step."""
    work = base.workload

    def line(section: str, name: str) -> float | None:
        return next((x.value for x in base.arithmetic if (x.section, x.name) == (section, name)), None)

    sheet.section = "evaluator cores: busy while sampling, the same at any size"
    for stage in base.stages:
        if stage.cpu_h and stage.gpu_h:
            formula = "100 * cpu_h / (wall_h * evaluator_cores)"
            sheet.put(stage.name, formula, "% of them", stage, base)
    sheet.section = "inference replicas that a stage can keep full"
    for given in work.sampling:
        batch = line(given.name, "sequences at once of a replica")
        if batch is not None:
            sheet.put(given.name, "dialogues / sequences_at_once", "replicas", given, sequences_at_once=batch)
    sheet.section = "training GPUs: a step is never shorter than its longest response"
    for each in (each for each in work.training if not each.offline):
        step, steps = line(each.name, "a step"), line(each.name, "steps")
        assert step is not None and steps is not None
        formula = (
            "turns * response_tokens * (params_b * sampling.weight_bytes / (bandwidth * "
            "sampling.bandwidth_share) + sampling.step_ms / 1000) + training.step_s"
        )
        bandwidth = sheet.assumed(f"gpu.{work.device}.bandwidth_gb_s")
        name = f"{each.name}: shortest step"
        least = sheet.put(name, formula, "s", each, work.model, bandwidth=bandwidth)
        name = f"{each.name}: GPUs with which that is half of a step"
        sheet.put(name, "gpus * max(0, step - least) / least", "GPUs", work, step=step, least=least)
        name = f"{each.name}: hours that no number of GPUs undercuts"
        sheet.put(name, "steps * least / 3600", "h", steps=steps, least=least)


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
