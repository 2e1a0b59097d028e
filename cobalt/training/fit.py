"""The plan of a composed training, and whether it fits its devices (cobalt.training.memory)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cobalt.errors import InputError
from cobalt.training.attention import FLASH, missing
from cobalt.training.data import DataCheck
from cobalt.training.memory import ASLEEP_GIB, GIB, Online, Sizes, online, sharded, sizes

CARD_GIB = 80.0  # where the card is not at hand
_ADVICE = {
    "update": "Weights, gradients and optimiser are divided by the GPUs: give more (trainer.n_gpus_per_node, "
    "trainer.nnodes), or adapters (actor_rollout_ref.model.lora_rank); passes shrink with "
    "actor.ppo_micro_batch_size_per_gpu or actor.ppo_max_token_len_per_gpu and data.max_prompt_length and "
    "max_response_length, logits with actor_rollout_ref.model.use_fused_kernels=true",
    "log-probabilities": "Lower rollout.log_prob_micro_batch_size_per_gpu and ref.log_prob_micro_batch_size_"
    "per_gpu (no effect on results), or set actor_rollout_ref.model.use_fused_kernels=true",
    "rollout": "Lower rollout.gpu_memory_utilization, or let state wait on the host while vLLM samples "
    "(actor.fsdp_config.optimizer_offload=true, param_offload=true)",
}


def devices_of(config: Any) -> int:
    """How many devices a composed training has."""
    return int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)


@dataclass(frozen=True)
class Plan:
    """Sizes of a training. ``samples``: completions in all; tokens are means and upper bounds per run."""

    steps: int
    first_step: int
    contexts: int
    contexts_per_step: int
    samples_per_context: int
    samples: int
    epochs: float
    optimizer_steps: int
    overlong: int
    mean_prompt_tokens: float
    longest_prompt_tokens: int
    prompt_tokens: int
    response_tokens_at_most: int
    validation_rows: int

    def lines(self) -> list[str]:
        """The plan for people."""
        resumed = f" (steps {self.first_step} to {self.steps} are left)" if self.first_step > 1 else ""
        return [
            f"steps: {self.steps}{resumed}, each {self.contexts_per_step} contexts x "
            f"{self.samples_per_context} completions, {self.optimizer_steps} optimiser steps",
            f"data: {self.contexts} contexts ({self.overlong} overlong left out), {self.epochs:.1f} epochs, "
            f"{self.validation_rows} validation rows",
            f"tokens: {self.mean_prompt_tokens:.0f} per prompt, {self.longest_prompt_tokens} at most; in all "
            f"{self.prompt_tokens:,} of prompts and at most {self.response_tokens_at_most:,} of responses",
            f"samples: {self.samples:,}",
        ]


def make_plan(
    config: Any, train: DataCheck, validation: DataCheck | None, steps: int | None, done: int
) -> Plan:
    """Work out the plan; ``done`` steps are in a checkpoint.

    ``steps`` None: as many as ``trainer.total_epochs`` epochs have.
    Raises InputError if batch sizes do not divide, or the data hold less than one batch.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    batch, n, mini = int(config.data.train_batch_size), int(rollout.n), int(actor.ppo_mini_batch_size)
    per_epoch = train.rows // batch
    total = steps if steps is not None else per_epoch * int(config.trainer.total_epochs)
    _refuse_sizes(config, train.rows, total)
    samples = total * batch * n
    return Plan(
        steps=total,
        first_step=done + 1,
        contexts=train.rows,
        contexts_per_step=batch,
        samples_per_context=n,
        samples=samples,
        epochs=total / per_epoch,
        optimizer_steps=batch // mini * int(actor.ppo_epochs),
        overlong=train.overlong,
        mean_prompt_tokens=train.mean_prompt,
        longest_prompt_tokens=train.longest_prompt,
        prompt_tokens=round(samples * train.mean_prompt),
        response_tokens_at_most=samples * int(config.data.max_response_length),
        validation_rows=validation.rows if validation is not None else 0,
    )


