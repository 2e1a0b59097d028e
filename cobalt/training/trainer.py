"""verl's synchronous trainer, registered as ``cobalt``, and the replay buffer between rollout and update.

Failed rollouts stop the run, samples without a verdict leave the batch. Public hooks of verl carry most of
it; the underscore methods that are extended, each calling verl's, are listed in cobalt.training.verl_compat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.debug.metrics import calculate_debug_metrics
from verl.workers.utils.padding import response_from_nested

from cobalt.errors import InfraError
from cobalt.rewards.records import Rollout
from cobalt.training import advantages, checkpoint, own_update
from cobalt.training.groups import REWARDS, Sampled, alike, in_order, masked_keys, prompt_of, session_of
from cobalt.training.losses import columns, loss_function, turn_columns
from cobalt.training.monitor import check_numbers
from cobalt.training.own_recipe import load_plugins
from cobalt.training.process import writer_lock
from cobalt.training.reward import first_refusal
from cobalt.training.scoring import EXPOSED, batch_metrics
from cobalt.training.verl_agent import RECORD
from cobalt.training.verl_compat import balance_by_numbers, check_trainer, plain_task_runner

check_trainer(PPOTrainerSync)
balance_by_numbers()
TIMING_TAG = "cobalt_timing"  # of a batch's first row: {name: seconds}
_Runner: Any = plain_task_runner()


class ClusterRunner(_Runner):
    """verl's task runner in a Ray actor of a cluster, where importing this module registers our parts.

    It holds the output folder as long as its process lives: it may outlive its launcher, which does so too.
    """

    def run(self, config: Any) -> None:
        """Train. ``config``: the composed and checked configuration."""
        with writer_lock(Path(config.trainer.default_local_dir).parent):
            super().run(config)


@register_trainer("cobalt")
class CobaltTrainer(PPOTrainerSync):
    """Adds to verl's trainer:

    - A file ``stop-request`` beside the checkpoints ends the run after the step under way, with a checkpoint.
    - Where rollout log-probabilities are taken as they are (``bypass_mode``), the trainer's own are computed
      at the first and every ``cobalt.check_every``-th step, for ``training/rollout_probs_diff_*`` and
      ``actor/entropy`` only.
    - ``reward/step_share``: the part of a step that waits for nothing but verdicts.
    - The keys of the rows reach estimators that need more than rewards (cobalt.training.advantages).
    - ``cobalt.token_mean_over`` and ``cobalt.policy_loss`` give the workers another loss function, and rows
      the tokens of their blocks, their turns and records (cobalt.training.losses).
    """

    def __init__(self, config: Any) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # what verl's own code asks for from here on
        load_plugins(config)  # on GPUs this is another process than the one that checked
        super().__init__(config)
        self._own_advantage = own_update.own_function(config, own_update.ADVANTAGE)
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
        with advantages.rows(batch.keys, self._own_advantage):
            batch = super()._compute_advantage(batch, metrics)
        got = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"]
        )
        masks = got["response_mask"].unbind()
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1  # as _balance_batch found them
        made: dict[str, Any] = columns(self.config, [int(mask.sum()) for mask in masks], ranks)
        if self.config.cobalt.policy_loss is not None:
            made |= turn_columns(batch.keys, masks)
        if made:
            fields = TensorDict(made, batch_size=len(masks))
            batch = tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
        return batch

    def _compute_metrics(self, batch: Any, metrics: Any, timing_raw: Any, **rest: Any) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **rest)
        if EXPOSED in metrics and timing_raw.get("step"):
            metrics["reward/step_share"] = metrics[EXPOSED] / timing_raw["step"]


class LoudReplayBuffer(ReplayBuffer):
    """verl's replay buffer (setting ``trainer.v1.sampler.custom_sampler``) that lets nothing vanish.

    The stock one trains on what is left when rollouts fail. This one raises InfraError on a failed prompt
    group, and takes samples that were scored ``masked`` out of the batch: verl then fills the batch with
    padding rows whose response mask is zero, so the gradient is that of the remaining samples, and advantages
    are computed among them. A group with fewer than two of them has no baseline and leaves as a whole. Both
    are counted in ``reward/masked``; more than ``max_masked_share`` of a batch stops the run.

    It also puts a batch in the order of its prompts. In the stock one samples stand as they finished, so that
    on GPUs the first mini-batch would hold the short responses and the last one the long.

    Where ``algorithm.filter_groups`` is switched on, groups whose samples all have one reward (or other
    ``metric``) leave too, and twice as many prompts as are missing, at most a batch, are sampled in their
    place: ``max_num_gen_batches`` times in all (0: without end). Then what there is, if anything, is trained
    on. Counted in ``training/filter_groups/``: ``sampled``, ``dropped`` and ``kept`` groups, ``batches``.

    ``sampler_kwargs``: ``samples_per_prompt``, ``max_masked_share`` in [0, 1], ``poll_interval_s``,
    ``filter_groups``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = kwargs["sampler_kwargs"]
        super().__init__(*args, **{**kwargs, "poll_interval": float(settings["poll_interval_s"])})
        self.samples_per_prompt = int(settings["samples_per_prompt"])
        self.max_masked_share = float(settings["max_masked_share"])
        given = settings["filter_groups"]
        self.contrast, self.rounds = (
            given["metric"] if given["enable"] else None,
            given["max_num_gen_batches"],
        )

    def _sampleable_terminal_keys(self, partition_id: str, eviction_reasons: Any) -> Any:
        failed = self.failure_keys[partition_id]
        if failed:
            raise InfraError(
                f"{len(failed)} prompt group(s) failed in rollout or reward (partition {partition_id!r}); "
                "the reason is in the log above"
            )
        return super()._sampleable_terminal_keys(partition_id, eviction_reasons)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """A batch of ``batch_size`` prompt groups without masked samples, and the metrics of all samples."""
        if partition_id == "val":  # a sample without a verdict has already stopped the run
            return super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        made, asked = Sampled(), batch_size
        while True:
            batch, metrics = super().sample(
                global_steps=global_steps, partition_id=partition_id, batch_size=asked
            )
            in_order(batch, self.prompt_global_steps[partition_id])
            self._sift(batch, made, asked)
            expected = made.sampled * self.samples_per_prompt
            if made.lost > math.floor(self.max_masked_share * expected):
                raise InfraError(
                    f"step {global_steps}: {made.lost} of {expected} samples have no verdict, more than the "
                    f"share of {self.max_masked_share:g} that is allowed (cobalt.max_masked_share); "
                    + _reason(made.infos)
                )
            missing = batch_size - len(made.groups)
            if self.contrast is None or missing <= 0 or made.batches == self.rounds:
                break
            asked = min(batch_size, 2 * missing)
            self.refill_fn(asked)
        advantages.remember(made.records)
        metrics.update(batch_metrics(made.infos) | made.timing)
        metrics["reward/masked"] = float(made.lost)
        metrics["rollout/programs"] = float(made.programs)
        if self.contrast is not None:
            metrics.update(made.filtered(batch_size, self.contrast, global_steps))
        surplus = {uid for uid in list(made.groups)[batch_size:]}
        if gone := [key for key, _ in made.rows if prompt_of(key) in surplus]:
            tq.kv_clear(keys=gone, partition_id=partition_id)
        rows = [row for row in made.rows if prompt_of(row[0]) not in surplus]
        # a new one: it keeps its own length
        keys, tags = [key for key, _ in rows], [tag for _, tag in rows]
        return type(batch)(keys=keys, tags=tags, partition_id=partition_id), metrics

    def _sift(self, batch: Any, made: Sampled, asked: int) -> None:
        """Clear what must leave ``batch``, of ``asked`` prompts, and add the rest to ``made``."""
        fields = ["extra_fields", *([] if self.contrast is None else ["rm_scores"])]
        got: Any = {name: [] for name in fields}
        if batch.keys:
            got = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        extras = list(got["extra_fields"])
        infos = [extra["reward_extra_info"] for extra in extras]
        # of a dialogue beside its reward, of a completion with it
        told = [
            extra.get(RECORD) or info.pop(RECORD, None) for extra, info in zip(extras, infos, strict=True)
        ]
        records = {key: Rollout.of(each) for key, each in zip(batch.keys, told, strict=True) if each}
        gone = masked_keys(batch.keys, [bool(info["masked"]) for info in infos])
        made.lost += asked * self.samples_per_prompt - len(
            {session_of(k) for k in batch.keys if k not in gone}
        )
        if self.contrast is not None:
            scores = [float(each.sum()) for each in got["rm_scores"]]
            values = scores if self.contrast in REWARDS else [info[self.contrast] for info in infos]
            flat = alike(batch.keys, values, gone)
            gone |= {key for key in batch.keys if prompt_of(key) in flat}
            made.dropped += len(flat)
        if gone:
            tq.kv_clear(keys=sorted(gone), partition_id=batch.partition_id)
        timing = batch.tags[0].get(TIMING_TAG, {}) if batch.keys else {}
        made.timing = {name: value + made.timing.get(name, 0.0) for name, value in timing.items()}
        made.rows += [row for row in zip(batch.keys, batch.tags, strict=True) if row[0] not in gone]
        made.records |= records
        made.programs += sum(not turn.shared for each in records.values() for turn in each.turns)
        made.infos += infos
        made.sampled, made.batches = made.sampled + asked, made.batches + 1


def _reason(infos: Sequence[Mapping[str, float]]) -> str:
    """Why samples may have no reward."""
    failed = sum(info.get("failed", 0.0) for info in infos)
    if not failed:
        return "is the evaluator well?"
    why = first_refusal[0] if first_refusal else "why is in the log above"
    return f"to {failed:.0f} of them cobalt.reward gave no number: {why}"
