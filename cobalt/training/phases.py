"""What verl's recipes need of a GPU in each phase of a step, from the composed configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cobalt.errors import InputError
from cobalt.training.attention import FLASH, missing
from cobalt.training.memory import GIB, RESERVE_GIB, Sizes, activations, card, gathered, number, sizes

ASLEEP_GIB = 2.0  # what a sleeping vLLM keeps: context, graphs; people report 0.8 to 2.4
FUSED_CHUNK = 512  # tokens whose logits exist at once with verl's use_fused_kernels


@dataclass(frozen=True)
class Online:
    """What verl's FSDP engine and vLLM are set to, as far as memory depends on it.

    ``devices`` share the weights; a GPU has ``card`` GiB, of which vLLM takes a ``share`` and keeps it if it
    is ``held`` (no sleep). ``update``, ``scored``: tokens on a GPU in a pass of the update and of the
    log-probabilities; ``packed``: of these, what a mask of all pairs of tokens is made for. ``weight``,
    ``half``: bytes of a stored parameter and of the computation's. ``parallel``: GPUs of a replica of vLLM;
    ``longest``: tokens of a sequence.
    """

    devices: int
    card: float
    share: float
    update: float
    scored: float
    longest: float
    packed: float = 0.0
    lora_rank: int = 0
    parallel: int = 1
    weight: int = 4
    half: int = 2
    checkpointing: bool = True
    activations_on_host: bool = False
    param_offload: bool = False
    optimiser_offload: bool = False
    state_on_host: bool = False
    resharded: bool = True
    whole_gradients: bool = False
    held: bool = False
    fused: bool = True
    flash: bool = False
    entropy_in_loss: bool = False
    chunked_entropy: bool = False


def online(of: Sizes, given: Online) -> dict[str, dict[str, float]]:
    """Bytes on a GPU in each phase of a step: update, log-probabilities, rollout.

    The reference model's weights wait on the host (verl forces it), so its pass takes less than the policy's.
    """
    half, share = given.half, given.share * given.card * GIB
    adapters = of.adapters(given.lora_rank) if given.lora_rank else 0
    trained = adapters or of.parameters
    on_gpu = 0 if given.state_on_host else given.weight / given.devices
    weights, optimiser = on_gpu * (of.parameters + adapters), 2 * on_gpu * trained
    whole = {trains: gathered(of, half, trains=trains) for trains in (True, False)}
    if not given.resharded:
        whole = {trains: size + half * of.parameters for trains, size in whole.items()}
    inside = activations(of, half, given.checkpointing)
    if given.activations_on_host and given.checkpointing:
        inside -= half * of.layers * of.width
    mask = given.packed**2 * (1 + half)
    rest = {"vllm": share if given.held else ASLEEP_GIB * GIB, "reserve": RESERVE_GIB * GIB}
    return {
        "update": {
            "weights": weights,
            "gradients": on_gpu * trained + (half * trained if given.whole_gradients else 0),
            "optimiser": optimiser,
            "gathered": whole[not given.lora_rank],
            "activations": given.update * inside + mask,
            "logits": _logits(of, given, given.update, trains=True),
            **rest,
        },
        "log-probabilities": {
            "weights": weights,
            "optimiser": 0.0 if given.optimiser_offload else optimiser,
            "gathered": whole[False],
            "activations": given.scored * passing(of, half) + mask,
            "logits": _logits(of, given, given.scored, trains=False),
            **rest,
        },
        "rollout": {
            "weights": 0.0 if given.param_offload else weights,
            "optimiser": 0.0 if given.optimiser_offload else optimiser,
            **rest,
            "vllm": share,
        },
    }


def passing(of: Sizes, half: int) -> float:
    """Bytes per token that a forward pass without gradients holds at most: a layer's gated product."""
    return half * (1.5 * of.width + 4 * of.inner)


def _logits(of: Sizes, given: Online, tokens: float, *, trains: bool) -> float:
    """Bytes of the logits with their copies. Whole ones exist unless verl's fused kernels make the
    log-probabilities from the hidden states, a chunk at a time.
    """
    if given.fused:
        weights = 2 * given.half * of.vocabulary * of.width if trains and not given.lora_rank else 0
        return min(tokens, FUSED_CHUNK) * of.vocabulary * logit_bytes(given, trains=trains) + weights
    return tokens * of.vocabulary * logit_bytes(given, trains=trains)


