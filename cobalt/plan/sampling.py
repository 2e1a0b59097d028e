"""Stages that sample programs and run them: reading, decoding, verdicts.

Decoding is bound by memory: a step reads all weights and the cache of all sequences under way, so the batch
is what the memory left over holds. A stage decodes with full batches until no request waits, then with fewer
and fewer sequences until the longest has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cobalt.plan.assumptions import Device
from cobalt.plan.basis import Plan, Response, Stage
from cobalt.plan.workload import Sampling

_SMALL_B = 0.01  # billions of parameters below which a CPU's time is Python's, not the memory's
_READING = """
    reading speed of a replica [tokens/s] = together * tflops * sampling.prefill_share * 1000 \
        / (2 * params_b + 2 * layers * heads * head_dim * prompt / 1e9)
    reading prompts [s] = computed / (replicas * reading_speed_of_a_replica)
"""
# A chain of turns is as one long response, but only one of its completions is in the cache at a time.
_DECODING = """
    memory for caches of a replica [GB] = together * (memory * share - sampling.reserve_gb) \
        - params_b * sampling.weight_bytes
    cache of a sequence [GB] = 2 * layers * kv_heads * head_dim * sampling.weight_bytes \
        * (prompt + so_far) / 1e9
    sequences at once of a replica [] = \
        min(max(1, floor(memory_for_caches_of_a_replica / cache_of_a_sequence)), sampling.sequences, \
        max(1, in_flight / replicas), dialogues / replicas)
    steps with full batches [steps] = max(0, dialogues / replicas / sequences_at_once_of_a_replica - 1) \
        * turns * mean_response
    mean batch while the last end [] = sequences_at_once_of_a_replica * turns * mean_response / longest
