"""Batched sampling from a causal language model: one prefill per prompt, one random stream per row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

from cobalt.engines.base import CONTEXT_OVERFLOW, LENGTH, STOP
from cobalt.engines.prefix_cache import PrefixCache, install, supports

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class SampledRow:
    """One sampled completion.

    ``token_ids`` [tokens] ends with the stop token if ``finish_reason`` is ``stop``. ``logprobs`` [tokens]
    are natural logarithms under the distribution that was sampled from, at its temperature and ``top_p``
    (greedy rows: temperature 1); with ``top_p`` 1, what a trainer computes for the same tokens.
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
    """Seed of completion ``index`` of a request with ``seed``, however many completions there are."""
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


def draw(logprobs: torch.Tensor, uniform: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse-CDF sample of every row: ``logprobs`` [rows, vocabulary], ``uniform`` [rows] -> ids [rows], and
    the logarithm of the mass [rows] that they are drawn from.

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
    places = torch.arange(weights.shape[-1], device=weights.device)
    chosen = torch.minimum(found, torch.where(weights > 0, places, 0).amax(-1))
    return chosen, cumulative[:, -1].log()


class BatchSampler:
    """Samples many prompts at once; the result of a row depends on its prompt and seed only.

    (Up to rounding: a matrix product over another batch may differ in the last bits.) Not thread-safe.
    ``max_context`` counts prompt and completion tokens; ``max_rows`` bounds the rows sampled together. Models
    with plain causal attention share one cache per prompt (cobalt.engines.prefix_cache).
    """

    def __init__(self, model: Any, tokenizer: Any, max_context: int, *, max_rows: int = 256) -> None:
        self.model = model.eval()
        self.max_context, self.max_rows = max_context, max_rows
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self.pad_id: int = 0 if pad is None else int(pad)
        self.shares_prefix = supports(model.config)
        if self.shares_prefix:
            install(model)

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
        on_row: Callable[[int, SampledRow], None] | None = None,
        first: Sequence[int] | None = None,
    ) -> list[SampledRow]:
        """Sample ``n`` completions of each prompt.

        ``prompts`` are token ids, one seed each; ``temperature`` 0 is greedy; ``stop_ids`` end a row;
        ``on_row(place, row)`` is called for every row the moment it is finished (``place`` in the result);
        ``first`` is the number of each prompt's first completion (0), for those asked for one by one.
        Returns ``len(prompts) * n`` rows, those of one prompt next to each other. A prompt that fills
        ``max_context`` gives ``context_overflow`` rows without tokens; a row cut by ``max_tokens`` or by the
        end of the context has ``length``. Raises ``ValueError`` for unequal lengths or an empty prompt.
        """
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds")
        if any(len(prompt) == 0 for prompt in prompts):
            raise ValueError("a prompt has no tokens")
        begin = first or [0] * len(prompts)
        rows = [SampledRow([], [], CONTEXT_OVERFLOW)] * (len(prompts) * n)

        def finish(place: int, row: SampledRow) -> None:
            rows[place] = row
            if on_row is not None:
                on_row(place, row)

        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # neighbours alike: little padding
        fitting = [i for i in order if len(prompts[i]) < self.max_context]
        for i in order[len(fitting) :]:
            for j in range(n):
                finish(i * n + j, rows[i * n + j])
        size = max(1, self.max_rows // n)
        for start in range(0, len(fitting), size):
            chosen = fitting[start : start + size]
            room = {i: min(max_tokens, self.max_context - len(prompts[i])) for i in chosen}
            live = [
                _Row(i * n + j, row_seed(seeds[i], begin[i] + j), room[i]) for i in chosen for j in range(n)
            ]
            self._sample([prompts[i] for i in chosen], live, temperature, top_p, frozenset(stop_ids), finish)
        return rows

    @torch.inference_mode()
    def _sample(
        self,
        prompts: list[Sequence[int]],
        rows: list[_Row],
        temperature: float,
        top_p: float,
        stop_ids: frozenset[int],
        finish: Callable[[int, SampledRow], None],
    ) -> None:
        """Sample equally many rows of each prompt; rows of one prompt stand next to each other."""
        logits, state = self._prefill(prompts, len(rows) // len(prompts), max(row.room for row in rows))
        step = 0
        while True:
            scaled = torch.log_softmax(logits.float() / (temperature or 1.0), -1)
            if temperature:
                keys = np.array([row.seed for row in rows], dtype=np.uint64)
                new, mass = draw(scaled, torch.from_numpy(uniforms(keys, step)).to(scaled.device), top_p)
                if top_p < 1:
                    scaled = scaled - mass.float().unsqueeze(1)
            else:
                new = scaled.argmax(-1)
            chances = scaled.gather(1, new.unsqueeze(1)).squeeze(1).tolist()
            for row, token, chance in zip(rows, new.tolist(), chances, strict=True):
                if row.done:
                    continue
                row.tokens.append(token)
                row.logprobs.append(chance)
                stopped = token in stop_ids
                row.done = stopped or step + 1 >= row.room
                if row.done:
                    finish(row.place, SampledRow(row.tokens, row.logprobs, STOP if stopped else LENGTH))
            if all(row.done for row in rows):
                return
            kept = _worth_keeping([row.done for row in rows], len(rows) // state.prompts)
            if kept is not None:
                new, rows = new[kept], [rows[place] for place in kept]
                state.select(torch.tensor(kept, device=new.device))
            logits = state.forward(self.model, new.unsqueeze(1))
            step += 1

    def _prefill(self, prompts: list[Sequence[int]], n: int, room: int) -> tuple[torch.Tensor, _State]:
        """Logits of the first new token, [rows, vocabulary], and the state to go on from."""
        device = next(self.model.parameters()).device
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad_id)
        mask = torch.zeros_like(ids)
        for i, prompt in enumerate(prompts):
            ids[i, width - len(prompt) :] = torch.tensor(prompt)
            mask[i, width - len(prompt) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        cache = DynamicCache()
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = _forward(self.model, ids, mask, positions, cache).repeat_interleave(n, 0)
        length = mask.sum(1, keepdim=True).repeat_interleave(n, 0)
        if self.shares_prefix:
            return logits, _State(PrefixCache(cache, mask, n, room), None, length, len(prompts))
        cache.batch_repeat_interleave(n)
        return logits, _State(cache, mask.repeat_interleave(n, 0), length, len(prompts))


@dataclass
class _Row:
    """A row while it is sampled: its place in the result, its random stream, the tokens it may have."""

    place: int
    seed: int
    room: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: bool = False


@dataclass
class _State:
    """Cache and positions of the rows. ``mask`` [rows, tokens] only where the cache is not shared."""

    cache: DynamicCache | PrefixCache
    mask: torch.Tensor | None
    length: torch.Tensor  # [rows, 1]: position of the next token
    prompts: int

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows, equally many of each prompt kept."""
        n = len(self.length) // self.prompts
        prompts = torch.unique(rows // n)
        if isinstance(self.cache, PrefixCache):
            self.cache.select(prompts, rows)
        else:
            self.cache.batch_select_indices(rows)
        if self.mask is not None:
            self.mask = self.mask[rows]
        self.length, self.prompts = self.length[rows], len(prompts)

    def forward(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """Take one token per row [rows, 1] and return the logits of the next, [rows, vocabulary]."""
        positions, self.length = self.length, self.length + 1
        if isinstance(self.cache, PrefixCache):
            return _forward(model, ids, None, positions, self.cache, shared_prefix=self.cache)
        assert self.mask is not None
        self.mask = torch.cat([self.mask, torch.ones_like(ids)], 1)
        return _forward(model, ids, self.mask, positions, self.cache)


def _forward(
    model: Any,
    ids: torch.Tensor,
    mask: torch.Tensor | None,
    positions: torch.Tensor,
    cache: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Logits of the last position, [rows, vocabulary]."""
    out = model(
        input_ids=ids, attention_mask=mask, position_ids=positions,
        past_key_values=cache, use_cache=True, logits_to_keep=1, **kwargs,
    )  # fmt: skip
    logits: torch.Tensor = out.logits[:, -1]
    return logits


def _worth_keeping(done: list[bool], n: int) -> list[int] | None:
    """Which rows to go on with, or None for all: dropping some costs about as much as one more step.

    Prompts keep equally many rows, so a finished row may stay to fill up.
    """
    groups = [list(range(start, start + n)) for start in range(0, len(done), n)]
    live = [sum(not done[place] for place in group) for group in groups]
    size, count = max(live), sum(number > 0 for number in live)
    if size * count > 0.75 * len(done):
        return None
    kept: list[int] = []
    for group, number in zip(groups, live, strict=True):
        if number:
            kept += sorted(sorted(group, key=lambda place: done[place])[:size])
    return kept
