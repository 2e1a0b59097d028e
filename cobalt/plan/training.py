"""A training's tokens and time, step by step: rollout, verdicts, log-probabilities, update."""

from __future__ import annotations

from dataclasses import dataclass

from cobalt.plan.assumptions import DoesNotFit
from cobalt.plan.basis import Plan, Stage
from cobalt.plan.sampling import Requests, sample
from cobalt.plan.workload import Training
from cobalt.training.memory import GIB, Online, online, sharded

# Passes over a token, in forward passes: a backward pass is two, checkpointing repeats the forward pass.
# Adapters need no gradients of the weights, which are half of the backward pass.
_FULL, _ADAPTERS = 4, 3
_CONTEXTS = """
    contexts [rows] = tasks * (1 - skipped_tasks) * (1 + kept_trajectories * slices)
    programs that a context shows [] = kept_trajectories * slices * (slices + 1) / 2 \
        / (1 + kept_trajectories * slices)
"""
_TOKENS = """
    completions per step [] = dialogues_per_step * turns
    completion tokens per step [tokens] = completions_per_step * mean_response
"""
_ONE_TURN = """
    prompt tokens per step [tokens] = dialogues_per_step * opening
    tokens trained on per step [tokens] = prompt_tokens_per_step + completion_tokens_per_step
"""
# The whole response stays in the dialogue: what follows is growth without the shortening.
_ONLINE = """
    a turn adds [tokens] = max(mean_response, growth)
    prompt tokens per step [tokens] = dialogues_per_step \
        * (turns * opening + turns * (turns - 1) / 2 * a_turn_adds)
    tokens trained on per step [tokens] = dialogues_per_step \
        * (opening + (turns - 1) * a_turn_adds + mean_response)
"""
_UPDATE = """
    operations of a forward pass per token [GFLOP] = 2 * params_b \
        + 2 * layers * heads * head_dim * tokens_trained_on_per_step / dialogues_per_step / 1e9
    log probabilities [s] = passes * tokens_trained_on_per_step * operations_of_a_forward_pass_per_token \
        / (gpus * tflops * 1000 * forward_mfu)
    update [s] = update_passes * tokens_trained_on_per_step * operations_of_a_forward_pass_per_token \
        / (gpus * tflops * 1000 * mfu)
"""
# A step is never shorter than its longest response, on any number of GPUs.
_SHORTEST = """
    shortest step [s] = turns * response_tokens * (params_b * sampling.weight_bytes \
        / (bandwidth * sampling.bandwidth_share) + sampling.step_ms / 1000) + training.step_s
"""
_SAMPLED = """
    evaluator [CPU h] = steps * (1 + validation) * evaluator_per_step
    completions [] = steps * (1 + validation) * completions_per_step
    prompt tokens [tokens] = steps * (1 + validation) * prompt_tokens_per_step
    completion tokens [tokens] = steps * (1 + validation) * completion_tokens_per_step
"""
_TRAINED = """
    tokens in updates [tokens] = steps * tokens_trained_on_per_step
    tokens for log-probabilities (old, reference) [tokens] = steps * passes * tokens_trained_on_per_step
"""


@dataclass(frozen=True)
class Contexts:
    """``rows`` to train on; ``shown``: mean number of programs in one."""

    rows: float
    shown: float


def contexts(plan: Plan, tasks: float) -> Contexts:
    """The contexts cut from the dialogues of ``tasks``."""
    plan.sheet.section = "contexts"
    shown = plan.sheet.put(_CONTEXTS, tasks=tasks)
    return Contexts(plan.sheet["contexts"], shown)


def training(plan: Plan, given: Training, cut: Contexts) -> tuple[Stage, float]:
    """One training and its number of steps. Raises DoesNotFit if its state exceeds the GPUs' memory."""
    sheet, put, gpu = plan.sheet, plan.sheet.put, plan.work.on_gpu
    sheet.section = given.name
    if gpu:
        _fits(plan, given)
    steps = given.steps
    if steps is None:
        rows = cut.rows if given.rows is None else given.rows
        steps = put("steps [steps] = epochs * rows / contexts", given, rows=rows)
    opening = plan.prompt(0 if given.on_statements else cut.shown, given.max_prompt_tokens, always=True)
    _tokens(plan, given, opening)
    rollout, verdicts = (0.0, 0.0) if given.offline else _rollout(plan, given)
    step = _step(plan, given, rollout, verdicts)
    part = 0.0
    if given.validate_every and given.validation_tasks and not given.offline:
        part = put(
            "validation, as a part of a step's rollout [] = validation_tasks * validation_contexts * turns "
            "/ validate_every / completions_per_step", given,
        )  # fmt: skip
    start = plan.a["training.start_s" if gpu else "training.cpu_start_s"]
    put(
        "wall time [h] = (steps * (step + validation * (rollout + verdicts)) + start) / 3600", steps=steps,
        step=step, validation=part, rollout=rollout, verdicts=verdicts, start=start,
    )  # fmt: skip
    if gpu:
        put("GPU hours [GPU h] = gpus * wall_time", plan.trainer)
    if not given.offline:
        if gpu:
            put(_SHORTEST, given, plan.work.model, plan.trainer)
        put(_SAMPLED, steps=steps, validation=part)
    put(_TRAINED, steps=steps, passes=given.passes)
    return plan.stage(), steps


