"""Sizes of a model, and of a training: its steps, samples and tokens, worked out before it starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.training.data import DataCheck


@dataclass(frozen=True)
class Sizes:
    """Of a dense decoder with gated MLP; norms and biases are left out (under 0.1 %)."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: dict[str, Any]) -> Sizes:
        """By ``config.json``. Raises KeyError, TypeError, ValueError for another kind of model."""
        if any("expert" in name for name in config):
            raise ValueError("a mixture of experts")
        width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        return cls(
            width, int(config["num_hidden_layers"]), heads, int(config.get("num_key_value_heads") or heads),
            int(config.get("head_dim") or width // heads), int(config["intermediate_size"]),
            int(config["vocab_size"]), bool(config.get("tie_word_embeddings")),
        )  # fmt: skip

    @property
    def embeddings(self) -> int:
        """Parameters of embedding and head."""
        return self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def layer(self) -> int:
        """Parameters of a layer."""
        return 2 * self.width * self.head_dim * (self.heads + self.kv_heads) + 3 * self.width * self.inner

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.embeddings + self.layers * self.layer

    def adapters(self, rank: int) -> int:
        """Parameters of adapters on every linear layer: ``rank`` times the sum of inputs and outputs."""
        attention = 4 * self.width + 2 * self.head_dim * (self.heads + self.kv_heads)
        return rank * self.layers * (attention + 3 * (self.width + self.inner))


def sizes(folder: Path | str) -> Sizes | None:
    """Of a model's folder, or of a hub name whose ``config.json`` is cached; None if they are not there."""
    path = Path(folder) / "config.json"
    try:
        if not Path(folder).is_dir():
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(str(folder), "config.json", local_files_only=True))
        return Sizes.of(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def devices_of(config: Any) -> int:
    """How many devices a composed training has."""
    return int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)


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


def make_plan(
    config: Any, train: DataCheck, validation: DataCheck | None, steps: int | None, done: int
) -> Plan:
    """Work out the plan; ``done`` steps are in a checkpoint.

    ``steps`` None: as many as ``trainer.total_epochs`` epochs have.
    Raises InputError if batch sizes do not divide, or the data hold less than one batch.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    batch, n, mini = int(config.data.train_batch_size), int(rollout.n), int(actor.ppo_mini_batch_size)
    per_epoch = train.rows // batch
    total = steps if steps is not None else per_epoch * int(config.trainer.total_epochs)
    _refuse_sizes(config, train.rows, total)
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


def _refuse_sizes(config: Any, rows: int, steps: int) -> None:
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    batch, n, mini = int(config.data.train_batch_size), int(rollout.n), int(actor.ppo_mini_batch_size)
    micro, parallel = int(actor.ppo_micro_batch_size_per_gpu), int(rollout.tensor_model_parallel_size)
    devices = devices_of(config)
    for wrong, message in (
        (
            n < 2 and config.cobalt.method != "offline",
            f"actor_rollout_ref.rollout.n={n}: a group needs at least 2 completions for its baseline",
        ),
        (
            batch % mini,
            f"data.train_batch_size={batch} is not a multiple of actor.ppo_mini_batch_size={mini}",
        ),
        (
            mini * n % devices,
            f"actor.ppo_mini_batch_size x rollout.n = {mini * n} is not a multiple of the {devices} devices",
        ),
        (
            mini * n // devices % micro,
            f"{mini * n // devices} samples of a mini-batch per device are not a multiple of "
            f"actor.ppo_micro_batch_size_per_gpu={micro}",
        ),
        (
            devices % parallel,
            f"{devices} devices are not a multiple of rollout.tensor_model_parallel_size={parallel}",
        ),
        (
            rows < batch,
            f"training data: {rows} rows that fit are less than one batch (data.train_batch_size={batch}): "
            "collect more trajectories, raise data.max_prompt_length if prompts were left out, or give a "
            "smaller data.train_batch_size (a multiple of actor_rollout_ref.actor.ppo_mini_batch_size)",
        ),
        (steps < 1, f"steps must be at least 1, got {steps}"),
    ):
        if wrong:
            raise InputError(message)
