"""The estimate: every stage of a workload, line by line, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cobalt.planning import stages
from cobalt.planning.arithmetic import Line, Sheet, number
from cobalt.planning.assumptions import Assumption, Assumptions
from cobalt.planning.devices import device
from cobalt.planning.disk import files, single_processes
from cobalt.planning.lengths import prompts, response
from cobalt.planning.stages import Plan, Stage
from cobalt.planning.training import Contexts, contexts, training
from cobalt.planning.workload import Workload

_SUMMED = (
    "wall_h", "gpu_h", "cpu_h", "completions", "prompt_tokens", "completion_tokens", "updated_tokens",
    "reference_tokens", "usd",
)  # fmt: skip


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
        """The sum over stages of one of `Stage`'s numbers. Raises KeyError for another name."""
        if what not in _SUMMED:
            raise KeyError(what)
        return float(sum(getattr(each, what) for each in self.stages))

    @property
    def tokens(self) -> float:
        """Prompt and completion tokens of all stages; updates are of the same tokens again."""
        return self.total("prompt_tokens") + self.total("completion_tokens")

    def lines(self) -> list[str]:
        """The plan for people: arithmetic by section, the table of stages, totals, assumptions used."""
        return [
            *arithmetic(self.arithmetic),
            *self.summary(),
            "",
            "assumptions used",
            *_assumptions(self.used),
        ]

    def summary(self) -> list[str]:
        """The table of stages and the totals."""
        work = self.workload
        where = f"{work.gpus} x {work.device}" if work.on_gpu else "the CPU profile"
        left_out = [f"  {name}: skipped ({why})" for name, why in work.skipped]
        head = f"{work.name}: {work.model.name} on {where}"
        return ["", head, *_table(self.stages), *left_out, "", *_totals(self)]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "workload": asdict(self.workload),
            "stages": [asdict(each) for each in self.stages],
            "totals": {name: self.total(name) for name in _SUMMED}
            | {"disk_gb": self.disk_gb, "usd": self.usd, "evaluator_cores": self.evaluator_cores},
            "arithmetic": [asdict(each) for each in self.arithmetic],
            "assumptions": [asdict(each) for each in self.used],
        }


def estimate(workload: Workload, assumptions: Assumptions | None = None) -> Estimate:
    """Work out a plan.

    Raises InputError for an unknown device or size, DoesNotFit (an InputError) if the model does not fit.
    """
    a = (assumptions or Assumptions()).fresh()
    plan = _shared(workload, a)
    sheet = plan.sheet
    stages.evaluator(plan)
    done: list[Stage] = []
    for given in workload.sampling:
        done += stages.sampling(plan, given)
    cut = contexts(plan, workload.context_tasks) if workload.context_tasks else Contexts(0, 0, 0)
    steps: dict[str, float] = {}
    for each in workload.training:
        made, steps[each.name] = training(plan, each, cut)
        done.append(made)
    if workload.judged_cases:
        done.append(stages.judging(plan, workload.judged_cases))
    disk_gb, jsonl = files(plan, cut, steps)
    done += single_processes(plan, cut, jsonl)
    usd = _money(plan, done, disk_gb)
    _sums(sheet, done)
    return Estimate(
        workload, tuple(done), tuple(sheet.lines), tuple(a.used.values()), disk_gb, usd, plan.cores
    )


def _shared(workload: Workload, a: Assumptions) -> Plan:
    """Lengths and the device."""
    sheet = Sheet(section="lengths")
    limits = [each.max_tokens for each in workload.sampling] + [
        each.response_tokens for each in workload.training
    ]
    responses = {limit: response(sheet, a, workload.responses, limit) for limit in dict.fromkeys(limits)}
    sizes = prompts(sheet, a, workload, responses[limits[0]])
    longest = max(limits) + max([0, *(each.max_prompt_tokens for each in workload.training)])
    kind, gpus, model = workload.device, workload.gpus, workload.model
    share = workload.memory_share or a["sampling.memory_share"]
    on = trainer = device(a, kind, gpus, model, longest, share, workload.tensor_parallel)
    if workload.training:
        least = min(each.memory_share or a["sampling.training_memory_share"] for each in workload.training)
        trainer = device(a, kind, gpus, model, longest, least)
    return Plan(sheet, a, workload, on, trainer, sizes, responses=responses)


def _money(plan: Plan, done: list[Stage], disk_gb: float) -> float:
    sheet, a, work = plan.sheet, plan.a, plan.work
    sheet.section = "money"
    gpu_h = sum(each.gpu_h for each in done)
    gpu = sheet.put("GPUs", "GPU_h * price", "USD", GPU_h=gpu_h, price=a[f"gpu.{work.device}.price_h"])
    cpu = sheet.put(
        "evaluator",
        "CPU_h * price",
        "USD",
        CPU_h=sum(each.cpu_h for each in done),
        price=a["price.cpu_core_h"],
    )
    disk = sheet.put(
        "disk", "GB * price * months", "USD", GB=disk_gb, price=a["price.disk_gb_month"],
        months=a["price.disk_months"],
    )  # fmt: skip
    return sheet.put(
        "in all", "GPUs + evaluator + disk + providers", "USD", GPUs=gpu, evaluator=cpu, disk=disk,
        providers=sum(each.usd for each in done),
    )  # fmt: skip


def _sums(sheet: Sheet, done: list[Stage]) -> None:
    sheet.section = "in all"
    for what, unit in (
        ("wall_h", "h"), ("gpu_h", "GPU h"), ("cpu_h", "CPU h"), ("prompt_tokens", "tokens"),
        ("completion_tokens", "tokens"), ("updated_tokens", "tokens"), ("reference_tokens", "tokens"),
    ):  # fmt: skip
        parts = {f"stage_{n}": getattr(each, what) for n, each in enumerate(done, 1) if getattr(each, what)}
        if parts:
            sheet.put(what.replace("_", " "), " + ".join(parts), unit, **parts)
            # The names of the stages say less than the numbers.
            last = sheet.lines[-1]
            sheet.lines[-1] = replace(last, formula="sum over stages")


def arithmetic(lines: Sequence[Line]) -> Iterator[str]:
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


def _totals(self: Estimate) -> Iterator[str]:
    def total(what: str, scale: float = 1.0) -> str:
        return number(self.total(what) / scale)

    made = total("completion_tokens", 1e6)
    yield f"  tokens: {total('prompt_tokens', 1e6)} M of prompts, {made} M of completions"
    yield (
        f"  and again in training: {total('updated_tokens', 1e6)} M in updates, "
        f"{total('reference_tokens', 1e6)} M for log-probabilities"
    )
    yield f"  programs: {total('cpu_h')} CPU hours on {number(self.evaluator_cores)} cores"
    yield f"  GPUs: {total('gpu_h')} GPU hours ({self.workload.device})"
    yield f"  wall time: {total('wall_h')} h, one stage after the other"
    yield f"  disk: {number(self.disk_gb)} GB"
    yield f"  money: {self.usd:,.2f} USD, of which providers {self.total('usd'):,.2f}"


def _assumptions(used: tuple[Assumption, ...]) -> Iterator[str]:
    for row in used:
        said = "" if row.source == "default" else f"  [{row.source}]"
        yield f"  {row.name} = {row.value:g} {row.unit}{said}"