def _fits(plan: Plan, given: Training) -> None:
    """The arithmetic of a training itself (cobalt.training.memory), for the longest sequences."""
    sheet, on, model = plan.sheet, plan.trainer, plan.trainer.model
    update = sheet.put("tokens of a pass of the update at most [tokens] = pass_sequences * longest", given)
    if given.offline:
        parts = sharded(model, devices=on.gpus, lora_rank=given.lora_rank, tokens=update, checkpointing=True)
        phases = {"training": parts}
    else:
        said = "tokens of a pass for log-probabilities at most"
        scored = sheet.put(f"{said} [tokens] = scored_sequences * longest", given)
        share = given.memory_share or plan.a["sampling.training_memory_share"]
        phases = online(model, Online(
            on.gpus, on.memory * 1e9 / GIB, share, update, scored, given.longest, lora_rank=given.lora_rank,
            optimiser_offload=given.offload,
        ))  # fmt: skip
    for name, parts in phases.items():
        shown = {part: size / 1e9 for part, size in parts.items()}
        needed = sheet.put(f"memory of a GPU, {name} [GB] = {' + '.join(shown)}", **shown)
        if needed > on.memory:
            said = " + ".join(f"{part} {size:.1f}" for part, size in shown.items() if size)
            raise DoesNotFit(
                f"{given.name}: {model.name} needs {said} = {needed:.0f} GB on each of {on.gpus} x {on.kind} "
                f"({on.memory:g} GB) for the {name}: give more GPUs ('train.gpus'), adapters "
                "('train.lora_rank'), or shorter sequences ('train.max_prompt_tokens', "
                "'train.max_response_tokens')"
            )


def _tokens(plan: Plan, given: Training, opening: float) -> None:
    """Lines of a step: completions, tokens read and made while sampling, tokens trained on."""
    put, made = plan.sheet.put, plan.responses[given.response_tokens]
    put("dialogues per step [] = contexts * completions", given)
    if given.offline:
        response = made.mean_response
        if given.submitted:
            response = min(plan.a[f"{plan.work.tasks_kind}.program_tokens"], given.response_tokens)
        formula = "dialogues_per_step * (opening + response)"
        put(f"tokens trained on per step [tokens] = {formula}", opening=opening, response=response)
        return
    put(_TOKENS, given, made)
    put(_ONE_TURN if given.turns == 1 else _ONLINE, given, made, plan, opening=opening)


def _rollout(plan: Plan, given: Training) -> tuple[float, float]:
    """Seconds of a step's rollout, and of the verdicts that it does not hide."""
    sheet, put, made = plan.sheet, plan.sheet.put, plan.responses[given.response_tokens]
    name = "prompt tokens computed (a context once for its group)"
    computed = put(f"{name} [tokens] = prompt_tokens_per_step / completions", given)
    share = given.memory_share or plan.a["sampling.training_memory_share"]
    dialogues, count = sheet["dialogues per step"], sheet["completions per step"]
    prompt = sheet["prompt tokens per step"] / count
    rollout = sample(
        plan, plan.trainer, made, Requests(dialogues, given.turns, prompt, computed, share, dialogues)
    )
    plan.programs_h("evaluator per step", count, given.tests, made)
    left = "3600 * evaluator_per_step / cores"
    if plan.work.on_gpu:  # the last program's tests at least
        left = f"max(0, {left} - rollout) + tests * test_ms / 1000"
        name = "evaluator cores that keep up with generation"
        put(f"{name} [cores] = 3600 * evaluator_per_step / rollout", rollout=rollout)
    return rollout, put(f"verdicts that generation does not hide [s] = {left}", given, plan, rollout=rollout)


def _step(plan: Plan, given: Training, rollout: float, verdicts: float) -> float:
    """Seconds of a step."""
    put, on, a, gpu = plan.sheet.put, plan.trainer, plan.a, plan.work.on_gpu
    moved = 0.0
    put(
        _UPDATE, given, on, on.model, update_passes=_ADAPTERS if given.lora_rank else _FULL,
        forward_mfu=a["training.forward_mfu" if gpu else "training.cpu_mfu"],
        mfu=a["training.mfu" if gpu else "training.cpu_mfu"],
    )  # fmt: skip
    if given.offload and gpu and not given.lora_rank:
        formula = "mini_batches * params_b * training.offload_bytes / (gpus * training.pcie_gb_s)"
        moved = put(f"optimiser to the GPU and back [s] = {formula}", given, on.model, on)
    rest = "offline_step_s" if given.offline else "step_s" if gpu else "cpu_step_s"
    return put(
        "a step [s] = rollout + verdicts + log_probabilities + update + optimiser + rest", rollout=rollout,
        verdicts=verdicts, optimiser=moved, rest=a[f"training.{rest}"],
    )  # fmt: skip
