"""The estimate: every stage of a workload, line by line, its files and money, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cobalt.errors import InputError
from cobalt.plan import basis, sampling
from cobalt.plan.arithmetic import Line, Sheet, number
from cobalt.plan.assumptions import GPUS, KNOWN, Assumption, Assumptions, DoesNotFit, device
from cobalt.plan.basis import Plan, Stage
from cobalt.plan.training import Contexts, contexts, training
from cobalt.plan.workload import Sampling, Training, Workload

_SUMS = (
    "prompt_tokens", "completion_tokens", "updated_tokens", "reference_tokens", "gpu_h", "cpu_h", "wall_h",
)  # fmt: skip
_COMPARED = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
# A Parquet row has the conversation as `conversation`, `prompt` and in `extra_info`, the tests twice.
_CONTEXTS = """
    contexts as JSONL [GB] = rows * (disk.json_overhead * (first + shown * growth) * characters_per_token \
        + tests * test_bytes) / 1e9
    contexts as Parquet [GB] = disk.parquet_copies * contexts_as_JSONL * disk.parquet_share
"""
_MONEY = """
    GPUs [USD] = GPU_h * price
    evaluator [USD] = CPU_h * price.cpu_core_h
    disk [USD] = GB * price.disk_gb_month * price.disk_months
    in all [USD] = GPUs + evaluator + disk + providers
"""


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

    def totals(self) -> dict[str, float]:
        """All sums."""
        sums = {name: self.total(name) for name in _SUMS}
        return sums | {"disk_gb": self.disk_gb, "usd": self.usd}

    def lines(self) -> list[str]:
        """The plan for people: the table of stages, totals, arithmetic by section, assumptions used."""
        used = [
            f"  {row.name} = {row.default:g} {row.unit}"
            + ("" if row.source == "default" else f"  [{row.source}]")
            for row in self.used
        ]
        return [*self.summary(), *_by_section(self.arithmetic), "", "assumptions used", *used]

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
            "totals": self.totals() | {"evaluator_cores": self.evaluator_cores},
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
    disk_gb = _files(plan, cut, steps)
    usd = _money(plan, done, disk_gb)
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
    plan = Plan(Sheet(a.__getitem__, (work.tasks_kind, work.responses)), a, work, on, trainer)
    basis.lengths(plan, limits)
    basis.evaluator(plan)
    return plan


def _files(plan: Plan, cut: Contexts, steps: dict[str, float]) -> float:
    """GB (10^9 bytes) of all files that stay."""
    sheet, work = plan.sheet, plan.work
    sheet.section = "disk"
    total = stored = 0.0  # `stored`: bytes of a task's row so far: stages copy what earlier ones wrote
    for each in work.sampling:
        stored = _row(plan, each, stored if each.first_turn > 1 else 0.0)
        copies = 2 if each.hidden_tests else 1  # as sampled, and with the rates of the hidden tests
        formula = f"{each.name} [GB] = tasks * models * copies * row_bytes / 1e9"
        total += sheet.put(formula, each, copies=copies, row_bytes=stored)
    if cut.rows:
        parquet = sheet.put(_CONTEXTS, cut, plan)
        total += sheet["contexts as JSONL"] + parquet
    for given in work.training:
        total += _checkpoints(plan, given, steps[given.name])
    return sheet.put("all files [GB] = sum_of_these", sum_of_these=total)


def _row(plan: Plan, given: Sampling, before: float) -> float:
    put, made = plan.sheet.put, plan.responses[given.max_tokens]
    dialogue = plan.first + given.turns * plan.growth if given.turns > 1 else 0.0
    if not before:
        tests = max(given.tests, plan.a[f"{plan.work.tasks_kind}.tests"])
        formula = "first * characters_per_token + 2 * tests * test_bytes"
        before = put(f"{given.name}: a task [bytes] = {formula}", plan, tests=tests)
    return put(
        f"{given.name}: a row [bytes] = before + disk.json_overhead * samples * (turns * (mean_response * "
        "characters_per_token + tests * verdict_bytes) + dialogue * characters_per_token)", given, made,
        before=before, turns=given.turns - given.first_turn + 1, dialogue=dialogue,
    )  # fmt: skip


def _checkpoints(plan: Plan, given: Training, steps: float) -> float:
    saved = steps / given.save_every if given.save_every else 1.0
    if given.keep is not None:
        saved = min(saved, float(given.keep))
    name = f"{given.name}: checkpoints"
    kept = plan.sheet.put(f"{name} kept, the last included [] = max(1, ceil(saved))", saved=saved)
    trained = plan.a["disk.checkpoint_bytes"] * (plan.a["disk.adapters"] if given.lora_rank else 1.0)
    return plan.sheet.put(
        f"{name}, and the exports model/ and best/ [GB] = params_b * (kept * (checkpoint_bytes + "
        "disk.export_bytes) + 2 * disk.export_bytes)", plan.device.model, kept=kept, checkpoint_bytes=trained,
    )  # fmt: skip


def _money(plan: Plan, done: list[Stage], disk_gb: float) -> float:
    plan.sheet.section = "money"
    price = plan.a[f"gpu.{plan.work.device}.price_h"]
    gpu_h, cpu_h, usd = (sum(getattr(each, what) for each in done) for what in ("gpu_h", "cpu_h", "usd"))
    return plan.sheet.put(_MONEY, GPU_h=gpu_h, price=price, CPU_h=cpu_h, GB=disk_gb, providers=usd)


def _by_section(lines: Sequence[Line]) -> Iterator[str]:
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


def beside(found: Sequence[Estimate], factors: Sequence[float]) -> Iterator[str]:
    """Totals at multiples of the training data, and the GPUs and cores for the first one's wall time."""

    def row(name: str, values: Sequence[str]) -> str:
        return f"  {name:<26}" + "".join(f"{value:>18}" for value in values)

    yield row("training data", [f"x {factor:g}" for factor in factors])
    first, all_totals = found[0], [each.totals() for each in found]
    for name in all_totals[0]:
        yield row(name.replace("_", " "), [number(totals[name]) for totals in all_totals])
    for what, of, count in (
        ("GPUs", "gpu_h", first.workload.gpus),
        ("cores", "cpu_h", first.evaluator_cores),
    ):
        base = first.total(of) or 1.0
        yield row(f"{what} in the first's time", [f"{count * each.total(of) / base:,.2f}" for each in found])


def devices(work: Workload, a: Assumptions) -> Iterator[str]:
    """GPU hours of the same run by model size and GPU kind; "-" where a model does not fit.

    Raises InputError if a measured rate stands for sampling.
    """
    if a.rows["sampling.measured_tokens_per_s"].default:
        raise InputError("a measured rate is that of one device and model, and cannot compare several")
    models = {name: KNOWN[name] for name in _COMPARED} | {work.model.name: work.model}
    width = max(map(len, models))
    yield f"  {f'on {work.gpus} of':<{width}}" + "".join(f"{kind:>14}" for kind in GPUS)
    for model in sorted(models.values(), key=lambda model: model.params_b):
        cells = []
        for kind in GPUS:
            try:
                hours = estimate(replace(work, model=model, device=kind), a).total("gpu_h")
                cells.append(number(round(hours, 1 if hours < 100 else 0)))
            except DoesNotFit:
                cells.append("-")
        yield f"  {model.name:<{width}}" + "".join(f"{cell:>14}" for cell in cells)
