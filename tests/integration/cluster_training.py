"""Programs beside a Ray cluster: a training that outlives its launcher, the next launch, a real one."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

from cobalt.errors import InfraError, InputError
from cobalt.training import checkpoint, worker
from cobalt.training.process import writer_lock
from cobalt.training.verl_compat import RUNNER


def standin(config: str) -> None:
    """Holds the output of `config`, and writes one more checkpoint when its driver is gone.

    A child has the driver's connection, as forked workers of an evaluator do: Ray hears of the end later.
    """
    import ray

    class Runner:
        def run(self, output: str) -> None:
            checkpoints = Path(output, "checkpoints")
            with writer_lock(Path(output)):
                (Path(output) / "runner").write_text(str(os.getpid()))
                _await(Path(output, "killed"))
                time.sleep(2)
                (checkpoints / "global_step_8" / "actor").mkdir(parents=True)
                (checkpoints / checkpoint.LATEST).write_text("8")
                time.sleep(600)

    output = Path(config).parents[2]
    ray.init(log_to_driver=False)
    if os.fork() == 0:
        _await(output / "killed")
        time.sleep(4)
        os._exit(0)
    runner = ray.remote(name=RUNNER, namespace="cobalt")(Runner).remote()
    ray.get(runner.run.remote(str(output)))


def _await(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


def launch(config: str) -> None:
    """The training process up to where it reads the step to go on from."""

    def prepare(config):
        raise InputError(f"goes on from {checkpoint.checkpoint_step(Path(config.trainer.default_local_dir))}")

    worker.prepare, worker.missing_devices, worker._import_verl = prepare, lambda *_: None, lambda: None
    sys.exit(worker.main([config]))


def train(config: str) -> None:
    """The CPU profile as on a cluster: verl's runner is an actor."""
    settings = importlib.import_module("omegaconf").OmegaConf.load(config)

    def run(path: Path, check_only: bool) -> None:
        worker.prepare(settings)
        worker.check_parts(settings)
        worker._train(settings, private=False, address=os.environ["RAY_ADDRESS"])

    worker.run = run
    sys.exit(worker.main([config]))


if __name__ == "__main__":
    {"standin": standin, "launch": launch, "train": train}[sys.argv[1]](sys.argv[2])
else:  # the plug-in of the real one, imported in the actor too
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est

    seen: list[int] = []

    @register_adv_est("fails_at_two")
    def fails_at_two(token_level_rewards, response_mask, index, **_):
        """GRPO once, then a fault."""
        seen.append(os.getpid())
        if len(seen) == 2:
            raise InfraError(f"the second step fails in {os.getpid()}")
        return compute_grpo_outcome_advantage(token_level_rewards, response_mask, index)
