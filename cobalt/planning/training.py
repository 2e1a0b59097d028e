"""A training's tokens and time, step by step: rollout, verdicts, log-probabilities, update."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cobalt.planning.arithmetic import Sheet
from cobalt.planning.devices import DoesNotFit, Job, sample
from cobalt.planning.lengths import Response, prompt
from cobalt.planning.stages import Plan, Stage
from cobalt.planning.workload import Training
from cobalt.training.memory import GIB, Online, online, sharded

# Passes over a token, in forward passes: a backward pass is two, checkpointing repeats the forward pass.
# Adapters need no gradients of the weights, which are half of the backward pass.
_FULL, _ADAPTERS = 4, 3


@dataclass(frozen=True)
class Step:
    """Tokens of one step: ``read`` and ``made`` while sampling, ``trained`` in the update."""

    completions: float
    read: float
    made: float
    trained: float


@dataclass(frozen=True)
class Contexts:
    """``rows`` to train on; ``shown``: mean number of programs in one, ``spread`` its deviation."""

    rows: float
    shown: float
    spread: float


def contexts(plan: Plan, tasks: float) -> Contexts:
    """The contexts cut from the dialogues of ``tasks``."""
    sheet, a, kind = plan.sheet, plan.a, plan.work.tasks_kind
    sheet.section = "contexts"
    kept, slices = a[f"{kind}.kept_trajectories"], a[f"{kind}.slices"]
    rows = sheet.put(
        "contexts", "tasks * (1 - skipped) * (1 + kept * slices)", "rows", tasks=tasks,
        skipped=a[f"{kind}.skipped_tasks"], kept=kept, slices=slices,
    )  # fmt: skip
    shown = sheet.put(
        "programs that a context shows", "kept * slices * (slices + 1) / 2 / (1 + kept * slices)", "",
        kept=kept, slices=slices,
    )  # fmt: skip
    # As if the number shown were uniform from 0 (an opening) to `slices`.
    return Contexts(rows, shown, math.sqrt(((slices + 1) ** 2 - 1) / 12))


def training(plan: Plan, given: Training, cut: Contexts) -> tuple[Stage, float]:
    """One training and its number of steps. Raises DoesNotFit if its state exceeds the GPUs' memory."""
    sheet, a, on = plan.sheet, plan.a, plan.trainer
    sheet.section = given.name
    gpu, kind = plan.work.on_gpu, plan.work.tasks_kind
    if gpu:
        _fits(plan, given)
    rows, steps = cut.rows if given.rows is None else given.rows, given.steps
    if steps is None:
        steps = sheet.put(
            "steps",
            "epochs * rows / contexts",
            "steps",
            epochs=given.epochs,
            rows=rows,
            contexts=given.contexts,
        )
    else:
        sheet.put("steps", "steps", "steps", steps=steps)
    made = plan.responses[given.response_tokens]
    opening = prompt(
        sheet, plan.prompts, 0 if given.on_statements else cut.shown, given.max_prompt_tokens,
        0 if given.on_statements else cut.spread, always=True,
    )  # fmt: skip
    step = _tokens(
        sheet,
        given,
        made,
        opening,
        plan.prompts.growth,
        a[f"{kind}.program_tokens"] if given.submitted else 0.0,
    )
    seconds, cpu_h = _seconds(plan, given, step, made, opening)
    part = 0.0
    if given.validate_every and given.validation_tasks and not given.offline:
        part = sheet.put(
            "validation, as a part of a step's rollout", "tasks * contexts * turns / every / completions", "",
            tasks=given.validation_tasks, contexts=given.validation_contexts, turns=given.turns,
            every=given.validate_every, completions=step.completions,
        )  # fmt: skip
    whole, rollout, verdicts = seconds
    start = a["training.start_s" if gpu else "training.cpu_start_s"]
    wall_h = sheet.put(
        "wall time", "(steps * (step + validation * (rollout + verdicts)) + start) / 3600", "h", steps=steps,
        step=whole, validation=part, rollout=rollout, verdicts=verdicts, start=start,
    )  # fmt: skip
    gpu_h = 0.0
    if gpu:
        gpu_h = sheet.put("GPU hours", "gpus * wall_h", "GPU h", gpus=on.gpus, wall_h=wall_h)

    def sampled(name: str, unit: str, value: float) -> float:
        formula = "steps * (1 + validation) * per_step"
        return sheet.put(name, formula, unit, steps=steps, validation=part, per_step=value)

    stage = Stage(
        given.name, wall_h, gpu_h, sampled("evaluator", "CPU h", cpu_h),
        sampled("completions", "", step.completions), sampled("prompt tokens", "tokens", step.read),
        sampled("completion tokens", "tokens", step.made),
        sheet.put("tokens in updates", "steps * tokens", "tokens", steps=steps, tokens=step.trained),
        sheet.put(
            "tokens for log-probabilities (old, reference)", "steps * passes * tokens", "tokens", steps=steps,
            passes=given.reference + given.old_log_probs, tokens=step.trained,
        ),
    )  # fmt: skip
    return stage, steps


