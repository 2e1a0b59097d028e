"""The estimate: every stage of a workload, line by line, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cobalt.plan import basis, sampling
from cobalt.plan.arithmetic import Line, Sheet, number
from cobalt.plan.assumptions import Assumption, Assumptions
from cobalt.plan.basis import Plan, Stage
from cobalt.plan.devices import device
from cobalt.plan.files import files, single_processes
from cobalt.plan.training import Contexts, contexts, training
from cobalt.plan.workload import Workload

_UNITS = {
    "wall_h": "h", "gpu_h": "GPU h", "cpu_h": "CPU h", "prompt_tokens": "tokens",
    "completion_tokens": "tokens", "updated_tokens": "tokens", "reference_tokens": "tokens",
}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """What a workload takes: ``stages``, the ``arithmetic`` behind them, the assumptions ``used``.

    ``disk_gb`` of files that stay, in 10^9 bytes; ``usd`` of GPUs, evaluator cores, disk and providers.
    """

    workload: Workload
    stages: tuple[Stage, ...]
    arithmetic: tuple[Line, ...]
    used: tuple[Assumption, ...]
    disk_gb: float
    usd: float
    evaluator_cores: float

    def total(self, what: str) -> float:
        """The sum over stages of one of `Stage`'s numbers."""
        return float(sum(getattr(each, what) for each in self.stages))

    def lines(self) -> list[str]:
        """The plan for people: arithmetic by section, the table of stages, totals, assumptions used."""
        sources = ["" if row.source == "default" else f"  [{row.source}]" for row in self.used]
        used = [
            f"  {row.name} = {row.default:g} {row.unit}{source}"
            for row, source in zip(self.used, sources, strict=True)
        ]
        return [*by_section(self.arithmetic), *self.summary(), "", "assumptions used", *used]

    def summary(self) -> list[str]:
        """The table of stages and the totals."""
        work = self.workload
        where = f"{work.gpus} x {work.device}" if work.on_gpu else "the CPU profile"
        left_out = [f"  {name}: skipped ({why})" for name, why in work.skipped]
        head = f"{work.name}: {work.model.name} on {where}"
        return ["", head, *_table(self.stages), *left_out, "", *_totals(self)]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON."""
        totals = {name: self.total(name) for name in (*_UNITS, "completions", "usd")}
        totals |= {"disk_gb": self.disk_gb, "usd": self.usd, "evaluator_cores": self.evaluator_cores}
        return {
            "workload": asdict(self.workload),
            "stages": [asdict(each) for each in self.stages],
            "totals": totals,
            "arithmetic": [asdict(each) for each in self.arithmetic],
            "assumptions": [asdict(each) for each in self.used],
        }


def estimate(workload: Workload, assumptions: Assumptions | None = None) -> Estimate:
    """Work out a plan.

    Raises InputError for an unknown device or size, DoesNotFit (an InputError) if the model does not fit.
    """
    a = Assumptions((assumptions or Assumptions()).rows)
    plan = _plan(workload, a)
    done: list[Stage] = []
    for given in workload.sampling:
        done += sampling.sampling(plan, given)
    cut = contexts(plan, workload.context_tasks) if workload.context_tasks else Contexts(0, 0)
    steps: dict[str, float] = {}
    for each in workload.training:
        made, steps[each.name] = training(plan, each, cut)
        done.append(made)
    if workload.judged_cases:
        done.append(sampling.judging(plan, workload.judged_cases))
    disk_gb, jsonl = files(plan, cut, steps)
    done += single_processes(plan, cut, jsonl)
    usd = _money(plan, done, disk_gb)
    _sums(plan.sheet, done)
    lines, used = tuple(plan.sheet.lines), tuple(a.used.values())
    return Estimate(workload, tuple(done), lines, used, disk_gb, usd, plan.cores)


def _plan(work: Workload, a: Assumptions) -> Plan:
    """Devices and lengths."""
    limits = [each.max_tokens for each in work.sampling] + [each.response_tokens for each in work.training]
    longest = max(limits) + max([0, *(each.max_prompt_tokens for each in work.training)])
    share = work.memory_share or a["sampling.memory_share"]
    on = trainer = device(a, work.device, work.gpus, work.model, longest, share, work.tensor_parallel)
    if work.training:
        least = min(each.memory_share or a["sampling.training_memory_share"] for each in work.training)
        trainer = device(a, work.device, work.gpus, work.model, longest, least)
    plan = Plan(Sheet(a.__getitem__), a, work, on, trainer)
    basis.lengths(plan, limits)
    basis.evaluator(plan)
    return plan


def _money(plan: Plan, done: list[Stage], disk_gb: float) -> float:
    sheet, price = plan.sheet, plan.a[f"gpu.{plan.work.device}.price_h"]
    sheet.section = "money"
    gpu_h, cpu_h = (sum(getattr(each, what) for each in done) for what in ("gpu_h", "cpu_h"))
    sheet.put("GPUs", "GPU_h * price", "USD", GPU_h=gpu_h, price=price)
    sheet.put("evaluator", "CPU_h * price.cpu_core_h", "USD", CPU_h=cpu_h)
    sheet.put("disk", "GB * price.disk_gb_month * price.disk_months", "USD", GB=disk_gb)
    providers = sum(each.usd for each in done)
    return sheet.put("in all", "GPUs + evaluator + disk + providers", "USD", providers=providers)


def _sums(sheet: Sheet, done: list[Stage]) -> None:
    sheet.section = "in all"
    for what, unit in _UNITS.items():
        parts = {f"stage_{n}": getattr(each, what) for n, each in enumerate(done, 1) if getattr(each, what)}
        if parts:
            sheet.put(what.replace("_", " "), " + ".join(parts), unit, **parts)
            # The names of the stages say less than the numbers.
            sheet.lines[-1] = replace(sheet.lines[-1], formula="sum over stages")


def by_section(lines: Sequence[Line]) -> Iterator[str]:
    """Lines by section, each under its title."""
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            yield from ("", section)
        yield str(line)


def _table(done: tuple[Stage, ...]) -> Iterator[str]:
    width = max(len(each.name) for each in done)
    yield (
        f"  {'stage':<{width}} {'completions':>12} {'prompt Mtok':>12} {'compl. Mtok':>12} {'GPU h':>9} "
        f"{'CPU h':>9} {'wall h':>9}"
    )
    for each in done:
        yield (
            f"  {each.name:<{width}} {each.completions:>12,.0f} {each.prompt_tokens / 1e6:>12,.2f} "
            f"{each.completion_tokens / 1e6:>12,.2f} {each.gpu_h:>9,.2f} {each.cpu_h:>9,.2f} "
            f"{each.wall_h:>9,.3f}"
        )


def _totals(found: Estimate) -> Iterator[str]:
    def total(what: str, scale: float = 1.0) -> str:
        return number(found.total(what) / scale)

    made = total("completion_tokens", 1e6)
    yield f"  tokens: {total('prompt_tokens', 1e6)} M of prompts, {made} M of completions"
    yield (
        f"  and again in training: {total('updated_tokens', 1e6)} M in updates, "
        f"{total('reference_tokens', 1e6)} M for log-probabilities"
    )
    yield f"  programs: {total('cpu_h')} CPU hours on {number(found.evaluator_cores)} cores"
    yield f"  GPUs: {total('gpu_h')} GPU hours ({found.workload.device})"
    yield f"  wall time: {total('wall_h')} h, one stage after the other"
    yield f"  disk: {number(found.disk_gb)} GB"
    yield f"  money: {found.usd:,.2f} USD, of which providers {found.total('usd'):,.2f}"
