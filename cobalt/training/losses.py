"""How verl's loss weighs tokens: ``cobalt.token_mean_over``.

With ``actor.loss_agg_mode=token-mean`` verl 0.9.1 averages over all tokens of a mini-batch, on all ranks.
verl 0.5 averages over those of a micro-batch, and every micro-batch weighs the same: with micro-batches of
two, each pair of sequences does, however long they are. Here every row carries the tokens of its block, so
that blocks weigh the same however rows are put into micro-batches: one at a time, as memory wants it, or
packed by length (``actor.use_dynamic_bsz``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict
from verl.trainer.distillation import is_distillation_enabled
from verl.utils import tensordict_utils
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import Metric
from verl.workers.utils.losses import ppo_loss

# Columns of a micro-batch that ppo_loss reads.
_READ = (
    "prompts",
    "responses",
    "response_mask",
    "old_log_probs",
    "advantages",
    "ref_log_prob",
    "rollout_is_weights",
)
COLUMN = "block_tokens"  # of a row: tokens of its block per sequence, times the share of blocks with tokens
FILLED = "filled_share"  # of a row: share of sequences with tokens in its mini-batch


def in_blocks(config: Any) -> bool:
    """Whether the loss of a composed configuration weighs blocks; verl's own is meant where not."""
    asked = config.cobalt.token_mean_over and config.actor_rollout_ref.actor.loss_agg_mode == "token-mean"
    return bool(asked) and not is_distillation_enabled(config.get("distillation"))


def over_sequences(config: Any) -> bool:
    """Whether verl's loss is a mean over the sequences of a mini-batch."""
    return str(config.actor_rollout_ref.actor.loss_agg_mode).startswith("seq-mean")


def loss_function(config: Any) -> partial[Any] | None:
    """The loss for the workers of a composed configuration; None where verl's own is meant."""
    loss = weighted_loss if in_blocks(config) else mean_of_filled if over_sequences(config) else None
    return loss and partial(loss, config=omega_conf_to_dataclass(config.actor_rollout_ref.actor))


def columns(config: Any, tokens: Sequence[int], ranks: int) -> dict[str, torch.Tensor]:
    """What the loss must know of each row [rows, 1] beside verl's columns.

    ``tokens``: of each row in the loss, the rows of one rank after those of another. In the places of samples
    that left the batch stand rows without tokens: such a row leaves its block to the others, and a block or
    sequence without tokens is not counted, so that the gradient is that of the samples left.
    """
    actor = config.actor_rollout_ref.actor
    if not (in_blocks(config) or over_sequences(config)):
        return {}
    rows = int(config.cobalt.token_mean_over) if in_blocks(config) else 1
    mini = int(actor.ppo_mini_batch_size) * int(config.actor_rollout_ref.rollout.n)
    batches = 1 if actor.shuffle else max(1, len(tokens) // mini)
    blocks = torch.tensor(tokens, dtype=torch.float32).view(-1, rows)
    places = (blocks.sum(1) > 0).float().view(ranks, batches, -1)
    share = places.mean((0, 2), keepdim=True).expand_as(places).reshape(-1, 1)
    if in_blocks(config):
        each = blocks.sum(1, keepdim=True).clamp(min=1) / rows
        return {COLUMN: (each * share).expand_as(blocks).reshape(-1, 1)}
    return {FILLED: share}


def mean_of_filled(
    *, config: Any, model_output: Any, data: Any, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's ``ppo_loss``, which divides by all sequences of a mini-batch, by those that have tokens."""
    total = int(tensordict_utils.get_non_tensor_data(data, "global_batch_size", None))
    tensordict_utils.assign_non_tensor(data, global_batch_size=total * float(data[FILLED].flatten()[0]))
    loss: tuple[torch.Tensor, dict[str, Any]] = ppo_loss(config, model_output, data, dp_group)
    return loss


def weighted_loss(
    *, config: Any, model_output: Any, data: Any, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's ``ppo_loss``, all its terms, of each row of a micro-batch by the tokens of its block.

    (Sum over the row's tokens) / (tokens of the block) x (sequences of the block) x (ranks) / (sequences of
    the mini-batch's blocks that have tokens), which gradient accumulation and the mean over ranks turn into
    the mean over those blocks.
    """
    total = int(tensordict_utils.get_non_tensor_data(data, "global_batch_size", None))
    parts = []
    for (row, output), tokens in zip(_rows(data, model_output), data[COLUMN].unbind(), strict=True):
        tensordict_utils.assign_non_tensor(row, batch_num_tokens=float(tokens) * total)
        parts.append(ppo_loss(config, output, row, dp_group))
    loss = torch.stack([part for part, _ in parts]).sum()
    return loss, {name: _one([metrics[name] for _, metrics in parts]) for name in parts[0][1]}


def _rows(data: Any, output: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Rows of a micro-batch, with what the loss reads of each, and of what the model made of it."""
    offsets = data["input_ids"].offsets().tolist()
    shared = {key: value for key, value in data.items() if isinstance(value, NonTensorData)}
    columns = {key: data[key].unbind() for key in _READ if key in data}
    for at in range(len(data)):
        row = {
            key: torch.nested.as_nested_tensor([values[at]], layout=torch.jagged)
            for key, values in columns.items()
        }
        made = {key: values.values()[offsets[at] : offsets[at + 1]] for key, values in output.items()}
        yield TensorDict({**row, **shared}, batch_size=1), made


def _one(values: list[Any]) -> Any:
    """One metric of several rows: ranks with other numbers of rows must report as many values."""
    if not isinstance(values[0], Metric):
        return values[-1]
    joined = Metric(values[0].aggregation)
    for value in values:
        joined.extend(value)
    return Metric(joined.aggregation, joined.aggregate())
