"""What a training needs of a device's memory, from the model's own configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

GIB = 2**30
CARD_GIB = 80.0  # where the card is not at hand
CHUNK = 1024  # tokens whose logits exist at once (cobalt.training.sharded)
RESERVE_GIB = 3.0  # context, communication, fragmentation


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
    attention = 5 * of.head_dim * (of.heads + of.kv_heads)
    kept = 8 * of.width + attention + 4 * of.inner
    if checkpointing:
        return half * (of.layers * of.width + kept + 2.5 * of.width + 2 * of.inner)
    return half * (of.layers * kept + 14 * of.width)


def sharded(
    of: Sizes, *, devices: int, lora_rank: int, tokens: float, checkpointing: bool, cpu: bool = False
) -> dict[str, float]:
    """Bytes on one of ``devices`` that share the model of an offline recipe (`cobalt.training.sharded`).

    ``tokens`` of a pass, padding included. Weights and their gradients are fp32 with two moments, adapters
    on frozen bf16 weights likewise (on CPU all is fp32). ``gathered``: the embeddings, which stay whole
    during a pass, and two layers in the dtype of the computation, with what their gradients take.
    """
    half = 4 if cpu else 2
    trained = of.adapters(lora_rank) if lora_rank else of.parameters
    weights = 4 * trained + (half * of.parameters if lora_rank else 0)
    return {
        "weights": weights / devices,
        "gradients": 4 * trained / devices,
        "optimiser": 8 * trained / devices,
        "gathered": gathered(of, half, trains=not lora_rank),
        "activations": tokens * activations(of, half, checkpointing),
        "logits": min(tokens, CHUNK) * of.vocabulary * (8 + 2 * half),
        "reserve": 0.0 if cpu else RESERVE_GIB * GIB,
    }


def gathered(of: Sizes, half: int, *, trains: bool) -> float:
    """Embeddings and two layers in whole, and their gradients before they are sharded."""
    whole = half * (of.embeddings + 2 * of.layer)
    if trains:
        whole += half * (of.embeddings + of.layer) + 4 * max(of.embeddings, of.layer)
    return whole


def fit(config: Any, tokens: int) -> str:
    """The arithmetic of an offline training whose longest sequence has ``tokens``, in one line.

    Raises InputError with it if the training cannot fit the device it will run on (CPU: the host's memory
    shared by all processes; no GPU here: one of `CARD_GIB`).
    """
    of, given = sizes(config.actor_rollout_ref.model.path), config.actor_rollout_ref.model
    if of is None:
        return "not estimated (the model's config.json has not the usual sizes)"
    devices, cpu = int(config.trainer.n_gpus_per_node), config.trainer.device == "cpu"
    rank, micro = int(given.lora_rank), int(config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu)
    parts = sharded(
        of, devices=devices, lora_rank=rank, tokens=micro * tokens, cpu=cpu,
        checkpointing=bool(given.enable_gradient_checkpointing),
    )  # fmt: skip
    has, what = card(config)
    needed = sum(parts.values()) / GIB
    trained = of.adapters(rank) if rank else of.parameters
    said = (
        f"{of.parameters / 1e6:,.1f} M parameters, {trained / 1e6:,.1f} M trained"
        f"{f' (adapters of rank {rank})' if rank else ''}, on {devices} device{'s' * (devices > 1)}: each "
        + " + ".join(f"{name} {number(value / GIB)}" for name, value in parts.items() if value)
        + f" = {number(needed)} GiB; passes of {micro} x {tokens} tokens, vocabulary {of.vocabulary:,}; "
        f"{what} has {number(has)} GiB"
    )
    if needed > has:
        raise InputError(
            f"the training does not fit: {said}. Weights, gradients and optimiser take 4 + 4 + 8 bytes per "
            "trained parameter, divided by the devices: give more GPUs (trainer.n_gpus_per_node), adapters "
            "(actor_rollout_ref.model.lora_rank; train.lora_rank of a run), a smaller "
            "actor.ppo_micro_batch_size_per_gpu, or shorter data.max_prompt_length and max_response_length"
        )
    return said


def number(gib: float) -> str:
    """GiB as shown: small ones with two digits after the point."""
    return f"{gib:,.1f}" if gib >= 10 else f"{gib:.2f}"


def card(config: Any) -> tuple[float, str]:
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