"""
_STEP = (
    "a step with {} [ms] = 1000 * max((params_b * sampling.weight_bytes + batch * cache_of_a_sequence) / "
    "(together * bandwidth * sampling.bandwidth_share), "
    "batch * 2 * params_b / (together * tflops * sampling.prefill_share * 1000)) + sampling.step_ms"
)


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


def sampling(plan: Plan, given: Sampling) -> list[Stage]:
    """A sampling stage, and that of its hidden tests if it has any."""
    sheet, work, put = plan.sheet, plan.work, plan.sheet.put
    sheet.section = given.name
    made, turns = plan.responses[given.max_tokens], given.turns - given.first_turn + 1
    dialogues = put("dialogues [] = tasks * samples * models", given)
    count = put("completions [] = dialogues * turns", turns=turns)
    put("completion tokens [tokens] = completions * mean_response", made)
    each = _dialogue(plan, given, turns)
    put("prompt tokens [tokens] = dialogues * prompt_tokens_of_a_dialogue")
    plan.programs_h("evaluator", count, given.tests, made)
    start = 0.0
    if given.provider:
        paid(plan, "price.prompt", "price.completion")
        seconds = put(
            "answers [s] = completion_tokens / (min(concurrency, dialogues) * provider.tokens_per_s)", work
        )
    else:
        share = work.memory_share or plan.a["sampling.memory_share"]
        computed = _computed(plan, given, turns)
        requests = Requests(dialogues, turns, each / turns, computed, share, work.concurrency)
        seconds = sample(plan, plan.device, made, requests)
        start = plan.a["sampling.start_s" if work.on_gpu else "sampling.cpu_start_s"] * given.models
    # On a CPU the same cores sample and run programs.
    both = "max(seconds, 3600 * evaluator / cores)" if work.on_gpu else "seconds + 3600 * evaluator / cores"
    put(f"wall time [h] = ({both} + start) / 3600", plan, seconds=seconds, start=start)
    if work.on_gpu and not given.provider:
        put("GPU hours [GPU h] = gpus * wall_time", plan.device)
        put("evaluator busy [% of its cores] = 100 * evaluator / (wall_time * cores)", plan)
    stages = [plan.stage()]
    if given.hidden_tests:
        hidden_h = plan.programs_h("hidden tests", dialogues * given.turns, given.hidden_tests, made)
        wall_h = put("wall time of hidden tests [h] = hidden_tests / cores", plan)
        stages.append(Stage(f"{given.name}: hidden tests", wall_h, cpu_h=hidden_h))
    return stages


def _dialogue(plan: Plan, given: Sampling, turns: int) -> float:
    """Prompt tokens of one dialogue in its turns, each at most the context."""
    name, limit, shown = (
        "prompt tokens of a dialogue",
        plan.work.max_context,
        range(given.first_turn - 1, given.turns),
    )
    each = [plan.prompt(count, limit) for count in shown]
    if plan.first + max(shown) * plan.growth <= limit:
        formula = "turns * first + programs_shown * growth"
        return plan.sheet.put(f"{name} [tokens] = {formula}", plan, turns=turns, programs_shown=sum(shown))
    named = {f"turn_{count + 1}": value for count, value in zip(shown, each, strict=True)}
    return plan.sheet.put(f"{name} [tokens] = {' + '.join(named)}", **named)


def _computed(plan: Plan, given: Sampling, turns: int) -> float:
    """Prompt tokens that are not in a prefix cache: openings once per task, later turns what is new and a
    share of the rest.
    """
    put, opened = plan.sheet.put, given.first_turn == 1
    if opened and turns == 1:
        return put(
            "prompt tokens computed (an opening once for its samples) [tokens] = prompt_tokens / samples",
            given,
        )
    put("opening computed [tokens] = first / shared_by", plan, shared_by=given.samples if opened else 1)
    put("new in the turns of a dialogue [tokens] = turns_added * growth", plan, turns_added=given.turns - 1)
    return put(
        "prompt tokens computed (openings, what is new, and of the rest what no cache holds) [tokens] = "
        "dialogues * (opening_computed + new + max(0, prompt_tokens_of_a_dialogue - first - new) "
        "* (1 - sampling.cached_share))", plan, new=plan.sheet["new in the turns of a dialogue"],
    )  # fmt: skip


def sample(plan: Plan, on: Device, made: Response, asked: Requests) -> float:
    """Seconds that prompts and completions take."""
    put, measured, model = plan.sheet.put, plan.a["sampling.measured_tokens_per_s"], on.model
    if on.kind == "cpu" and model.params_b < _SMALL_B:
        speed = measured or plan.a["sampling.cpu_tokens_per_s"]
        formula = "dialogues * turns * mean_response / tokens_per_s"
        return put(f"sampling on the CPU [s] = {formula}", asked, made, tokens_per_s=speed)
    put(_READING, on, model, asked)
    if measured:
        formula = "dialogues * turns * mean_response / (replicas * sampling.measured_tokens_per_s)"
        return put(f"sampling at the measured rate [s] = {formula}", asked, made, on)
    longest = made.longest(asked.dialogues * asked.turns) + (asked.turns - 1) * made.mean_response
    few = put(_DECODING, on, model, asked, made, longest=longest)
    put(_STEP.format("a full batch"), model, on, batch=plan.sheet["sequences at once of a replica"])
    put(_STEP.format("the last"), model, on, batch=few)
    return put(
        "sampling [s] = reading_prompts + (steps_with_full_batches * a_step_with_a_full_batch "
        "+ longest * a_step_with_the_last) / 1000", longest=longest,
    )  # fmt: skip


def paid(plan: Plan, prompt: str, completion: str) -> None:
    """USD for the section's tokens at a provider's prices, assumptions by name."""
    formula = f"(prompt_tokens * {prompt} + completion_tokens * {completion}) / 1e6"
    plan.sheet.put(f"paid to the provider [USD] = {formula}")


def judging(plan: Plan, cases: float) -> Stage:
    """Turn errors sorted by a judge, a provider's model."""
    plan.sheet.section = "hack analysis"
    plan.sheet.put(
        """
        prompt tokens [tokens] = cases * judge.prompt_tokens
        completion tokens [tokens] = cases * judge.completion_tokens
        wall time [h] = completion_tokens / (concurrency * provider.tokens_per_s) / 3600
        """, plan.work, cases=cases,
    )  # fmt: skip
    paid(plan, "price.judge_prompt", "price.judge_completion")
    return replace(plan.stage(), completions=cases)
