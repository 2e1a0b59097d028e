"""Other sizes and devices: what changes with 10 and 100 times the data, and where each part saturates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cobalt.errors import InputError
from cobalt.planning.arithmetic import Sheet, number
from cobalt.planning.assumptions import GPUS, Assumptions
from cobalt.planning.devices import DoesNotFit
from cobalt.planning.estimate import Estimate, estimate
from cobalt.planning.models import KNOWN, SIZES
from cobalt.planning.workload import Workload

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
    sheet, base = Sheet(), found[0]
    if base.workload.on_gpu:
        _evaluator(sheet, base)
        _inference(sheet, base)
        _training(sheet, base, a)
        _same_time(sheet, found, factors)
    sheet.section = "disk"
    for each, factor in zip(found, factors, strict=True):
        sheet.put(
            f"x {factor:g}: volumes", "ceil(GB / volume_GB)", "volumes", GB=each.disk_gb,
            volume_GB=a["disk.volume_gb"],
        )  # fmt: skip
    sheet.section = "parts that are one process (share of the first wall time)"
    for each, factor in zip(found, factors, strict=True):
        for stage in each.stages:
            if stage.name in ("contexts", "parquet", "report"):
                sheet.put(
                    f"x {factor:g}: {stage.name}", "100 * hours / wall_h", "%", hours=stage.wall_h,
                    wall_h=base.total("wall_h"),
                )  # fmt: skip
    sheet.section = "memory (contexts, Parquet and the runners read row by row: theirs does not grow)"
    sheet.put("programs", "cores * GiB", "GiB", cores=base.evaluator_cores, GiB=a["evaluator.memory_gib"])
    return sheet


def _evaluator(sheet: Sheet, base: Estimate) -> None:
    sheet.section = "evaluator cores: busy while sampling, the same at any size"
    for each in base.stages:
        if each.cpu_h and each.gpu_h:
            sheet.put(
                each.name, "100 * CPU_h / (wall_h * cores)", "% of them", CPU_h=each.cpu_h,
                wall_h=each.wall_h, cores=base.evaluator_cores,
            )  # fmt: skip


def _inference(sheet: Sheet, base: Estimate) -> None:
    sheet.section = "inference replicas that a stage can keep full"
    for given in base.workload.sampling:
        lines = _lines(base, given.name)
        if "sequences at once of a replica" in lines:
            sheet.put(
                given.name, "dialogues / sequences_at_once", "replicas", dialogues=lines["dialogues"],
                sequences_at_once=lines["sequences at once of a replica"],
            )  # fmt: skip


def _training(sheet: Sheet, base: Estimate, a: Assumptions) -> None:
    sheet.section = "training GPUs: a step is never shorter than its longest response"
    work = base.workload
    for given in work.training:
        if given.offline:
            continue
        lines = _lines(base, given.name)
        least = sheet.put(
            f"{given.name}: shortest step",
            "turns * longest * (params_B * weight_bytes / (GB_per_s * reached) + step_ms / 1000) + rest", "s",
            turns=given.turns, longest=given.response_tokens, params_B=work.model.params_b,
            weight_bytes=a["sampling.weight_bytes"], GB_per_s=a[f"gpu.{work.device}.bandwidth_gb_s"],
            reached=a["sampling.bandwidth_share"], step_ms=a["sampling.step_ms"], rest=a["training.step_s"],
        )  # fmt: skip
        sheet.put(
            f"{given.name}: GPUs with which that is half of a step", "gpus * max(0, step - least) / least",
            "GPUs", gpus=work.gpus, step=lines["a step"], least=least,
        )  # fmt: skip
        sheet.put(
            f"{given.name}: hours that no number of GPUs undercuts", "steps * least / 3600", "h",
            steps=lines["steps"], least=least,
        )  # fmt: skip


def _same_time(sheet: Sheet, found: Sequence[Estimate], factors: Sequence[float]) -> None:
    base = found[0]
    for what, unit, held in (("gpu_h", "GPUs", base.workload.gpus), ("cpu_h", "cores", base.evaluator_cores)):
        sheet.section = f"{unit} for the wall time of the first, if all parts shared them evenly"
        for each, factor in zip(found, factors, strict=True):
            if base.total(what):
                sheet.put(
                    f"x {factor:g}", f"{unit} * hours / hours_of_the_first", unit,
                    **{unit: held, "hours": each.total(what), "hours_of_the_first": base.total(what)},
                )  # fmt: skip


def _lines(found: Estimate, section: str) -> dict[str, float]:
    return {line.name: line.value for line in found.arithmetic if line.section == section}


def devices(work: Workload, a: Assumptions) -> list[str]:
    """GPU hours of the same run by model size and GPU kind; "-" where a model does not fit.

    Raises InputError if a measured rate stands for sampling.
    """
    if a.rows["sampling.measured_tokens_per_s"].value:
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
