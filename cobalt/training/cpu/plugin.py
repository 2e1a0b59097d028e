"""What verl imports through ``actor_rollout_ref.model.external_lib``: registers engine and rollout."""

from verl.workers.rollout.replica import RolloutReplicaRegistry

from cobalt.training.cpu import engine, rollout
from cobalt.training.verl_compat import register_rollout

ROLLOUT = "cobalt_cpu"
ENGINE = engine.CpuFSDPEngine

RolloutReplicaRegistry.register(ROLLOUT, lambda: rollout.CpuReplica)
register_rollout(ROLLOUT, f"{rollout.__name__}.CpuRollout")