def _refuse_sizes(config: Any, rows: int, steps: int) -> None:
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    batch, n, mini = int(config.data.train_batch_size), int(rollout.n), int(actor.ppo_mini_batch_size)
    micro, parallel = int(actor.ppo_micro_batch_size_per_gpu), int(rollout.tensor_model_parallel_size)
    devices = devices_of(config)
    if n < 2 and config.cobalt.method != "offline":
        raise InputError(f"actor_rollout_ref.rollout.n={n}: a group needs at least 2 completions")
    for what, number, by, divisor in (
        ("data.train_batch_size", batch, "actor.ppo_mini_batch_size", mini),
        ("actor.ppo_mini_batch_size x rollout.n", mini * n, "devices", devices),
        ("samples of a mini-batch and device", mini * n // devices, "ppo_micro_batch_size_per_gpu", micro),
        ("devices", devices, "rollout.tensor_model_parallel_size", parallel),
    ):
        if number % divisor:
            raise InputError(f"{what}={number} is not a multiple of {by}={divisor}")
    if rows < batch:
        raise InputError(
            f"training data: {rows} rows that fit are less than one batch (data.train_batch_size={batch}): "
            "collect more trajectories, raise data.max_prompt_length if prompts were left out, or give a "
            "smaller data.train_batch_size (a multiple of actor_rollout_ref.actor.ppo_mini_batch_size)"
        )
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")


def check_blocks(rows: Any, actor: Any, mini: int) -> None:
    """Blocks of the loss lie within the rows of a mini-batch on a device, so they must fill them."""
    number = rows is None or (isinstance(rows, int) and rows > 0)
    if not number or (rows and actor.loss_agg_mode == "token-mean" and mini % rows):
        raise InputError(
            f"cobalt.token_mean_over={rows}: must be null or a number of sequences that divides the {mini} "
            "of a mini-batch on each device (actor.ppo_mini_batch_size x rollout.n / devices)"
        )


def fit(config: Any, longest: int) -> str:
    """The arithmetic of a training whose longest sequence has ``longest`` tokens, in one line.

    Raises InputError with it if the training cannot fit the device it will run on (no GPU here: one of
    `CARD_GIB`; CPU: the state of verl's recipes is only named, offline ones share the host's memory).
    """
    of = sizes(config.actor_rollout_ref.model.path)
    if of is None:
        return "not estimated (the model's config.json has not the usual sizes)"
    return (_offline if config.cobalt.method == "offline" else _online)(of, config, longest)


def _offline(of: Sizes, config: Any, tokens: int) -> str:
    model = config.actor_rollout_ref.model
    devices, rank = int(config.trainer.n_gpus_per_node), int(model.lora_rank)
    micro = int(config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu)
    parts = sharded(
        of, devices=devices, lora_rank=rank, tokens=micro * tokens, cpu=config.trainer.device == "cpu",
        checkpointing=bool(model.enable_gradient_checkpointing),
    )  # fmt: skip
    has, what = _card(config)
    trained = of.adapters(rank) if rank else of.parameters
    adapters = f" (adapters of rank {rank})" if rank else ""
    said = (
        f"{of.parameters / 1e6:,.1f} M parameters, {trained / 1e6:,.1f} M trained{adapters}, on {devices} "
        f"device{'s' * (devices > 1)}: each {_sum(parts)} GiB; passes of {micro} x {tokens} tokens, "
        f"vocabulary {of.vocabulary:,}; {what} has {_gib(has)} GiB"
    )
    if sum(parts.values()) > has * GIB:
        raise InputError(
            f"the training does not fit: {said}. Weights, gradients and optimiser take 4 + 4 + 8 bytes per "
            "trained parameter, divided by the devices: give more GPUs (trainer.n_gpus_per_node), adapters "
            "(actor_rollout_ref.model.lora_rank; train.lora_rank of a run), a smaller "
            "actor.ppo_micro_batch_size_per_gpu, or shorter data.max_prompt_length and max_response_length"
        )
    return said


def _online(of: Sizes, config: Any, longest: int) -> str:
    millions = f"{of.parameters / 1e6:,.1f} M parameters"
    if config.trainer.device == "cpu":
        state = 16 * of.parameters / devices_of(config) / GIB
        return f"{millions}, {state:,.2f} GiB for weights, gradients and optimiser, activations not counted"
    has, what = _card(config)
    given = settings(config, longest, has)
    phases = online(of, given)
    said = (
        f"{millions} on {given.devices} device{'s' * (given.devices > 1)}, each in GiB: "
        + "; ".join(f"{name} {_sum(parts)}" for name, parts in phases.items())
        + f"; at most {given.update:,.0f} tokens in a pass of the update, {given.scored:,.0f} of "
        f"log-probabilities, vocabulary {of.vocabulary:,}; {what} has {_gib(has)} GiB"
    )
    largest = max(phases, key=lambda name: sum(phases[name].values()))
    if sum(phases[largest].values()) > has * GIB:
        raise InputError(f"the training does not fit ({largest}): {said}. {_ADVICE[largest]}")
    # vLLM needs on each GPU of a replica at least: weights, one sequence, and its activations
    cache = 2 * of.layers * of.kv_heads * of.head_dim * given.longest
    least = given.half * (of.parameters + cache) / given.parallel + ASLEEP_GIB * GIB
    if least > given.share * has * GIB:
        raise InputError(
            f"the rollout does not fit: weights and one sequence of {longest:,} tokens take "
            f"{_gib(least / GIB)} GiB on each of {given.parallel} GPUs, and vLLM has "
            f"{_gib(given.share * has)}: raise rollout.gpu_memory_utilization or "
            "rollout.tensor_model_parallel_size"
        )
    return said


def settings(config: Any, longest: int, card: float) -> Online:
    """What a composed configuration sets for ``longest`` tokens on GPUs with ``card`` GiB."""
    policy, devices = config.actor_rollout_ref, devices_of(config)
    model, actor, rollout, fsdp = policy.model, policy.actor, policy.rollout, policy.actor.fsdp_config
    each = longest / int(fsdp.ulysses_sequence_parallel_size)

    def tokens(dynamic: Any, rows: Any, bound: Any) -> float:
        return float(max(bound, each)) if dynamic else int(rows) * each

    update = tokens(
        actor.use_dynamic_bsz, actor.ppo_micro_batch_size_per_gpu, actor.ppo_max_token_len_per_gpu
    )
    scored = [
        tokens(
            one.log_prob_use_dynamic_bsz,
            one.log_prob_micro_batch_size_per_gpu,
            one.log_prob_max_token_len_per_gpu,
        )
        for one in (rollout, policy.ref)
        if one is rollout or actor.use_kl_loss or config.algorithm.use_kl_in_reward
    ]
    most = max(update, *scored)
    attention = model.override_config.get("attn_implementation", "flash_attention_2")
    mixed = fsdp.get("mixed_precision") or {}
    return Online(
        devices=min(int(fsdp.fsdp_size), devices) if int(fsdp.fsdp_size) > 0 else devices,
        card=card,
        share=float(rollout.gpu_memory_utilization or 0.0),
        update=update,
        scored=max(scored),
        longest=longest,
        # one sequence needs no mask, which flash attention never has
        packed=most if most > each and attention in ("sdpa", "eager") else 0.0,
        lora_rank=int(model.lora_rank),
        parallel=int(rollout.tensor_model_parallel_size),
        weight=4 if "32" in str(fsdp.model_dtype) else 2,
        half=4 if "32" in str(mixed.get("param_dtype", "bf16")) else 2,
        checkpointing=bool(model.enable_gradient_checkpointing),
        activations_on_host=bool(model.enable_activation_offload),
        param_offload=bool(fsdp.param_offload),
        optimiser_offload=bool(fsdp.optimizer_offload),
        state_on_host=bool(fsdp.offload_policy) and actor.strategy == "fsdp2",
        resharded=bool(fsdp.reshard_after_forward),
        whole_gradients=bool(fsdp.use_no_sync_for_gradient_accumulation),
        held=not rollout.free_cache_engine,
        fused=bool(model.use_fused_kernels),
        flash=missing(FLASH) is None,
        entropy_in_loss=bool(actor.calculate_entropy or actor.entropy_coeff),
        chunked_entropy=bool(fsdp.entropy_from_logits_with_chunking),
    )


def _sum(parts: Mapping[str, float]) -> str:
    shown = " + ".join(f"{name} {_gib(size / GIB)}" for name, size in parts.items() if size)
    return f"{shown} = {_gib(sum(parts.values()) / GIB)}"


def _gib(gib: float) -> str:
    """As shown: small ones with two digits after the point."""
    return f"{gib:,.1f}" if gib >= 10 else f"{gib:.2f}"


def _card(config: Any) -> tuple[float, str]:
    """(GiB for one process, what has them)."""
    if config.trainer.device == "cpu":
        import psutil

        share = psutil.virtual_memory().total / int(config.trainer.n_gpus_per_node) / GIB
        return share, "a process's share of this machine"
    if config.cobalt.card_gib is not None:
        return float(config.cobalt.card_gib), "a card (cobalt.card_gib)"
    import torch

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        return found.total_memory / GIB, found.name
    return CARD_GIB, "a card (none is here, one of 80 GiB is assumed; cobalt.card_gib says otherwise)"
