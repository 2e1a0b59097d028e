"""verl's synchronous trainer, registered as ``cobalt``: a clean stop, comparisons, and rows for estimators.

Public hooks carry most of it. Two underscore methods are extended, each calling verl's own; they stand in the
list of cobalt.training.verl_compat.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.debug.metrics import calculate_debug_metrics
from verl.workers.utils.padding import response_from_nested

from cobalt.errors import InfraError
from cobalt.rewards.verpo import Constants
from cobalt.training import advantages, checkpoint
from cobalt.training.losses import COLUMN, block_tokens, in_blocks, loss_function
from cobalt.training.monitor import check_numbers
from cobalt.training.own_recipe import load_plugins
from cobalt.training.verl_compat import check_trainer

check_trainer(PPOTrainerSync)
NAME = "cobalt"
EXPOSED = "timing_s/reward_exposed"


@register_trainer(NAME)
class CobaltTrainer(PPOTrainerSync):
    """Adds to verl's trainer:

    - A file ``stop-request`` beside the checkpoints ends the run after the step under way, with a checkpoint.
    - Where rollout log-probabilities are taken as they are (``bypass_mode``), the trainer's own are computed
      at the first and every ``cobalt.check_every``-th step, for ``training/rollout_probs_diff_*`` and
      ``actor/entropy`` only.
    - ``reward/step_share``: the part of a step that waits for nothing but verdicts.
    - The keys of the rows reach estimators that need more than rewards (cobalt.training.advantages).
    - ``cobalt.token_mean_over`` gives the workers another loss function, and rows the tokens of their blocks
      (cobalt.training.losses).
    """

    def __init__(self, config: Any) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # what verl's own code asks for from here on
        load_plugins(config)  # on GPUs this is another process than the one that checked
        super().__init__(config)
        self._stop_request = Path(config.trainer.default_local_dir).parent / checkpoint.STOP_REQUEST

    total_training_steps: int

    def on_init_end(self) -> None:
        loss = loss_function(self.config)
        if loss is not None:
            self.actor_rollout_wg.set_loss_fn(loss)
        super().on_init_end()

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, Any]) -> Any:
        """One step, and the end of the run after it if that is asked for.

        verl saves between this and ``on_step_end``, which wakes the rollout: there its memory is free.
        Raises InfraError, before anything is saved, if a metric that must be a number is none.
        """
        batch = super().step(metrics, timing_raw)
        try:
            check_numbers(self.global_steps, metrics)
        except InfraError:
            self.logger.log(data=metrics, step=self.global_steps)
            raise
        if self._stop_request.exists() and self.global_steps < self.total_training_steps:
            print(f"cobalt: stopping after step {self.global_steps}, as asked", flush=True)
            self.config.trainer.save_freq = 1
            self.total_training_steps = self.global_steps
        return batch

    def _save_checkpoint(self) -> None:
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        checkpoint.write_made_by(folder, self.config)
        super()._save_checkpoint()

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_old_log_prob(batch, metrics)
        every = int(self.config.cobalt.check_every)
        bypass = self.config.algorithm.rollout_correction.bypass_mode
        if bypass and every > 0 and (self.global_steps - 1) % every == 0:
            metrics.update(self._compare(batch))
        return batch

    def _compare(self, batch: Any) -> dict[str, float]:
        """Rollout against trainer, and the entropy, in a copy of the batch's metadata."""
        extra = dict(batch.extra_info)
        batch.extra_info.update(
            calculate_entropy=True,
            compute_loss=False,
            temperature=self.config.actor_rollout_ref.rollout.temperature,
        )
        self.actor_rollout_wg.compute_log_prob(batch)
        names = ["entropy", "log_probs", "response_mask", "responses", "rollout_log_probs"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        batch.extra_info.clear()
        batch.extra_info.update(extra)
        data["old_log_probs"] = response_from_nested(data.pop("log_probs"), data["response_mask"])
        data["entropy"] = response_from_nested(data.pop("entropy"), data["response_mask"])
        padded = DataProto(batch=data.to_padded_tensor())
        mask = padded.batch["response_mask"]
        entropy = (padded.batch["entropy"] * mask).sum() / mask.sum().clamp(min=1)
        return {"actor/entropy": float(entropy), **calculate_debug_metrics(padded)}

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        with advantages.rows(batch.keys, Constants(**self.config.cobalt.verpo)):
            batch = super()._compute_advantage(batch, metrics)
        if in_blocks(self.config):
            got = tq.kv_batch_get(
                keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"]
            )
            tokens = [int(mask.sum()) for mask in got["response_mask"].unbind()]
            column = block_tokens(tokens, int(self.config.cobalt.token_mean_over))
            fields = TensorDict({COLUMN: column}, batch_size=len(tokens))
            batch = tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
        return batch

    def _compute_metrics(self, batch: Any, metrics: Any, timing_raw: Any, **rest: Any) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **rest)
        if EXPOSED in metrics and timing_raw.get("step"):
            metrics["reward/step_share"] = metrics[EXPOSED] / timing_raw["step"]
