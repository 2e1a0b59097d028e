"""Stages that sample programs and run them: reading, decoding, verdicts.

Decoding is bound by memory: a step reads all weights and the cache of all sequences under way, so the batch
is what the memory left over holds. A stage decodes with full batches until no request waits, then with fewer
and fewer sequences until the longest has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cobalt.plan.basis import Plan, Response, Stage
from cobalt.plan.models import Device
from cobalt.plan.workload import Sampling

_SMALL_B = 0.01  # billions of parameters below which a CPU's time is Python's, not the memory's


@dataclass(frozen=True)
class Requests:
    """``turns`` completions follow each other in each of ``dialogues``. ``prompt``: mean tokens of one;
    ``computed``: prompt tokens in all that are not in a prefix cache; ``share`` of a GPU's memory for weights
    and caches; ``in_flight``: completions at once.
    """

    dialogues: float
    turns: float
    prompt: float
    computed: float
    share: float
    in_flight: float

    @property
    def completions(self) -> float:
        """Of all dialogues."""
        return self.dialogues * self.turns


def sampling(plan: Plan, given: Sampling) -> list[Stage]:
    """A sampling stage, and that of its hidden tests if it has any."""
    sheet, work = plan.sheet, plan.work
    sheet.section = given.name
    made, turns = plan.responses[given.max_tokens], given.turns - given.first_turn + 1
    dialogues = sheet.put("dialogues", "tasks * samples * models", "", given)
    count = sheet.put("completions", "dialogues * turns", turns=turns)
    sheet.put("completion tokens", "completions * mean_response", "tokens", made)
    each = _dialogue(plan, given, turns)
    sheet.put("prompt tokens", "dialogues * tokens", "tokens", tokens=each)
    plan.programs_h("evaluator", count, given.tests, made)
    start = 0.0
    if given.provider:
        paid(plan, "price.prompt", "price.completion")
        formula = "completion_tokens / (min(concurrency, dialogues) * provider.tokens_per_s)"
        seconds = sheet.put("answers", formula, "s", work)
    else:
        share = work.memory_share or plan.a["sampling.memory_share"]
        computed = _computed(plan, given, each, turns)
        requests = Requests(dialogues, turns, each / turns, computed, share, work.concurrency)
        seconds = sample(plan, plan.device, made, requests)
        start = plan.a["sampling.start_s" if work.on_gpu else "sampling.cpu_start_s"] * given.models
    formula = "(max(sampling, 3600 * evaluator / cores) + start) / 3600"
    if not work.on_gpu:  # the same cores sample and run programs
        formula = "(sampling + 3600 * evaluator / cores + start) / 3600"
    sheet.put("wall time", formula, "h", plan, sampling=seconds, start=start)
    if work.on_gpu and not given.provider:
        sheet.put("GPU hours", "gpus * wall_time", "GPU h", plan.device)
        sheet.put("evaluator busy", "100 * evaluator / (wall_time * cores)", "% of its cores", plan)
    stages = [plan.stage()]
    if given.hidden_tests:
        hidden_h = plan.programs_h("hidden tests", dialogues * given.turns, given.hidden_tests, made)
        wall_h = sheet.put("wall time of hidden tests", "hidden_tests / cores", "h", plan)
        stages.append(Stage(f"{given.name}: hidden tests", wall_h, cpu_h=hidden_h))
    return stages


def _dialogue(plan: Plan, given: Sampling, turns: int) -> float:
    """Prompt tokens of one dialogue in its turns, each at most the context."""
    limit, shown = plan.work.max_context, range(given.first_turn - 1, given.turns)
    each = [plan.prompt(count, limit) for count in shown]
    if plan.first + max(shown) * plan.growth <= limit:
        return plan.sheet.put(
            "prompt tokens of a dialogue", "turns * first + programs_shown * growth", "tokens", plan,
            turns=turns, programs_shown=sum(shown),
        )  # fmt: skip
    named = {f"turn_{count + 1}": value for count, value in zip(shown, each, strict=True)}
    return plan.sheet.put("prompt tokens of a dialogue", " + ".join(named), "tokens", **named)


def _computed(plan: Plan, given: Sampling, each: float, turns: int) -> float:
    """Prompt tokens that are not in a prefix cache: openings once per task, later turns what is new and a
    share of the rest.
    """
    put, opened = plan.sheet.put, given.first_turn == 1
    if opened and turns == 1:
        said = "prompt tokens computed (an opening once for its samples)"
        return put(said, "prompt_tokens / samples", "tokens", given)
    said = "opening, computed once for its samples" if opened else "opening, computed again"
    opening = put(said, "first / shared_by", "tokens", plan, shared_by=given.samples if opened else 1)
    said = "new in the turns of a dialogue"
    new = put(said, "turns_added * growth", "tokens", plan, turns_added=given.turns - 1)
    return put(
        "prompt tokens computed (openings, what is new, and of the rest what no cache holds)",
        "dialogues * (opening + new + max(0, tokens - first - new) * (1 - sampling.cached_share))", "tokens",
        plan, opening=opening, new=new, tokens=each,
    )  # fmt: skip


def sample(plan: Plan, on: Device, made: Response, asked: Requests) -> float:
    """Seconds that prompts and completions take."""
    put, measured = plan.sheet.put, plan.a["sampling.measured_tokens_per_s"]
    if on.kind == "cpu" and on.model.params_b < _SMALL_B:
        speed = measured or plan.a["sampling.cpu_tokens_per_s"]
        formula = "completions * mean_response / tokens_per_s"
        return put("sampling on the CPU", formula, "s", asked, made, tokens_per_s=speed)
    put(
        "reading speed of a replica",
        "together * tflops * sampling.prefill_share * 1000 / "
        "(2 * params_b + 2 * layers * heads * head_dim * prompt / 1e9)", "tokens/s", on, on.model, asked,
    )  # fmt: skip
    put("reading prompts", "computed / (replicas * reading_speed_of_a_replica)", "s", on, asked)
    if measured:
        formula = "completions * mean_response / (replicas * sampling.measured_tokens_per_s)"
        return put("sampling at the measured rate", formula, "s", asked, made, on)
    return _decode(plan, on, made, asked)


def _decode(plan: Plan, on: Device, made: Response, asked: Requests) -> float:
    put, model = plan.sheet.put, on.model
    free = put(
        "memory for caches of a replica",
        "together * (memory * share - sampling.reserve_gb) - params_b * sampling.weight_bytes", "GB", on,
        model, asked,
    )  # fmt: skip
    put(
        "cache of a sequence",
        "2 * layers * kv_heads * head_dim * sampling.weight_bytes * (prompt + so_far) / 1e9", "GB", model,
        asked, made,
    )  # fmt: skip
    here = {"dialogues": asked.dialogues / on.replicas, "in_flight": max(1.0, asked.in_flight / on.replicas)}
    batch = put(
        "sequences at once of a replica",
        "min(max(1, floor(free / cache_of_a_sequence)), sampling.sequences, in_flight, dialogues)", "",
        free=free, **here,
    )  # fmt: skip
    # A chain of turns is as one long response, but only one of its completions is in the cache at a time.
    longest = made.longest(asked.completions) + (asked.turns - 1) * made.mean_response
    full = put(
        "steps with full batches", "max(0, dialogues / batch - 1) * turns * mean_response", "steps", made,
        turns=asked.turns, batch=batch, dialogues=here["dialogues"],
    )  # fmt: skip
    few = put(
        "mean batch while the last end", "batch * turns * mean_response / longest", "", made,
        turns=asked.turns, batch=batch, longest=longest,
    )  # fmt: skip
    times = [
        put(
            f"a step with {said}",
            "1000 * max((params_b * sampling.weight_bytes + batch * cache_of_a_sequence) / "
            "(together * bandwidth * sampling.bandwidth_share), "
            "batch * 2 * params_b / (together * tflops * sampling.prefill_share * 1000)) + sampling.step_ms",
            "ms", model, on, batch=size,
        )
        for said, size in (("a full batch", batch), ("the last", few))
    ]  # fmt: skip
    return put(
        "sampling", "reading_prompts + (full_steps * full_ms + last_steps * last_ms) / 1000", "s",
        full_steps=full, full_ms=times[0], last_steps=longest, last_ms=times[1],
    )  # fmt: skip


def paid(plan: Plan, prompt: str, completion: str) -> None:
    """USD for the section's tokens at a provider's prices, assumptions by name."""
    formula = f"(prompt_tokens * {prompt} + completion_tokens * {completion}) / 1e6"
    plan.sheet.put("paid to the provider", formula, "USD")


def judging(plan: Plan, cases: float) -> Stage:
    """Turn errors sorted by a judge, a provider's model."""
    sheet = plan.sheet
    sheet.section = "hack analysis"
    sheet.put("prompt tokens", "cases * judge.prompt_tokens", "tokens", cases=cases)
    sheet.put("completion tokens", "cases * judge.completion_tokens", "tokens", cases=cases)
    paid(plan, "price.judge_prompt", "price.judge_completion")
    formula = "completion_tokens / (concurrency * provider.tokens_per_s) / 3600"
    sheet.put("wall time", formula, "h", plan.work)
    return replace(plan.stage(), completions=cases)
