"""Completions of one prompt in one sequence: the prompt is computed once for its whole group.

A group of n completions is laid out as ``prompt, completion 1, ..., completion n``. A completion sees the
prompt and itself, and its positions go on from the prompt's end, so every log-probability and every gradient
is the same as from n separate sequences; with short completions most of the work is saved. (The idea is known
as prefix grouping or shared-prefix forward.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Packed:
    """A batch in the shared layout. G groups, L the longest group, N response tokens in all.

    ``ids``, ``positions`` [G, L]; ``mask`` [G, 1, L, L], True where attention is allowed; ``source`` [N]
    places (in the flattened [G * L]) whose logits predict the response tokens; ``target`` [N] those tokens;
    ``place`` [N] where a row-by-row layout (all rows' prompt and response tokens one after another) has the
    predicting tokens; ``row`` [N] the row of each. Response tokens are ordered by row, then by time.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    source: torch.Tensor
    target: torch.Tensor
    place: torch.Tensor
    row: torch.Tensor


LONG_RESPONSES = 3.0


def pays(prompts: Sequence[torch.Tensor], responses: Sequence[torch.Tensor]) -> bool:
    """Whether sharing prompts saves work: attention costs the square of a group, so it does not where
    responses are much longer than prompts, as dialogues are.
    """
    return sum(map(len, responses)) <= LONG_RESPONSES * sum(map(len, prompts))


def pack(
    prompts: Sequence[torch.Tensor], responses: Sequence[torch.Tensor], pad_id: int, *, share: bool = True
) -> Packed:
    """Lay out rows; ``prompts[i]`` and ``responses[i]`` are the token ids of row i, on the CPU.

    Without ``share`` every row is a group of its own.
    """
    members: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        members.setdefault(tuple(prompt.tolist()) if share else (row,), []).append(row)
    groups = [(prompts[rows[0]].tolist(), rows) for rows in members.values()]
    lengths = [len(prompt) + sum(len(responses[row]) for row in rows) for prompt, rows in groups]
    width = max(lengths)
    ids = torch.full((len(groups), width), pad_id)
    positions = torch.zeros_like(ids)
    # Every token belongs to a block: 0 the prompt, k the k-th completion, -1 padding.
    block = torch.full_like(ids, -1)
    begins: list[tuple[int, int]] = [(0, 0)] * len(prompts)
    for group, (prompt, rows) in enumerate(groups):
        end = len(prompt)
        ids[group, :end] = torch.tensor(prompt)
        positions[group, :end] = torch.arange(end)
        block[group, :end] = 0
        for number, row in enumerate(rows, start=1):
            begin, end = end, end + len(responses[row])
            begins[row] = (group * width, begin)
            ids[group, begin:end] = responses[row]
            positions[group, begin:end] = torch.arange(len(prompt), len(prompt) + end - begin)
            block[group, begin:end] = number
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    same = block[:, :, None] == block[:, None, :]
    mask = causal & (same | (block[:, None, :] == 0))  # padding sees only padding before it, itself included
    source: list[int] = []
    place: list[int] = []
    row_of: list[int] = []
    offset = 0
    for row, (base, begin) in enumerate(begins):
        size, length = len(responses[row]), len(prompts[row])
        source += [base + length - 1, *range(base + begin, base + begin + size - 1)][:size]
        place += range(offset + length - 1, offset + length - 1 + size)
        row_of += [row] * size
        offset += length + size
    found = torch.tensor(source), torch.cat(list(responses)), torch.tensor(place), torch.tensor(row_of)
    return Packed(ids, positions, mask[:, None], *found)
