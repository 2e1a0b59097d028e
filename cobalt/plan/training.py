"""A training's tokens and time, step by step: rollout, verdicts, log-probabilities, update."""

from __future__ import annotations

from dataclasses import dataclass

from cobalt.plan.basis import Plan, Stage
from cobalt.plan.models import DoesNotFit
from cobalt.plan.sampling import Requests, sample
from cobalt.plan.workload import Training
from cobalt.training.memory import GIB, Online, online, sharded

# Passes over a token, in forward passes: a backward pass is two, checkpointing repeats the forward pass.
# Adapters need no gradients of the weights, which are half of the backward pass.
_FULL, _ADAPTERS = 4, 3


@dataclass(frozen=True)
class Contexts:
    """``rows`` to train on; ``shown``: mean number of programs in one."""

    rows: float
    shown: float


def contexts(plan: Plan, tasks: float) -> Contexts:
    """The contexts cut from the dialogues of ``tasks``."""
    sheet = plan.sheet
    sheet.section = "contexts"
    known = plan.of_tasks("skipped_tasks", "kept_trajectories", "slices")
    formula = "tasks * (1 - skipped_tasks) * (1 + kept_trajectories * slices)"
    rows = sheet.put("contexts", formula, "rows", tasks=tasks, **known)
    shown = sheet.put(
        "programs that a context shows",
        "kept_trajectories * slices * (slices + 1) / 2 / (1 + kept_trajectories * slices)", "", **known,
    )  # fmt: skip
    return Contexts(rows, shown)


def training(plan: Plan, given: Training, cut: Contexts) -> tuple[Stage, float]:
    """One training and its number of steps. Raises DoesNotFit if its state exceeds the GPUs' memory."""
    sheet, gpu = plan.sheet, plan.work.on_gpu
    sheet.section = given.name
    if gpu:
        _fits(plan, given)
    rows = cut.rows if given.rows is None else given.rows
    if given.steps is None:
        steps = sheet.put("steps", "epochs * rows / contexts", "steps", given, rows=rows)
    else:
        steps = sheet.put("steps", "steps", "steps", given)
    opening = plan.prompt(0 if given.on_statements else cut.shown, given.max_prompt_tokens, always=True)
    count, read, out, trained = _tokens(plan, given, opening)
    step, rollout, verdicts, cpu_h = _seconds(plan, given, count, read, trained)
    part = 0.0
    if given.validate_every and given.validation_tasks and not given.offline:
        part = sheet.put(
            "validation, as a part of a step's rollout",
            "validation_tasks * validation_contexts * turns / validate_every / completions", "", given,
            completions=count,
        )  # fmt: skip
    start = plan.a["training.start_s" if gpu else "training.cpu_start_s"]
    sheet.put(
        "wall time", "(steps * (step + validation * (rollout + verdicts)) + start) / 3600", "h", step=step,
        validation=part, rollout=rollout, verdicts=verdicts, start=start,
    )  # fmt: skip
    if gpu:
        sheet.put("GPU hours", "gpus * wall_time", "GPU h", plan.trainer)
        if not given.offline:  # a step is never shorter than its longest response, on any number of GPUs
            sheet.put(
                "shortest step",
                "turns * response_tokens * (params_b * sampling.weight_bytes / "
                "(bandwidth * sampling.bandwidth_share) + sampling.step_ms / 1000) + training.step_s", "s",
                given, plan.work.model, plan.trainer,
            )  # fmt: skip
    for name, unit, value in (
        ("evaluator", "CPU h", cpu_h),
        ("completions", "", count),
        ("prompt tokens", "tokens", read),
        ("completion tokens", "tokens", out),
    ):
        formula = "steps * (1 + validation) * per_step"
        sheet.put(name, formula, unit, validation=part, per_step=value)
    sheet.put("tokens in updates", "steps * tokens", "tokens", tokens=trained)
    said, formula = "tokens for log-probabilities (old, reference)", "steps * passes * tokens"
    sheet.put(said, formula, "tokens", steps=steps, passes=given.passes, tokens=trained)
    return plan.stage(), steps


def _fits(plan: Plan, given: Training) -> None:
    """The arithmetic of a training itself (cobalt.training.memory and phases), for the longest sequences."""
    sheet, on, sizes = plan.sheet, plan.trainer, plan.trainer.model
    said = "tokens of a pass of the update at most"
    update = sheet.put(said, "pass_sequences * longest", "tokens", given)
    if given.offline:
        parts = sharded(sizes, devices=on.gpus, lora_rank=given.lora_rank, tokens=update, checkpointing=True)
        phases = {"training": parts}
    else:
        said = "tokens of a pass for log-probabilities at most"
        scored = sheet.put(said, "scored_sequences * longest", "tokens", given)
        share = given.memory_share or plan.a["sampling.training_memory_share"]
        phases = online(sizes, Online(
            on.gpus, on.memory * 1e9 / GIB, share, update, scored, given.longest, lora_rank=given.lora_rank,
            optimiser_offload=given.offload,
        ))  # fmt: skip
    for name, parts in phases.items():
        shown = {part: size / 1e9 for part, size in parts.items()}
        needed = sheet.put(f"memory of a GPU, {name}", " + ".join(shown), "GB", **shown)
        if needed > on.memory:
            said = " + ".join(f"{part} {size:.1f}" for part, size in shown.items() if size)
            raise DoesNotFit(
                f"{given.name}: {on.model.name} needs {said} = {needed:.0f} GB on each of {on.gpus} x "
                f"{on.kind} ({on.memory:g} GB) for the {name}: give more GPUs ('train.gpus'), adapters "
                "('train.lora_rank'), or shorter sequences ('train.max_prompt_tokens', "
                "'train.max_response_tokens')"
            )


