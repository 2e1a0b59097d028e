"""Stages that sample programs, and those that only run them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobalt.planning.arithmetic import Sheet
from cobalt.planning.assumptions import Assumptions
from cobalt.planning.devices import Device, Job, sample
from cobalt.planning.lengths import Prompts, Response, dialogue
from cobalt.planning.workload import Sampling, Workload


@dataclass(frozen=True)
class Stage:
    """What a stage takes. Tokens in all; ``cpu_h`` of programs run; ``gpu_h`` of all GPUs it holds, busy or
    not; ``usd`` paid to providers.
    """

    name: str
    wall_h: float
    gpu_h: float = 0.0
    cpu_h: float = 0.0
    completions: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    updated_tokens: float = 0.0
    reference_tokens: float = 0.0
    usd: float = 0.0


@dataclass
class Plan:
    """What the stages of one plan share: the sheet, the assumptions, sizes and devices.

    ``test_ms``: CPU of one test with the sandbox; ``cores``: of the evaluator; ``prompts``: of dialogues, as
    the sampling stages have them. ``trainer`` is ``device`` as training groups it.
    """

    sheet: Sheet
    a: Assumptions
    work: Workload
    device: Device
    trainer: Device
    prompts: Prompts
    cores: float = 0.0
    test_ms: float = 0.0
    responses: dict[int, Response] = field(default_factory=dict)

    def programs_h(self, what: str, programs: float, tests: float, cut: float) -> float:
        """CPU hours of ``programs`` with ``tests`` each; of responses a share ``cut`` holds no program."""
        return self.sheet.put(
            what, "programs * (1 - cut) * distinct * tests * ms / 3600000", "CPU h", programs=programs,
            cut=cut, distinct=self.a[f"{self.work.tasks_kind}.distinct_share"], tests=tests, ms=self.test_ms,
        )  # fmt: skip

    def paid(self, read: float, made: float, prompt: str, completion: str) -> float:
        """USD for tokens read and made at a provider's prices, assumptions by name."""
        return self.sheet.put(
            "paid to the provider", "(prompt * prompt_price + completion * completion_price) / 1e6", "USD",
            prompt=read, prompt_price=self.a[prompt], completion=made, completion_price=self.a[completion],
        )  # fmt: skip

    @property
    def without_program(self) -> bool:
        """Whether a response that was cut holds no program (the program comes after the thinking)."""
        return self.work.responses == "thinking"


def evaluator(plan: Plan) -> None:
    """Cores of the evaluator, and CPU of a test."""
    sheet, a, kind = plan.sheet, plan.a, plan.work.tasks_kind
    sheet.section = "running programs"
    program = sheet.put(
        "mean test without the sandbox",
        "(1 - slow) * min(1000 * limit_s, median * exp(sigma * sigma / 2)) + slow * 1000 * limit_s",
        "ms of CPU", slow=a[f"{kind}.slow_share"], limit_s=a["tests.limit_s"], median=a[f"{kind}.test_ms"],
        sigma=a[f"{kind}.test_sigma"],
    )  # fmt: skip
    plan.test_ms = sheet.put(
        "mean test", "program + sandbox", "ms of CPU", program=program, sandbox=a["tests.overhead_ms"]
    )
    if plan.work.on_gpu:
        plan.cores = sheet.put(
            "evaluator cores", "gpus * cores_per_gpu", "cores", gpus=plan.device.gpus,
            cores_per_gpu=a["evaluator.cores_per_gpu"],
        )  # fmt: skip
    else:
        plan.cores = a["evaluator.cpu_profile_cores"]
        sheet.put("evaluator cores", "cores", "cores", cores=plan.cores)


