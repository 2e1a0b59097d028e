"""A rough estimate of what a training needs, from the model's own configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def parameters(folder: Path) -> int | None:
    """Number of parameters by the sizes in ``config.json``; None if they are not there.

    A dense decoder with gated MLP: embeddings, attention, MLP; norms are left out (under 0.1 %).
    """
    try:
        sizes = json.loads((folder / "config.json").read_text())
        width, layers = int(sizes["hidden_size"]), int(sizes["num_hidden_layers"])
        heads, inner = int(sizes["num_attention_heads"]), int(sizes["intermediate_size"])
        vocabulary = int(sizes["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    size = int(sizes.get("head_dim") or width // heads)
    kv = int(sizes.get("num_key_value_heads") or heads)
    attention = width * size * (2 * heads + 2 * kv)
    embeddings = vocabulary * width * (1 if sizes.get("tie_word_embeddings") else 2)
    return embeddings + layers * (attention + 3 * width * inner)


def memory(config: Any) -> str:
    """One line: weights, gradients and Adam's moments per device (16 bytes per parameter in fp32 training,
    sharded), without activations and the rollout's cache.
    """
    count = parameters(Path(config.actor_rollout_ref.model.path))
    if count is None:
        return "not estimated (the model is not a local folder with the usual sizes)"
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    if config.cobalt.method == "offline":
        lora = int(config.cobalt.offline.lora_rank) > 0
        trained = (4.0 if lora else 16.0) * count  # every process holds all of it
    else:
        trained = 16 * count / devices
    share = float(config.actor_rollout_ref.rollout.gpu_memory_utilization or 0.0)
    rollout = (
        "" if config.trainer.device == "cpu" or config.cobalt.method == "offline"
        else f"; the rollout takes {100 * share:.0f} % of each GPU while it samples"
    )  # fmt: skip
    return (
        f"{count / 1e6:,.1f} M parameters, {trained / 2**30:,.2f} GiB per device for weights, gradients and "
        f"optimiser, activations not counted{rollout}"
    )
