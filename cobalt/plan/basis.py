"""What the stages of one plan share: lengths of responses and prompts, devices, the evaluator's cores.

Responses are lognormal and cut at a limit. X of median m and deviation s of its logarithm, cut at L, has with
z = ln(L/m)/s mean m exp(s^2/2) Phi(z - s) + L (1 - Phi(z)) and mean square
m^2 exp(2 s^2) Phi(z - 2s) + L^2 (1 - Phi(z)). Prompts grow by an answer and feedback every turn,
up to a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

from cobalt.plan.arithmetic import Sheet
from cobalt.plan.assumptions import Assumptions, Device
from cobalt.plan.workload import Workload

_RESPONSE = """
    cut at the limit [of all] = 1 - Phi(z)
    mean response [tokens] = median * exp(sigma * sigma / 2) * Phi(z - sigma) + limit * cut_at_the_limit
    mean square [tokens squared] = median * median * exp(2 * sigma * sigma) * Phi(z - 2 * sigma) \
        + limit * limit * cut_at_the_limit
    mean length so far of a response under way [tokens] = mean_square / (2 * mean_response)
"""
_PROMPTS = """
    mean statement [tokens] = statement_tokens * exp(statement_sigma * statement_sigma / 2)
    first prompt [tokens] = system_characters / characters_per_token + mean_statement
    mean feedback [tokens] = feedback_tokens * exp(feedback_sigma * feedback_sigma / 2)
    feedback message [tokens] = feedback_characters / characters_per_token + mean_feedback
"""
# Of a response that was cut, its beginning is shown.
_AFTER_THINKING = """
    mean answer (after </think>) [tokens] = answer_tokens * exp(answer_sigma * answer_sigma / 2)
    longest message kept [tokens] = answer_characters / characters_per_token
    answer shown [tokens] = (1 - cut) * answer_tokens * exp(answer_sigma * answer_sigma / 2) \
        + cut * longest_message_kept
"""
_TEST = """
    mean test without the sandbox [ms of CPU] = (1 - slow_share) \
        * min(1000 * tests.limit_s, test_ms * exp(test_sigma * test_sigma / 2)) \
        + slow_share * 1000 * tests.limit_s
    mean test [ms of CPU] = mean_test_without_the_sandbox + tests.overhead_ms
"""
# The lines of a section that say what its stage takes.
_LINES = {
    "wall_h": "wall time", "gpu_h": "GPU hours", "cpu_h": "evaluator", "completions": "completions",
    "prompt_tokens": "prompt tokens", "completion_tokens": "completion tokens",
    "updated_tokens": "tokens in updates",
    "reference_tokens": "tokens for log-probabilities (old, reference)", "usd": "paid to the provider",
}  # fmt: skip


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


@dataclass(frozen=True)
class Response:
    """Completions under one limit: ``mean_response`` and ``so_far`` (mean length of one under way) in tokens,
    ``cut`` share that ends at the limit, ``median``, ``sigma`` before the cut.
    """

    mean_response: float
    so_far: float
    cut: float
    median: float
    sigma: float
    limit: int

    def longest(self, count: float) -> float:
        """About the longest of ``count``, at most the limit."""
        quantile = NormalDist().inv_cdf(1 - 1 / (count + 2))
        return max(self.mean_response, min(float(self.limit), self.median * math.exp(self.sigma * quantile)))


@dataclass
class Plan:
    """What the stages of one plan share: the sheet, assumptions, lengths and devices.

    ``first``: tokens of an opening; ``growth``: by which a turn's answer and feedback lengthen it.
    ``test_ms``: CPU of one test with the sandbox; ``cores``: of the evaluator. ``trainer`` is ``device`` as
    training groups it.
    """

    sheet: Sheet
    a: Assumptions
    work: Workload
    device: Device
    trainer: Device
    responses: dict[int, Response] = field(default_factory=dict)
    first: float = 0.0
    growth: float = 0.0
    cores: float = 0.0
    test_ms: float = 0.0

    def stage(self) -> Stage:
        """The stage that the lines of this section make up."""
        found = {line.name: line.value for line in self.sheet.lines if line.section == self.sheet.section}
        return Stage(self.sheet.section, **{what: found.get(name, 0.0) for what, name in _LINES.items()})

    def programs_h(self, what: str, programs: float, tests: float, made: Response) -> float:
        """CPU hours of ``programs`` with ``tests`` each; of thinking responses those cut hold no program."""
        return self.sheet.put(
            f"{what} [CPU h] = programs * (1 - cut) * distinct_share * tests * test_ms / 3600000", self,
            programs=programs, tests=tests, cut=made.cut if self.work.responses == "thinking" else 0.0,
        )  # fmt: skip

    def prompt(self, shown: float, limit: float, *, always: bool = False) -> float:
        """Tokens of a prompt with ``shown`` programs, at most ``limit``. Lines are added where the limit
        matters, or ``always``.
        """
        mean = self.first + shown * self.growth
        if always or mean > limit:
            name = f"prompt with {shown:.3g} programs"
            mean = self.sheet.put(f"{name} [tokens] = first + shown * growth", self, shown=shown)
        if mean <= limit:
            return mean
        return self.sheet.put("the same, cut [tokens] = min(prompt, limit)", prompt=mean, limit=limit)


def lengths(plan: Plan, limits: list[int]) -> None:
    """Responses under each limit, and prompts with those of the first."""
    sheet, work = plan.sheet, plan.work
    sheet.section = "lengths"
    for limit in dict.fromkeys(limits):
        plan.responses[limit] = _response(plan, limit)
    made = plan.responses[limits[0]]
    answer = made.mean_response
    sheet.put(_PROMPTS, work)
    plan.first = sheet["first prompt"]
    if work.responses == "thinking":
        answer = sheet.put(_AFTER_THINKING, cut=made.cut)
    plan.growth = sheet.put("a turn adds [tokens] = answer + feedback_message", answer=answer)


def _response(plan: Plan, limit: int) -> Response:
    """Completions of at most ``limit`` tokens."""
    kind, sheet = plan.work.responses, plan.sheet
    median, sigma = plan.a[f"{kind}.response_tokens"], plan.a[f"{kind}.response_sigma"]
    known = {"limit": float(limit), "median": median, "sigma": sigma}
    name = f"{kind} response of at most {limit:,} tokens, z"
    live = sheet.put(_RESPONSE, z=sheet.put(f"{name} [] = ln(limit / median) / sigma", **known), **known)
    return Response(sheet["mean response"], live, sheet["cut at the limit"], median, sigma, limit)


def evaluator(plan: Plan) -> None:
    """Cores of the evaluator, and CPU of a test."""
    plan.sheet.section = "running programs"
    plan.test_ms = plan.sheet.put(_TEST)
    cores = "gpus * evaluator.cores_per_gpu" if plan.work.on_gpu else "evaluator.cpu_profile_cores"
    plan.cores = plan.sheet.put(f"evaluator cores [cores] = {cores}", plan.work)
    plan.sheet.put("memory of programs at most [GiB] = evaluator_cores * evaluator.memory_gib")
