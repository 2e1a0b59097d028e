"""Decoding many completions of few prompts: a prompt's keys and values are kept once, not once per row.

transformers repeats a prompt's cache for every completion, repeats it again for every query head of a
group, and copies all of it at every token. On a CPU that copying is most of the time. Here a layer's cache
is the prompts' part [prompts, heads, width, dim] and the rows' own part [rows, heads, steps, dim]; attention
over both is one softmax. Plugged in through transformers' registries for attention functions and masks.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "cobalt_shared_prefix"
_KNOWN_TYPES = frozenset(
    {"llama", "qwen2", "qwen3"}
)  # plain causal attention, scores scaled and nothing else


class _RowsLayer(DynamicLayer):
    """The rows' own keys and values of one layer, written into room that was set aside."""

    def __init__(self, prompt_keys: torch.Tensor, prompt_values: torch.Tensor, rows: int, room: int) -> None:
        super().__init__()
        self.prompt_keys, self.prompt_values = prompt_keys, prompt_values
        self.lazy_initialization(prompt_keys, prompt_values)
        shape = (rows, prompt_keys.shape[1], room, prompt_keys.shape[3])
        self.keys, self.values = prompt_keys.new_empty(shape), prompt_values.new_empty(shape)
        self.used = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys[:, :, self.used] = key_states[:, :, 0]
        self.values[:, :, self.used] = value_states[:, :, 0]
        self.used += 1
        return self.keys[:, :, : self.used], self.values[:, :, : self.used]

    def get_seq_length(self) -> int:
        return int(self.prompt_keys.shape[2]) + self.used

    def select(self, prompts: torch.Tensor, rows: torch.Tensor) -> None:
        self.prompt_keys, self.prompt_values = self.prompt_keys[prompts], self.prompt_values[prompts]
        self.keys, self.values = self.keys[rows], self.values[rows]


class PrefixCache(Cache):
    """Cache for decoding ``n`` rows of each prompt, made from the cache of a prefill.

    ``mask`` [prompts, width] is 1 where a prompt has a token (left padding is 0); ``room`` is the largest
    number of tokens that will be decoded. Rows of one prompt stand next to each other.
    """

    def __init__(self, prefill: DynamicCache, mask: torch.Tensor, n: int, room: int) -> None:
        rows = mask.shape[0] * n
        self.rows_layers = [_RowsLayer(layer.keys, layer.values, rows, room) for layer in prefill.layers]
        super().__init__(layers=list(self.rows_layers))
        lowest = torch.finfo(self.rows_layers[0].dtype).min
        self.bias = (1 - mask[:, None, None, :].to(self.rows_layers[0].dtype)) * lowest

    def select(self, prompts: torch.Tensor, rows: torch.Tensor) -> None:
        """Keep these prompts and rows (indices); every prompt kept must have equally many rows, in order."""
        for layer in self.rows_layers:
            layer.select(prompts, rows)
        self.bias = self.bias[prompts]


def supports(config: Any) -> bool:
    """Whether a model of this configuration computes plain causal attention."""
    sliding = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    return config.model_type in _KNOWN_TYPES and not sliding


def install(model: Any) -> None:
    """Let the model attend through this module. Calls without a PrefixCache stay what they were (sdpa)."""
    AttentionInterface.register(ATTENTION, shared_prefix_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)


def shared_prefix_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    shared_prefix: PrefixCache | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one new token per row over its prompt and its own tokens.

    ``query`` [rows, query heads, 1, dim], ``key`` and ``value`` [rows, heads, steps, dim]: the rows' own.
    Returns [rows, 1, query heads, dim].
    """
    if shared_prefix is None:
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return result
    layer = shared_prefix.rows_layers[module.layer_idx]
    prompt_keys, prompt_values = layer.prompt_keys, layer.prompt_values
    prompts, heads, width, dim = prompt_keys.shape
    rows, query_heads = query.shape[:2]
    n, group = rows // prompts, query_heads // heads
    own = query.reshape(rows, heads, group, dim) * (scaling if scaling is not None else dim**-0.5)
    shared = own.view(prompts, n, heads, group, dim).transpose(1, 2).reshape(prompts, heads, n * group, dim)
    on_prompt = shared @ prompt_keys.transpose(2, 3) + shared_prefix.bias
    on_prompt = on_prompt.reshape(prompts, heads, n, group, width).transpose(1, 2)
    on_own = own @ key.transpose(2, 3)
    weights = torch.cat([on_prompt.reshape(rows, heads, group, width), on_own], -1).softmax(-1)
    of_prompt = weights[..., :width].view(prompts, n, heads, group, width).transpose(1, 2)
    out = of_prompt.reshape(prompts, heads, n * group, width) @ prompt_values
    out = out.reshape(prompts, heads, n, group, dim).transpose(1, 2).reshape(rows, heads, group, dim)
    out = out + weights[..., width:] @ value
    return out.reshape(rows, 1, query_heads, dim), None
