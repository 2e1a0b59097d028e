"""How verl's loss weighs tokens: ``cobalt.token_mean_over``.

With ``actor.loss_agg_mode=token-mean`` verl 0.9.1 averages over all tokens of a mini-batch, on all ranks.
verl 0.5 averages over those of a micro-batch, and every micro-batch weighs the same: with micro-batches of
two, each pair of sequences does, however long they are. Here every row carries the tokens of its block, so
that blocks weigh the same however rows are put into micro-batches: one at a time, as memory wants it, or
packed by length (``actor.use_dynamic_bsz``).

``cobalt.policy_loss`` takes the place of verl's policy term; its KL and entropy terms stay (`OwnLoss`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.trainer.distillation import is_distillation_enabled
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss
from verl.utils import tensordict_utils
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from cobalt.errors import InfraError, InputError
from cobalt.own import Own, load
from cobalt.rewards.records import Rollout
from cobalt.training import own_update
from cobalt.training.advantages import records_of, turn_numbers
from cobalt.training.method import OFFERED

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
TURNS, RECORDS = "turn_numbers", "turn_records"  # of a row, for a loss of the user's own


def in_blocks(config: Any) -> bool:
    """Whether the loss of a composed configuration weighs blocks; verl's own is meant where not."""
    asked = config.cobalt.token_mean_over and config.actor_rollout_ref.actor.loss_agg_mode == "token-mean"
    return bool(asked) and not is_distillation_enabled(config.get("distillation"))


def over_sequences(config: Any) -> bool:
    """Whether verl's loss is a mean over the sequences of a mini-batch."""
    return str(config.actor_rollout_ref.actor.loss_agg_mode).startswith("seq-mean")


def loss_function(config: Any) -> Callable[..., Any] | None:
    """The loss for the workers of a composed configuration; None where verl's own is meant."""
    actor, cobalt = omega_conf_to_dataclass(config.actor_rollout_ref.actor), config.cobalt
    if cobalt.policy_loss is not None:
        return OwnLoss(actor, cobalt.policy_loss, dict(cobalt.get("constants") or {}))
    loss = weighted_loss if in_blocks(config) else mean_of_filled if over_sequences(config) else None
    return loss and partial(loss, config=actor)


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
    tensordict_utils.assign_non_tensor(
        data, global_batch_size=total * float(data[FILLED].unbind()[0].flatten()[0])
    )
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


def turn_columns(keys: Sequence[str], masks: Sequence[torch.Tensor]) -> dict[str, Any]:
    """The columns that `OwnLoss` reads, of rows with these keys and masks [tokens]."""
    records = records_of(keys, masks)
    numbers = [turn_numbers(record, mask) for record, mask in zip(records, masks, strict=True)]
    nothing = Rollout(0.0, ())  # of verl's padding
    return {
        TURNS: torch.nested.as_nested_tensor(numbers, layout=torch.jagged),
        RECORDS: NonTensorStack(*(asdict(record or nothing) for record in records)),
    }


