"""Between rollout and update: failed rollouts stop the run, samples without a verdict leave the batch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from cobalt.errors import InfraError
from cobalt.training.advantages import remember
from cobalt.training.dialogue import TURNS
from cobalt.training.scoring import batch_metrics, masked_keys, session_of

TIMING_TAG = "cobalt_timing"  # of a batch's first row: {name: seconds}


class LoudReplayBuffer(ReplayBuffer):
    """verl's replay buffer (setting ``trainer.v1.sampler.custom_sampler``) that lets nothing vanish.

    The stock one trains on what is left when rollouts fail. This one raises InfraError on a failed prompt
    group, and takes samples that were scored ``masked`` out of the batch: verl then fills the batch with
    padding rows whose response mask is zero, so the gradient is that of the remaining samples, and advantages
    are computed among them. A group with fewer than two of them has no baseline and leaves as a whole. Both
    are counted in ``reward/masked``; more than ``max_masked_share`` of a batch stops the run.

    It also puts a batch in the order of its prompts. In the stock one samples stand as they finished, so that
    on GPUs the first mini-batch would hold the short responses and the last one the long.

    ``sampler_kwargs``: ``samples_per_prompt``, ``max_masked_share`` in [0, 1], ``poll_interval_s``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = kwargs["sampler_kwargs"]
        super().__init__(*args, **{**kwargs, "poll_interval": float(settings["poll_interval_s"])})
        self.samples_per_prompt = int(settings["samples_per_prompt"])
        self.max_masked_share = float(settings["max_masked_share"])

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
        batch, metrics = super().sample(
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )
        if partition_id == "val":
            return batch, metrics  # a validation sample without a verdict has already stopped the run
        in_order(batch, self.prompt_global_steps[partition_id])
        extras: list[dict[str, Any]] = []
        if batch.keys:
            got = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=["extra_fields"])
            extras = list(got["extra_fields"])
        infos = [extra["reward_extra_info"] for extra in extras]
        timing = batch.tags[0].get(TIMING_TAG, {}) if batch.keys else {}
        metrics.update(batch_metrics(infos) | timing)
        remember({key: e[TURNS] for key, e in zip(batch.keys, extras, strict=True) if TURNS in e})
        self._drop(batch, masked_keys(batch.keys, [bool(info["masked"]) for info in infos]))
        expected = batch_size * self.samples_per_prompt
        lost = expected - len({session_of(key) for key in batch.keys})
        metrics["reward/masked"] = float(lost)
        if lost > math.floor(self.max_masked_share * expected):
            raise InfraError(
                f"step {global_steps}: {lost} of {expected} samples have no verdict, more than the share of "
                f"{self.max_masked_share:g} that is allowed (cobalt.max_masked_share); is the evaluator well?"
            )
        return batch, metrics

    @staticmethod
    def _drop(batch: Any, keys: set[str]) -> None:
        if not keys:
            return
        tq.kv_clear(keys=sorted(keys), partition_id=batch.partition_id)
        kept = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if key not in keys]
        batch.keys, batch.tags = [key for key, _ in kept], [tag for _, tag in kept]


def in_order(batch: Any, prompts: Iterable[str]) -> None:
    """Sort a batch by its keys ``{uid}_{session}_{index}``: place of the uid in ``prompts``, then numbers."""
    places = {uid: place for place, uid in enumerate(prompts)}

    def place(row: tuple[str, Any]) -> tuple[int, int, int]:
        uid, session, index = row[0].rsplit("_", 2)
        return places[uid], int(session), int(index)

    rows = sorted(zip(batch.keys, batch.tags, strict=True), key=place)
    batch.keys, batch.tags = [key for key, _ in rows], [tag for _, tag in rows]
