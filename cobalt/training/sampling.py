"""Settings of a composed training that say which samples are learnt from: whether they are the policy's, what
corrects for it, and which groups are sampled again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cobalt.errors import InputError
from cobalt.training.groups import CONTRASTS


def settle(config: Any, overridden: Collection[str]) -> None:
    """Importance correction switches off the CPU profile's ``bypass_mode`` (it saves a pass where nothing is
    corrected), unless that is among the ``overridden`` settings.
    """
    name, correction = "algorithm.rollout_correction.bypass_mode", config.algorithm.rollout_correction
    if _corrects(correction) and name not in overridden:
        correction.bypass_mode = False


def check(config: Any) -> None:
    """Raises InputError for samples that are not the policy's, and for settings that nothing would read."""
    rollout, correction = config.actor_rollout_ref.rollout, config.algorithm.rollout_correction
    groups, offline = config.algorithm.filter_groups, config.cobalt.method == "offline"
    corrected = _corrects(correction)
    if groups.enable and (offline or groups.metric not in CONTRASTS):
        known = "nothing is sampled" if offline else f"metric must be one of {', '.join(CONTRASTS)}"
        raise InputError(f"algorithm.filter_groups: {known}, got metric={groups.metric!r}")
    if groups.enable and groups.max_inflight_gen_batches != 1:
        raise InputError(
            "algorithm.filter_groups.max_inflight_gen_batches is not read: give max_num_gen_batches"
        )
    for name, how in (("rollout", rollout), ("rollout.val_kwargs", rollout.val_kwargs)):
        if config.trainer.device == "cpu" and how.top_k > 0:
            raise InputError(
                f"actor_rollout_ref.{name}.top_k={how.top_k}: the CPU profile does not sample so"
            )
    if corrected and not rollout.calculate_log_probs:
        raise InputError(
            "algorithm.rollout_correction needs actor_rollout_ref.rollout.calculate_log_probs=true"
        )
    if corrected and correction.bypass_mode:  # verl then takes the rollout's probabilities for the trainer's
        raise InputError(
            "algorithm.rollout_correction.rollout_is and rollout_rs are not read in bypass_mode: set "
            "algorithm.rollout_correction.bypass_mode=false"
        )
    if not (offline or corrected) and (rollout.top_p < 1 or rollout.top_k > 0):
        raise InputError(
            f"actor_rollout_ref.rollout.top_p={rollout.top_p}, top_k={rollout.top_k}: such samples are not "
            "the policy's, whose probabilities are learnt from; train with top_p=1 and top_k=-1, or correct "
            "for it: algorithm.rollout_correction.rollout_is=token (docs/recipes.md)"
        )


def _corrects(correction: Any) -> bool:
    return correction.rollout_is is not None or correction.rollout_rs is not None
