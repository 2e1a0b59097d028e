"""Attention over packed sequences by torch alone: its own kernel, called for one sequence after the other.

transformers' ``sdpa`` tells the sequences of a pack apart by a mask of L x L over the whole pack, with which
torch neither skips what is masked nor takes its flash kernel. Without a mask it does both. Importing this
registers ``attn_implementation=packed_sdpa`` (``actor_rollout_ref.model.external_lib``).
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from cobalt.training.attention import PACKED


def lengths(positions: torch.Tensor) -> list[int]:
    """Of the sequences in a row of positions, each of which counts up from its own start."""
    starts = torch.nonzero(torch.diff(positions) != 1).flatten().tolist()
    ends = [*(start + 1 for start in starts), len(positions)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    position_ids: torch.Tensor | None = None,
    **given: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in every layer; tensors are [rows, heads, tokens, head_dim].

    Raises ValueError for what torch's kernel does not compute (sinks, capped scores).
    """
    for name in ("s_aux", "softcap"):
        if given.get(name) is not None:
            raise ValueError(f"{PACKED} has no {name}: set attn_implementation for this model")
    tokens = [query.shape[2]]
    if attention_mask is None and position_ids is not None and query.shape[0] == 1:
        tokens = _once(position_ids)
    parts = zip(*(each.split(tokens, dim=2) for each in (query, key, value)), strict=True)
    return torch.cat([sdpa_attention_forward(module, *p, attention_mask, **given)[0] for p in parts], 1), None


def _once(position_ids: torch.Tensor) -> list[int]:
    """`lengths`, asked of the device once per pass: every layer gets the same tensor."""
    known: list[int] | None = getattr(position_ids, "cobalt_lengths", None)
    if known is None:
        known = lengths(position_ids[0])
        position_ids.cobalt_lengths = known
    return known


def mask(
    *, q_length: int, attention_mask: torch.Tensor | None = None, local_size: int | None = None, **given: Any
) -> torch.Tensor | None:
    """None where the positions say all; ``sdpa``'s for padded rows and windows shorter than the row."""
    if attention_mask is None and (local_size is None or q_length <= local_size):
        return None
    return sdpa_mask(q_length=q_length, attention_mask=attention_mask, local_size=local_size, **given)


AttentionInterface.register(PACKED, attend)
AttentionMaskInterface.register(PACKED, mask)
