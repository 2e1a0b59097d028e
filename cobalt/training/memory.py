"""Sizes of a model, and the bytes that a training holds on a GPU: of offline recipes, of verl's by phase."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIB = 2**30
CHUNK = 1024  # tokens whose logits exist at once (cobalt.training.sharded)
FUSED_CHUNK = 512  # and with verl's use_fused_kernels
RESERVE_GIB = 3.0  # context, communication, fragmentation
ASLEEP_GIB = 2.0  # what a sleeping vLLM keeps: context, graphs; people report 0.8 to 2.4


@dataclass(frozen=True)
class Sizes:
    """Of a dense decoder with gated MLP; norms and biases are left out (under 0.1 %)."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: dict[str, Any]) -> Sizes:
        """By ``config.json``. Raises KeyError, TypeError, ValueError for another kind of model."""
        if any("expert" in name for name in config):
            raise ValueError("a mixture of experts")
        width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        return cls(
            width, int(config["num_hidden_layers"]), heads, int(config.get("num_key_value_heads") or heads),
            int(config.get("head_dim") or width // heads), int(config["intermediate_size"]),
            int(config["vocab_size"]), bool(config.get("tie_word_embeddings")),
        )  # fmt: skip

    @property
    def embeddings(self) -> int:
        """Parameters of embedding and head."""
        return self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def layer(self) -> int:
        """Parameters of a layer."""
        return 2 * self.width * self.head_dim * (self.heads + self.kv_heads) + 3 * self.width * self.inner

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.embeddings + self.layers * self.layer

    def adapters(self, rank: int) -> int:
        """Parameters of adapters on every linear layer: ``rank`` times the sum of inputs and outputs."""
        attention = 4 * self.width + 2 * self.head_dim * (self.heads + self.kv_heads)
        return rank * self.layers * (attention + 3 * (self.width + self.inner))


def sizes(folder: Path | str) -> Sizes | None:
    """Of a model's folder, or of a hub name whose ``config.json`` is cached; None if they are not there."""
    path = Path(folder) / "config.json"
    try:
        if not Path(folder).is_dir():
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(str(folder), "config.json", local_files_only=True))
        return Sizes.of(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def activations(of: Sizes, half: int, checkpointing: bool) -> float:
    """Bytes per token that forward and backward pass hold at most, with attention that keeps no scores.

    A layer keeps its norms' inputs in fp32 and their outputs, queries, keys and values (normalised in some
    models), and four times the inner width; its backward pass adds gradients of the gated product.
    """
    kept = 8 * of.width + 5 * of.head_dim * (of.heads + of.kv_heads) + 4 * of.inner
    if checkpointing:
        return half * (of.layers * of.width + kept + 2.5 * of.width + 2 * of.inner)
    return half * (of.layers * kept + 14 * of.width)


def passing(of: Sizes, half: int) -> float:
    """Bytes per token that a forward pass without gradients holds at most: a layer's gated product."""
    return half * (1.5 * of.width + 4 * of.inner)


def _gathered(of: Sizes, half: int, *, trains: bool) -> float:
    """Embeddings and two layers in whole, and their gradients before they are sharded."""
    whole = half * (of.embeddings + 2 * of.layer)
    if trains:
        whole += half * (of.embeddings + of.layer) + 4 * max(of.embeddings, of.layer)
    return whole


def sharded(
    of: Sizes, *, devices: int, lora_rank: int, tokens: float, checkpointing: bool, cpu: bool = False
) -> dict[str, float]:
    """Bytes on one of ``devices`` that share the model of an offline recipe.

    ``tokens`` of a pass, padding included. Weights and their gradients are fp32 with two moments, adapters
    on frozen bf16 weights likewise (on CPU all is fp32). ``gathered``: the embeddings, which stay whole
    during a pass, and two layers in the dtype of the computation, with what their gradients take.
    """
    half = 4 if cpu else 2
    trained = of.adapters(lora_rank) if lora_rank else of.parameters
    return {
        "weights": (4 * trained + (half * of.parameters if lora_rank else 0)) / devices,
        "gradients": 4 * trained / devices,
        "optimiser": 8 * trained / devices,
        "gathered": _gathered(of, half, trains=not lora_rank),
        "activations": tokens * activations(of, half, checkpointing),
        "logits": min(tokens, CHUNK) * of.vocabulary * (8 + 2 * half),
        "reserve": 0.0 if cpu else RESERVE_GIB * GIB,
    }


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
    whole = 0 if given.resharded else half * of.parameters
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
            "gathered": _gathered(of, half, trains=not given.lora_rank) + whole,
            "activations": given.update * inside + mask,
            "logits": _logits(of, given, given.update, trains=True),
            **rest,
        },
        "log-probabilities": {
            "weights": weights,
            "optimiser": 0.0 if given.optimiser_offload else optimiser,
            "gathered": _gathered(of, half, trains=False) + whole,
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
    if not trains:
        return half + (0 if given.chunked_entropy else 8)
    chosen = 0 if given.flash else 4 + 2 * half
    return half + chosen + (24 + half if given.entropy_in_loss else 0)