@register_policy_loss(own_update.NAME)
def _added_by_own_loss(*, log_prob: torch.Tensor, **_: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    """No policy term: verl does not hand on what `OwnLoss` needs, so that adds it."""
    return log_prob.new_zeros(()), {}


@dataclass
class OwnLoss:
    """The loss with ``cobalt.policy_loss`` as its policy term, for verl's engines.

    The function is called with all rows of a micro-batch at once, padded to [rows, tokens]; verl's KL and
    entropy terms are added. Raises InfraError where it fails, or returns no finite scalar.
    """

    config: Any
    spec: str
    constants: dict[str, Any]
    _loaded: list[Own] = field(default_factory=list)  # in the process that calls it
    _names: list[str] = field(default_factory=list)  # of its metrics, which ranks must have in common

    def __call__(self, *, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
        column = data[COLUMN].unbind() if COLUMN in data else ()  # nested, as it comes from the queue
        blocks = torch.cat([tokens.flatten() for tokens in column]) if len(column) else None
        rest = mean_of_filled if FILLED in data else ppo_loss if blocks is None else weighted_loss
        loss, metrics = rest(config=self.config, model_output=model_output, data=data, dp_group=dp_group)
        columns = ("response_mask", "old_log_probs", "advantages", TURNS, "rollout_is_weights")
        rows = data.select(*(name for name in columns if name in data)).to_padded_tensor()
        padded = {name: no_padding_2_padding(value, data) for name, value in model_output.items()
                  if name in ("log_probs", "entropy")}  # fmt: skip
        records = data[RECORDS]
        term, said = self.term(
            log_prob=padded["log_probs"],
            old_log_prob=rows["old_log_probs"],
            advantages=rows["advantages"],
            mask=rows["response_mask"],
            turns=rows[TURNS],
            group=[
                Rollout.of(each) for each in (records.tolist() if hasattr(records, "tolist") else records)
            ],
            aggregate=partial(self._aggregate, blocks),
            config=self.config,
            entropy=padded.get("entropy"),
            weights=rows.get("rollout_is_weights"),
        )
        metrics |= Metric.from_dict(said, AggregationType.MEAN)
        metrics["actor/pg_loss"] = Metric(AggregationType.SUM, term)
        return loss + term, metrics

    def term(self, **offered: Any) -> tuple[torch.Tensor, dict[str, float]]:
        """What the function makes of a micro-batch: its term, and numbers to log."""
        if not self._loaded:
            loaded = load(self.spec, own_update.LOSS, OFFERED["policy_loss"], constants=self.constants)
            self._loaded.append(loaded)
        (own,) = self._loaded
        given = own_update.called(own, **offered)
        value, said = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
        wrong = ""
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            wrong = (
                f"returned {type(value).__name__} {tuple(getattr(value, 'shape', ()))}, which is no scalar"
            )
        elif not bool(torch.isfinite(value)):
            wrong = f"returned {float(value)}"
        elif not value.requires_grad and torch.is_grad_enabled():
            wrong = "returned a loss that does not depend on log_prob: there is nothing to learn from it"
        try:
            said = {str(name): float(each) for name, each in dict(said).items()}
        except (TypeError, ValueError) as error:
            wrong = wrong or f"returned beside the loss what is no mapping of names to numbers ({error})"
            said = {}
        self._names = self._names or sorted(said)
        if not wrong and sorted(said) != self._names:
            wrong = f"returned metrics {sorted(said)}, and {self._names} before"
        if wrong:
            raise InfraError(f"{own.where}: {own.setting}={own.spec}: {wrong}")
        return value.reshape(()), said

    def _aggregate(
        self, blocks: torch.Tensor | None, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """The recipe's mean (``actor.loss_agg_mode``) of ``values`` where ``mask`` is, both [rows, tokens].

        ``token-mean`` divides by the policy's tokens, whatever the mask. ``blocks`` [rows]: tokens of each
        row's block (``cobalt.token_mean_over``).
        """
        batch = self.config.global_batch_info
        if blocks is None:
            mean: torch.Tensor = agg_loss(values, mask, self.config.loss_agg_mode, **batch)
            return mean
        each = (values * mask).sum(1) / (blocks * batch["global_batch_size"])
        return each.sum() * batch["dp_size"]


def check_loss(config: Any) -> str:
    """Try ``cobalt.policy_loss`` on made-up rows; one line about it. Raises InputError."""
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    own = own_update.own_function(config, own_update.LOSS)
    assert own is not None
    if config.algorithm.rollout_correction.get("rollout_is") and "weights" not in own.takes:
        raise InputError(
            f"{own.where}: {own.setting}={own.spec}: algorithm.rollout_correction.rollout_is: it must take "
            "'weights'"
        )
    loss = OwnLoss(actor, own.spec, dict(own.constants))
    group = [rollout for made in own_update.made_up(config) for rollout in made]
    group.append(Rollout(0.0, ()))
    width = max(turn.end for rollout in group for turn in rollout.turns)
    mask = torch.zeros(len(group), width, dtype=torch.int64)
    for row, rollout in enumerate(group):
        for turn in rollout.turns:
            mask[row, turn.begin : turn.end] = int(not turn.shared)
    turns = torch.stack([turn_numbers(*row) for row in zip(group, mask, strict=True)])
    log_prob = torch.full(mask.shape, -1.0, requires_grad=True)
    entropy = torch.full(mask.shape, 0.5) if actor.calculate_entropy or actor.entropy_coeff else None

    def call() -> None:
        term, _ = loss.term(
            log_prob=log_prob,
            old_log_prob=torch.full(mask.shape, -1.1),
            advantages=torch.where(torch.arange(len(group)) % 2 == 0, 1.0, -1.0)[:, None] * mask,
            mask=mask,
            turns=turns,
            group=group,
            aggregate=lambda values, where: (values * where).sum() / mask.sum(),
            config=actor,
            entropy=entropy,
            weights=torch.ones(mask.shape) if config.algorithm.rollout_correction.get("rollout_is") else None,
        )
        term.backward()

    own_update.tried(f"{len(group)} made-up rows", call)
    return f"policy loss: {own.spec} ({own.where}, sha256 {own.sha256})"