def sampling(plan: Plan, given: Sampling) -> list[Stage]:
    """A sampling stage, and that of its hidden tests if it has any."""
    sheet, a, work = plan.sheet, plan.a, plan.work
    sheet.section = given.name
    made, turns = plan.responses[given.max_tokens], given.turns - given.first_turn + 1
    dialogues = sheet.put(
        "dialogues", "tasks * samples * models", tasks=given.tasks, samples=given.samples, models=given.models
    )
    count = sheet.put("completions", "dialogues * turns", dialogues=dialogues, turns=turns)
    out = sheet.put("completion tokens", "completions * mean", "tokens", completions=count, mean=made.mean)
    each = dialogue(sheet, plan.prompts, given.first_turn, given.turns, work.max_context)
    read = sheet.put("prompt tokens", "dialogues * tokens", "tokens", dialogues=dialogues, tokens=each)
    cut = made.cut if plan.without_program else 0.0
    cpu_h = plan.programs_h("evaluator", count, given.tests, cut)
    usd, gpu_h = 0.0, 0.0
    if given.provider:
        usd = plan.paid(read, out, "price.prompt", "price.completion")
        seconds = sheet.put(
            "answers", "tokens / (min(in_flight, dialogues) * tokens_per_s)", "s", tokens=out,
            in_flight=work.concurrency, dialogues=dialogues, tokens_per_s=a["provider.tokens_per_s"],
        )  # fmt: skip
        start = 0.0
    else:
        computed = _computed(plan, given, dialogues, each, turns)
        share = work.memory_share or a["sampling.memory_share"]
        job = Job(dialogues, turns, each / turns, computed, made, work.concurrency, share)
        seconds = sample(sheet, a, plan.device, job)
        start = a["sampling.start_s" if work.on_gpu else "sampling.cpu_start_s"] * given.models
    formula = "(max(sampling, 3600 * evaluator_h / cores) + start) / 3600"
    if not work.on_gpu:  # the same cores sample and run programs
        formula = "(sampling + 3600 * evaluator_h / cores + start) / 3600"
    wall_h = sheet.put(
        "wall time", formula, "h", sampling=seconds, evaluator_h=cpu_h, cores=plan.cores, start=start
    )
    if work.on_gpu and not given.provider:
        gpu_h = sheet.put("GPU hours", "gpus * wall_h", "GPU h", gpus=plan.device.gpus, wall_h=wall_h)
    stages = [Stage(given.name, wall_h, gpu_h, cpu_h, count, read, out, usd=usd)]
    if given.hidden_tests:
        hidden_h = plan.programs_h("hidden tests", dialogues * given.turns, given.hidden_tests, cut)
        stages.append(_only_programs(plan, f"{given.name}: hidden tests", hidden_h))
    return stages


def _computed(plan: Plan, given: Sampling, dialogues: float, each: float, turns: int) -> float:
    """Prompt tokens that are not in a prefix cache: openings once per task, later turns what is new and a
    share of the rest.
    """
    sheet, sizes = plan.sheet, plan.prompts
    opened = given.first_turn == 1
    if opened and turns == 1:
        return sheet.put(
            "prompt tokens computed (an opening once for its samples)", "tokens / samples", "tokens",
            tokens=dialogues * each, samples=given.samples,
        )  # fmt: skip
    opening = sheet.put(
        "opening, computed once for its samples" if opened else "opening, computed again",
        "first / shared_by", "tokens", first=sizes.first, shared_by=given.samples if opened else 1,
    )  # fmt: skip
    fresh = sheet.put("new in the turns of a dialogue", "turns_added * growth", "tokens",
                      turns_added=given.turns - 1, growth=sizes.growth)  # fmt: skip
    return sheet.put(
        "prompt tokens computed (openings, what is new, and of the rest what no cache holds)",
        "dialogues * (opening + new + max(0, tokens - first - new) * (1 - cached))", "tokens",
        dialogues=dialogues, opening=opening, new=fresh, tokens=each, first=sizes.first,
        cached=plan.a["sampling.cached_share"],
    )  # fmt: skip


def _only_programs(plan: Plan, name: str, cpu_h: float) -> Stage:
    wall_h = plan.sheet.put("wall time of hidden tests", "cpu_h / cores", "h", cpu_h=cpu_h, cores=plan.cores)
    return Stage(name, wall_h, cpu_h=cpu_h)


def judging(plan: Plan, cases: float) -> Stage:
    """Turn errors sorted by a judge, a provider's model."""
    sheet, a = plan.sheet, plan.a
    sheet.section = "hack analysis"
    read = sheet.put(
        "prompt tokens", "cases * tokens", "tokens", cases=cases, tokens=a["judge.prompt_tokens"]
    )
    out = sheet.put(
        "completion tokens", "cases * tokens", "tokens", cases=cases, tokens=a["judge.completion_tokens"]
    )
    usd = plan.paid(read, out, "price.judge_prompt", "price.judge_completion")
    wall_h = sheet.put(
        "wall time", "tokens / (in_flight * tokens_per_s) / 3600", "h", tokens=out,
        in_flight=plan.work.concurrency, tokens_per_s=a["provider.tokens_per_s"],
    )  # fmt: skip
    return Stage(
        "hack analysis", wall_h, completions=cases, prompt_tokens=read, completion_tokens=out, usd=usd
    )
