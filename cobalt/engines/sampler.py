"""Batched sampling from a transformers causal language model: one prefill per prompt, one random stream per row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

from cobalt.engines.base import CONTEXT_OVERFLOW, LENGTH, STOP

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class SampledRow:
    """One sampled completion.

    ``token_ids`` [tokens] ends with the stop token if ``finish_reason`` is ``stop``. ``logprobs`` [tokens] are
    natural logarithms under the distribution at the sampling temperature (temperature 1 for greedy rows),
    before nucleus truncation: what a trainer computes for the same tokens.
    """

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str


def splitmix64(value: int) -> int:
    """The splitmix64 output function (Steele, Lea, Flood 2014): a bijection of 64-bit integers."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def row_seed(seed: int, index: int) -> int:
    """Seed of completion ``index`` of a request with ``seed``: independent of how many completions there are."""
    return splitmix64(splitmix64(seed & _MASK) ^ index)


def uniforms(seeds: np.ndarray, step: int) -> np.ndarray:
    """Uniform numbers in [0, 1), one per row, for token ``step``; a pure function of (seed, step).

    ``seeds``: uint64 array of any shape; returns float64 of that shape with 53 random bits.
    """
    value: np.ndarray = seeds + np.uint64((_GOLDEN * (step + 1)) & _MASK)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    value = value ^ (value >> np.uint64(31))
    result: np.ndarray = (value >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return result


def draw(logprobs: torch.Tensor, uniform: torch.Tensor, top_p: float) -> torch.Tensor:
    """Inverse-CDF sample of every row. ``logprobs`` [rows, vocabulary], ``uniform`` [rows] -> token ids [rows].

    ``top_p`` < 1 keeps the smallest set of most probable tokens whose mass reaches it.
    """
    weights = logprobs.double().exp()
    if top_p < 1:
        ordered, order = weights.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        dropped = before >= top_p
        dropped[:, 0] = False
        weights = weights.scatter(-1, order, ordered.masked_fill(dropped, 0.0))
    cumulative = weights.cumsum(-1)
    target = uniform.unsqueeze(-1) * cumulative[:, -1:]
    # "right" steps over tokens without mass; the clamp guards the last one against rounding in the product
    found = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    last = (weights > 0).long().mul(torch.arange(1, weights.shape[-1] + 1, device=weights.device)).amax(-1) - 1
    return torch.minimum(found, last)


class BatchSampler:
    """Samples many prompts at once; the result of a row depends on its prompt and seed only.

    (Up to floating-point rounding: a matrix product over another batch may differ in the last bits.)
    Not thread-safe. ``max_context`` counts prompt and completion tokens; ``max_rows`` bounds the rows that share
    one key/value cache.
    """

    def __init__(self, model: Any, tokenizer: Any, max_context: int, *, max_rows: int = 256) -> None:
        self.model = model.eval()
        self.max_context, self.max_rows = max_context, max_rows
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self.pad_id: int = 0 if pad is None else int(pad)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        *,
        n: int = 1,
        temperature: float,
        top_p: float = 1.0,
        max_tokens: int,
        stop_ids: Collection[int],
    ) -> list[SampledRow]:
        """Sample ``n`` completions of each prompt.

        Args: ``prompts`` token ids, one seed each; ``temperature`` 0 is greedy; ``stop_ids`` end a row.
        Returns ``len(prompts) * n`` rows, those of one prompt next to each other. A prompt that fills
        ``max_context`` gives ``context_overflow`` rows without tokens; a row cut by ``max_tokens`` or by the
        end of the context has ``length``.
        Raises ``ValueError`` for unequal lengths or an empty prompt.
        """
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds")
        if any(len(prompt) == 0 for prompt in prompts):
            raise ValueError("a prompt has no tokens")
        rows = [SampledRow([], [], CONTEXT_OVERFLOW)] * (len(prompts) * n)
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) < self.max_context]
        fitting.sort(key=lambda i: len(prompts[i]))  # neighbours of equal length: little padding
        size = max(1, self.max_rows // n)
        for start in range(0, len(fitting), size):
            chosen = fitting[start : start + size]
            sampled = self._batch(
                [prompts[i] for i in chosen],
                [row_seed(seeds[i], j) for i in chosen for j in range(n)],
                n, temperature, top_p, max_tokens, frozenset(stop_ids),
            )  # fmt: skip
            for place, i in enumerate(chosen):
                rows[i * n : (i + 1) * n] = sampled[place * n : (place + 1) * n]
        return rows

    @torch.inference_mode()
    def _batch(
        self,
        prompts: list[Sequence[int]],
        seeds: list[int],
        n: int,
        temperature: float,
        top_p: float,
        max_tokens: int,
        stop_ids: frozenset[int],
    ) -> list[SampledRow]:
        device = next(self.model.parameters()).device
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad_id)
        mask = torch.zeros_like(ids)
        for i, prompt in enumerate(prompts):
            ids[i, width - len(prompt) :] = torch.tensor(prompt)
            mask[i, width - len(prompt) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        cache = DynamicCache()
        logits = self._forward(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), cache)
        cache.batch_repeat_interleave(n)
        logits, mask = logits.repeat_interleave(n, 0), mask.repeat_interleave(n, 0)
        length = mask.sum(1, keepdim=True)
        room = [min(max_tokens, self.max_context - len(prompt)) for prompt in prompts for _ in range(n)]

        tokens: list[list[int]] = [[] for _ in room]
        logprobs: list[list[float]] = [[] for _ in room]
        reasons = [LENGTH] * len(room)
        live = list(range(len(room)))  # row of the result for every row of the tensors; -1 once finished
        keys = np.array(seeds, dtype=np.uint64)
        for step in range(max(room)):
            scaled = torch.log_softmax(logits.float() / (temperature or 1.0), -1)
            if temperature:
                uniform = torch.from_numpy(uniforms(keys, step)).to(device)
                new = draw(scaled, uniform, top_p)
            else:
                new = scaled.argmax(-1)
            chances = scaled.gather(1, new.unsqueeze(1)).squeeze(1).tolist()
            for place, token in enumerate(new.tolist()):
                row = live[place]
                if row < 0:
                    continue
                tokens[row].append(token)
                logprobs[row].append(chances[place])
                if token in stop_ids:
                    reasons[row] = STOP
                    live[place] = -1
                elif step + 1 >= room[row]:
                    live[place] = -1
            kept = [place for place, row in enumerate(live) if row >= 0]
            if not kept:
                break
            if len(kept) <= 0.75 * len(live):  # copying the cache costs about as much as one step
                index = torch.tensor(kept, device=device)
                cache.batch_select_indices(index)
                new, mask, length = new[index], mask[index], length[index]
                keys, live = keys[kept], [live[place] for place in kept]
            mask = torch.cat([mask, torch.ones_like(new).unsqueeze(1)], 1)
            logits = self._forward(new.unsqueeze(1), mask, length + step, cache)
        return [SampledRow(*row) for row in zip(tokens, logprobs, reasons, strict=True)]

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache
    ) -> torch.Tensor:
        """Logits of the last position, [rows, vocabulary]."""
        out = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions,
            past_key_values=cache, use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        logits: torch.Tensor = out.logits[:, -1]
        return logits