def _tokens(plan: Plan, given: Training, opening: float) -> tuple[float, float, float, float]:
    """Of a step: completions, tokens read and made while sampling, tokens trained on."""
    put, made = plan.sheet.put, plan.responses[given.response_tokens]
    dialogues = put("dialogues per step", "contexts * completions", "", given)
    if given.offline:
        response = made.mean_response
        if given.submitted:
            response = min(plan.of_tasks("program_tokens")["program_tokens"], given.response_tokens)
        formula = "dialogues_per_step * (prompt + response)"
        trained = put("tokens trained on per step", formula, "tokens", prompt=opening, response=response)
        return 0.0, 0.0, 0.0, trained
    out = put(
        "completion tokens per step", "dialogues_per_step * turns * mean_response", "tokens", given, made
    )
    if given.turns == 1:
        read = put("prompt tokens per step", "dialogues_per_step * prompt", "tokens", prompt=opening)
        formula = "prompt_tokens_per_step + completion_tokens_per_step"
        return dialogues, read, out, put("tokens trained on per step", formula, "tokens")
    # Online dialogues keep the whole response: what follows is growth without the shortening.
    added = put(
        "a turn adds (whole response and feedback)", "max(mean_response, growth)", "tokens", made, plan
    )
    read = put(
        "prompt tokens per step", "dialogues_per_step * (turns * opening + turns * (turns - 1) / 2 * added)",
        "tokens", given, opening=opening, added=added,
    )  # fmt: skip
    trained = put(
        "tokens trained on per step", "dialogues_per_step * (opening + (turns - 1) * added + mean_response)",
        "tokens", given, made, opening=opening, added=added,
    )  # fmt: skip
    return dialogues * given.turns, read, out, trained


def _seconds(
    plan: Plan, given: Training, count: float, read: float, trained: float
) -> tuple[float, float, float, float]:
    """Seconds of a step, of these the rollout's and the verdicts' that it does not hide; CPU h of a step."""
    put, on, gpu = plan.sheet.put, plan.trainer, plan.work.on_gpu
    made = plan.responses[given.response_tokens]
    rollout = verdicts = cpu_h = moved = 0.0
    if not given.offline:
        computed = put(
            "prompt tokens computed (a context once for its group)", "prompt_tokens_per_step / completions",
            "tokens", given,
        )  # fmt: skip
        share = given.memory_share or plan.a["sampling.training_memory_share"]
        dialogues = count / given.turns
        requests = Requests(dialogues, given.turns, read / count, computed, share, dialogues)
        rollout = sample(plan, on, made, requests)
        cpu_h = plan.programs_h("evaluator per step", count, given.tests, made)
        hidden = "max(0, 3600 * evaluator_per_step / cores - rollout) + tests * test_ms / 1000"
        verdicts = put(
            "verdicts that generation does not hide (the last program's tests at least)",
            hidden if gpu else "3600 * evaluator_per_step / cores + 0 * rollout", "s", given, plan,
            rollout=rollout,
        )  # fmt: skip
        if gpu and rollout:
            formula = "3600 * evaluator_per_step / rollout"
            put("evaluator cores that keep up with generation", formula, "cores", rollout=rollout)
    put(
        "operations of a forward pass per token",
        "2 * params_b + 2 * layers * heads * head_dim * length / 1e9", "GFLOP", on.model,
        length=trained / (given.contexts * given.completions),
    )  # fmt: skip
    formula = "passes * tokens * operations_of_a_forward_pass_per_token / (gpus * tflops * 1000 * mfu)"
    times = [
        put(name, formula, "s", on, passes=passes, tokens=trained, mfu=plan.a[f"training.{mfu}"])
        for name, passes, mfu in (
            ("log-probabilities", given.passes, "forward_mfu" if gpu else "cpu_mfu"),
            ("update", _ADAPTERS if given.lora_rank else _FULL, "mfu" if gpu else "cpu_mfu"),
        )
    ]
    if given.offload and gpu and not given.lora_rank:
        moved = put(
            "optimiser to the GPU and back",
            "mini_batches * params_b * training.offload_bytes / (gpus * training.pcie_gb_s)", "s", given,
            on.model, on,
        )  # fmt: skip
    rest = "offline_step_s" if given.offline else "step_s" if gpu else "cpu_step_s"
    step = put(
        "a step", "rollout + verdicts + log_probabilities + update + optimiser + rest", "s", rollout=rollout,
        verdicts=verdicts, log_probabilities=times[0], update=times[1], optimiser=moved,
        rest=plan.a[f"training.{rest}"],
    )  # fmt: skip
    return step, rollout, verdicts, cpu_h
