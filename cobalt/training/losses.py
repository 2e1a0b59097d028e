"""How verl's loss weighs tokens: ``cobalt.token_mean_over``.

With ``actor.loss_agg_mode=token-mean`` verl 0.9.1 averages over all tokens of a mini-batch, on all ranks.
verl 0.5 averages over those of a micro-batch, and every micro-batch weighs the same: with micro-batches of
two, each pair of sequences does, however long they are.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def loss_function(config: Any) -> partial[Any] | None:
    """The loss for the workers of a composed configuration; None where verl's own is meant."""
    rows, actor = config.cobalt.token_mean_over, config.actor_rollout_ref.actor
    if not rows or actor.loss_agg_mode != "token-mean" or is_distillation_enabled(config.get("distillation")):
        return None
    return partial(weighted_loss, rows=int(rows), config=omega_conf_to_dataclass(actor))


def weighted_loss(
    *, config: Any, model_output: Any, data: Any, dp_group: Any = None, rows: int
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's ``ppo_loss``, all its terms, over blocks of ``rows`` neighbouring sequences of a micro-batch.

    A block counts by its share of the sequences of the mini-batch: (its token-mean) x (its sequences) x
    (ranks) / (sequences of the mini-batch), which gradient accumulation and the mean over ranks turn into
    the mean over blocks. In the places of samples that left the batch stand rows without tokens: such a row
    leaves its block to the other, and a block of them adds nothing.
    """
    total = int(tensordict_utils.get_non_tensor_data(data, "global_batch_size", None))
    parts = []
    for block, output in [(data, model_output)] if len(data) <= rows else _split(data, model_output, rows):
        tokens = max(1, int(block["response_mask"].values().sum()))
        tensordict_utils.assign_non_tensor(block, batch_num_tokens=tokens * total / len(block))
        parts.append(ppo_loss(config, output, block, dp_group))
    loss = torch.stack([part for part, _ in parts]).sum()
    return loss, {name: _one([metrics[name] for _, metrics in parts]) for name in parts[0][1]}


def _split(data: Any, output: Any, rows: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Blocks of a micro-batch, with what the loss reads of it, and of what the model made of it."""
    offsets = data["input_ids"].offsets().tolist()
    shared = {key: value for key, value in data.items() if isinstance(value, NonTensorData)}
    columns = {key: data[key].unbind() for key in _READ if key in data}
    for begin in range(0, len(data), rows):
        end = min(begin + rows, len(data))
        block = {
            key: torch.nested.as_nested_tensor(list(values[begin:end]), layout=torch.jagged)
            for key, values in columns.items()
        }
        made = {key: values.values()[offsets[begin] : offsets[end]] for key, values in output.items()}
        yield TensorDict({**block, **shared}, batch_size=end - begin), made


def _one(values: list[Any]) -> Any:
    """One metric of several blocks: ranks with other numbers of blocks must report as many values."""
    if not isinstance(values[0], Metric):
        return values[-1]
    joined = Metric(values[0].aggregation)
    for value in values:
        joined.extend(value)
    return Metric(joined.aggregation, joined.aggregate())