def logit_bytes(given: Online, *, trains: bool) -> float:
    """Bytes per logit at the peak, its own included, of verl's functions for log-probability and entropy.

    Fused: three copies in fp32, five in the backward pass. Else with gradients: flash attention's
    cross-entropy writes them over the logits; plain torch keeps a softmax in fp32 and two copies for the
    gradient. The entropy's softmax and product are fp32, with gradients three times that.
    """
    half = given.half
    if given.fused:
        return half + (20 if trains else 12)
    chosen = 0 if given.flash else 4 + 2 * half
    if trains:
        return half + chosen + (24 + half if given.entropy_in_loss else 0)
    return half + (0 if given.chunked_entropy else 8)


def memory(config: Any, longest: int) -> str:
    """The arithmetic of one of verl's recipes whose longest sequence has ``longest`` tokens, in one line.

    Raises InputError with it if a phase cannot fit the GPU. On CPU the state alone is named.
    """
    of = sizes(config.actor_rollout_ref.model.path)
    if of is None:
        return "not estimated (the model's config.json has not the usual sizes)"
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    millions = f"{of.parameters / 1e6:,.1f} M parameters"
    if config.trainer.device == "cpu":
        state = 16 * of.parameters / devices / GIB
        return f"{millions}, {state:,.2f} GiB for weights, gradients and optimiser, activations not counted"
    has, what = card(config)
    given = settings(config, longest, has)
    phases = online(of, given)
    said = "; ".join(
        f"{name} " + " + ".join(f"{part} {number(size / GIB)}" for part, size in parts.items() if size)
        + f" = {number(sum(parts.values()) / GIB)}"
        for name, parts in phases.items()
    )  # fmt: skip
    said = (
        f"{millions} on {given.devices} device{'s' * (given.devices > 1)}, each in GiB: {said}; at most "
        f"{given.update:,.0f} tokens in a pass of the update, {given.scored:,.0f} of log-probabilities, "
        f"vocabulary {of.vocabulary:,}; {what} has {number(has)} GiB"
    )
    largest = max(phases, key=lambda name: sum(phases[name].values()))
    if sum(phases[largest].values()) > has * GIB:
        raise InputError(f"the training does not fit ({largest}): {said}. {_ADVICE[largest]}")
    sampler = sampling(of, given)
    if sampler > given.share * has * GIB:
        raise InputError(
            f"the rollout does not fit: weights and one sequence of {longest:,} tokens take "
            f"{number(sampler / GIB)} GiB on each of {given.parallel} GPUs, and vLLM has "
            f"{number(given.share * has)}: raise rollout.gpu_memory_utilization or "
            "rollout.tensor_model_parallel_size"
        )
    return said


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


def sampling(of: Sizes, given: Online) -> float:
    """Bytes that vLLM needs at least on each GPU of a replica: weights, one sequence, and its activations."""
    cache = 2 * of.layers * of.kv_heads * of.head_dim * given.longest
    return given.half * (of.parameters + cache) / given.parallel + ASLEEP_GIB * GIB


def settings(config: Any, longest: int, card: float) -> Online:
    """What a composed configuration sets for ``longest`` tokens on GPUs with ``card`` GiB."""
    model, actor = config.actor_rollout_ref.model, config.actor_rollout_ref.actor
    rollout, ref, fsdp = config.actor_rollout_ref.rollout, config.actor_rollout_ref.ref, actor.fsdp_config
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    apart = int(fsdp.ulysses_sequence_parallel_size)
    passes = [(rollout.log_prob_use_dynamic_bsz, rollout.log_prob_micro_batch_size_per_gpu, rollout)]
    if actor.use_kl_loss or config.algorithm.use_kl_in_reward:
        passes.append((ref.log_prob_use_dynamic_bsz, ref.log_prob_micro_batch_size_per_gpu, ref))
    scored = [
        _tokens(dynamic, rows, one.log_prob_max_token_len_per_gpu, longest, apart)
        for dynamic, rows, one in passes
    ]
    update = _tokens(
        actor.use_dynamic_bsz, actor.ppo_micro_batch_size_per_gpu, actor.ppo_max_token_len_per_gpu, longest,
        apart,
    )  # fmt: skip
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
        packed=most if most > longest / apart and attention in ("sdpa", "eager") else 0.0,
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


def _tokens(dynamic: Any, rows: Any, bound: Any, longest: int, apart: int) -> float:
    """Tokens of a pass on one GPU."""
    return float(max(bound, longest / apart)) if dynamic else int(rows) * longest / apart