def _fits(plan: Plan, given: Training) -> None:
    """The arithmetic of a training itself (cobalt.training.memory), for the longest sequences."""
    sheet, a, on = plan.sheet, plan.a, plan.trainer
    longest = given.longest or given.max_prompt_tokens + given.response_tokens
    update = sheet.put("tokens of a pass of the update at most", "sequences * tokens", "tokens",
                       sequences=given.pass_sequences, tokens=longest)  # fmt: skip
    if given.offline:
        phases = {"training": sharded(
            on.model.sizes, devices=on.gpus, lora_rank=given.lora_rank, tokens=update, checkpointing=True
        )}  # fmt: skip
    else:
        scored = sheet.put("tokens of a pass for log-probabilities at most", "sequences * tokens", "tokens",
                           sequences=given.scored_sequences, tokens=longest)  # fmt: skip
        phases = online(on.model.sizes, Online(
            on.gpus, on.memory * 1e9 / GIB, given.memory_share or a["sampling.training_memory_share"],
            update, scored, longest, lora_rank=given.lora_rank, optimiser_offload=given.offload,
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


def _tokens(
    sheet: Sheet, given: Training, made: Response, opening: float, growth: float, program: float
) -> Step:
    groups = sheet.put(
        "dialogues per step", "contexts * completions", contexts=given.contexts, completions=given.completions
    )
    if given.offline:
        trained = sheet.put(
            "tokens trained on per step", "completions * (prompt + response)", "tokens", completions=groups,
            prompt=opening, response=min(program, given.response_tokens) if given.submitted else made.mean,
        )  # fmt: skip
        return Step(0.0, 0.0, 0.0, trained)
    turns = given.turns
    count = groups * turns
    out = sheet.put(
        "completion tokens per step", "dialogues * turns * mean", "tokens", dialogues=groups, turns=turns,
        mean=made.mean,
    )  # fmt: skip
    if turns == 1:
        read = sheet.put("prompt tokens per step", "completions * prompt", "tokens",
                         completions=groups, prompt=opening)  # fmt: skip
        trained = sheet.put(
            "tokens trained on per step", "prompt_tokens + completion_tokens", "tokens", prompt_tokens=read,
            completion_tokens=out,
        )  # fmt: skip
        return Step(count, read, out, trained)
    # Online dialogues keep the whole response: what follows is growth without the shortening.
    kept = sheet.put(
        "a turn adds (whole response and feedback)", "max(response, growth)", "tokens", response=made.mean,
        growth=growth,
    )  # fmt: skip
    read = sheet.put(
        "prompt tokens per step", "dialogues * (turns * opening + turns * (turns - 1) / 2 * added)", "tokens",
        dialogues=groups, turns=turns, opening=opening, added=kept,
    )  # fmt: skip
    trained = sheet.put(
        "tokens trained on per step", "dialogues * (opening + (turns - 1) * added + response)", "tokens",
        dialogues=groups, opening=opening, turns=turns, added=kept, response=made.mean,
    )  # fmt: skip
    return Step(count, read, out, trained)


def _seconds(
    plan: Plan, given: Training, step: Step, made: Response, opening: float
) -> tuple[tuple[float, float, float], float]:
    """((seconds of a step, of these the rollout's, the verdicts' that it does not hide), its CPU h)."""
    sheet, a, on, gpu = plan.sheet, plan.a, plan.trainer, plan.work.on_gpu
    rollout = verdicts = cpu_h = 0.0
    if not given.offline:
        computed = sheet.put(
            "prompt tokens computed (a context once for its group)", "tokens / completions", "tokens",
            tokens=step.read, completions=given.completions,
        )  # fmt: skip
        job = Job(
            step.completions / given.turns, given.turns, step.read / step.completions, computed, made,
            step.completions / given.turns, given.memory_share or a["sampling.training_memory_share"],
        )  # fmt: skip
        rollout = sample(sheet, a, on, job)
        cut = made.cut if plan.without_program else 0.0
        cpu_h = plan.programs_h("evaluator per step", step.completions, given.tests, cut)
        hidden = "max(0, 3600 * cpu_h / cores - rollout) + tests * ms / 1000"
        verdicts = sheet.put(
            "verdicts that generation does not hide (the last program's tests at least)",
            hidden if gpu else "3600 * cpu_h / cores + 0 * rollout", "s", cpu_h=cpu_h, cores=plan.cores,
            rollout=rollout, tests=given.tests, ms=plan.test_ms,
        )  # fmt: skip
    length = step.trained / (given.contexts * given.completions)
    flops = sheet.put(
        "operations of a forward pass per token",
        "2 * params_B + 2 * layers * heads * head_dim * length / 1e9", "GFLOP",
        params_B=on.model.params_b, layers=on.model.layers, heads=on.model.heads,
        head_dim=on.model.head_dim, length=length,
    )  # fmt: skip
    passes = given.reference + given.old_log_probs
    forward = sheet.put(
        "log-probabilities", "passes * tokens * GFLOP / (gpus * TFLOPs * 1000 * mfu)", "s", passes=passes,
        tokens=step.trained, GFLOP=flops, gpus=on.gpus, TFLOPs=on.tflops,
        mfu=a["training.forward_mfu" if gpu else "training.cpu_mfu"],
    )  # fmt: skip
    update = sheet.put(
        "update", "passes * tokens * GFLOP / (gpus * TFLOPs * 1000 * mfu)", "s",
        passes=_ADAPTERS if given.lora else _FULL, tokens=step.trained, GFLOP=flops, gpus=on.gpus,
        TFLOPs=on.tflops, mfu=a["training.mfu" if gpu else "training.cpu_mfu"],
    )  # fmt: skip
    moved = 0.0
    if given.offload and gpu and not given.lora:
        moved = sheet.put(
            "optimiser to the GPU and back", "mini_batches * params_B * bytes / (gpus * GB_per_s)", "s",
            mini_batches=given.mini_batches, params_B=on.model.params_b, bytes=a["training.offload_bytes"],
            gpus=on.gpus, GB_per_s=a["training.pcie_gb_s"],
        )  # fmt: skip
    whole = sheet.put(
        "a step", "rollout + verdicts + log_probabilities + update + optimiser + rest", "s", rollout=rollout,
        verdicts=verdicts, log_probabilities=forward, update=update, optimiser=moved,
        rest=a["training.offline_step_s" if given.offline else "training.step_s" if gpu else
               "training.cpu_step_s"],
    )  # fmt: skip
    return (whole, rollout, verdicts), cpu_h
