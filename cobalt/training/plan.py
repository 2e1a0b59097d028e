"""What a training will do, worked out before it starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cobalt.errors import InputError
from cobalt.training.data import DataCheck


@dataclass(frozen=True)
class Plan:
    """Sizes of a training. ``samples``: completions in all; tokens are means and upper bounds per run."""

    steps: int
    first_step: int
    contexts: int
    contexts_per_step: int
    samples_per_context: int
    samples: int
    epochs: float
    optimizer_steps: int
    overlong: int
    mean_prompt_tokens: float
    longest_prompt_tokens: int
    prompt_tokens: int
    response_tokens_at_most: int
    validation_rows: int

    def lines(self) -> list[str]:
        """The plan for people."""
        resumed = f" (steps {self.first_step} to {self.steps} are left)" if self.first_step > 1 else ""
        return [
            f"steps: {self.steps}{resumed}, each {self.contexts_per_step} contexts x "
            f"{self.samples_per_context} completions, {self.optimizer_steps} optimiser steps",
            f"data: {self.contexts} contexts ({self.overlong} overlong left out), {self.epochs:.1f} epochs, "
            f"{self.validation_rows} validation rows",
            f"tokens: {self.mean_prompt_tokens:.0f} per prompt, {self.longest_prompt_tokens} at most; in all "
            f"{self.prompt_tokens:,} of prompts and at most {self.response_tokens_at_most:,} of responses",
            f"samples: {self.samples:,}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def make_plan(
    config: Any, train: DataCheck, validation: DataCheck | None, steps: int | None, done: int
) -> Plan:
    """Work out the plan; ``done`` steps are in a checkpoint.

    ``steps`` None: as many as ``trainer.total_epochs`` epochs have.
    Raises InputError if batch sizes do not divide, or the data hold less than one batch.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    batch, n = int(config.data.train_batch_size), int(rollout.n)
    mini, micro = int(actor.ppo_mini_batch_size), int(actor.ppo_micro_batch_size_per_gpu)
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    if n < 2 and config.cobalt.method != "offline":
        raise InputError(
            f"actor_rollout_ref.rollout.n={n}: a group needs at least 2 completions for its baseline"
        )
    if batch % mini:
        raise InputError(
            f"data.train_batch_size={batch} is not a multiple of actor.ppo_mini_batch_size={mini}"
        )
    if mini * n % devices:
        raise InputError(
            f"actor.ppo_mini_batch_size x rollout.n = {mini * n} is not a multiple of the {devices} devices"
        )
    if mini * n // devices % micro:
        raise InputError(
            f"{mini * n // devices} samples of a mini-batch per device are not a multiple of "
            f"actor.ppo_micro_batch_size_per_gpu={micro}"
        )
    parallel = int(rollout.tensor_model_parallel_size)
    if devices % parallel:
        raise InputError(
            f"{devices} devices are not a multiple of rollout.tensor_model_parallel_size={parallel}"
        )
    per_epoch = train.rows // batch
    if per_epoch == 0:
        raise InputError(
            f"training data: {train.rows} rows that fit are less than one batch "
            f"(data.train_batch_size={batch})"
        )
    total = steps if steps is not None else per_epoch * int(config.trainer.total_epochs)
    if total < 1:
        raise InputError(f"steps must be at least 1, got {total}")
    samples = total * batch * n
    return Plan(
        steps=total,
        first_step=done + 1,
        contexts=train.rows,
        contexts_per_step=batch,
        samples_per_context=n,
        samples=samples,
        epochs=total / per_epoch,
        optimizer_steps=batch // mini * int(actor.ppo_epochs),
        overlong=train.overlong,
        mean_prompt_tokens=train.mean_prompt,
        longest_prompt_tokens=train.longest_prompt,
        prompt_tokens=round(samples * train.mean_prompt),
        response_tokens_at_most=samples * int(config.data.max_response_length),
        validation_rows=validation.rows if validation is not None else 0,
    )
