"""The process in which verl runs: checks that our parts are the ones it will use, then hands over to verl.

Started by cobalt.training.launch: ``python -m cobalt.training.entry CONFIG [--check]``. Whatever goes wrong is
left as JSON in the run folder, so that the launcher can say it in one line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.training.private import plain_task_runner

FAILURE, COUNTERS = "failure.json", "evaluator.json"


def main(argv: list[str]) -> int:
    """Exit status 0: done (or checked); 1: a fault; 2: input that cannot be used."""
    path, check_only = Path(argv[0]), "--check" in argv[1:]
    folder = Path(os.environ["COBALT_RUN_DIR"])
    try:
        run(path, check_only)
    except BaseException as error:
        traceback.print_exc()
        kind = "input" if isinstance(error, InputError) else "fault"
        text = str(error) if isinstance(error, CobaltError) else f"{type(error).__name__}: {error}"
        (folder / FAILURE).write_text(json.dumps({"kind": kind, "message": text}))
        return 2 if kind == "input" else 1
    return 0


def run(path: Path, check_only: bool) -> None:
    """Check the configuration in file ``path`` and train unless ``check_only``."""
    from omegaconf import OmegaConf

    config = OmegaConf.load(path)
    private = config.trainer.device == "cpu"
    if private and not check_only:
        _start_private_ray(config)
    check(config)
    if check_only:
        return
    from verl.trainer import main_ppo

    try:
        if private:
            main_ppo.run_ppo(config, task_runner_class=InProcessRunner)
        else:
            _refuse_busy_cluster()
            sys.argv = [sys.argv[0], "--config-path", str(path.parent), "--config-name", path.stem]
            main_ppo.main()
    finally:
        _close_evaluators()


def check(config: Any) -> None:
    """Assert that verl resolves to our reward manager, rollout, engine and replay buffer.

    Raises InputError where the configuration replaces one of them or verl refuses it.
    """
    import verl
    from verl.trainer.ppo.reward import resolve_reward_manager_cls
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.import_utils import import_external_libs, load_extern_type
    from verl.workers.rollout.base import get_rollout_class

    from cobalt.training.settings import verl_folder

    if Path(verl.__file__).resolve().parent != verl_folder():
        raise InputError(f"'import verl' gave {verl.__file__}, not the installed library")
    rollout = config.actor_rollout_ref.rollout
    import_external_libs(config.actor_rollout_ref.model.external_lib)
    sampler = config.trainer.v1.sampler.custom_sampler
    wanted: list[tuple[str, Any, str]] = [
        ("reward.reward_manager", resolve_reward_manager_cls(config), "CobaltReward"),
        ("trainer.v1.sampler.custom_sampler", load_extern_type(sampler.path, sampler.name), "LoudReplayBuffer"),
    ]
    if config.trainer.device == "cpu":
        wanted.append(("rollout.name", get_rollout_class(rollout.name, rollout.mode), "CpuRollout"))
    for setting, found, name in wanted:
        if found.__name__ != name or not found.__module__.startswith("cobalt."):
            raise InputError(f"{setting} resolves to {found.__module__}.{found.__name__}, not to our {name}")
    try:
        validate_config(
            config=config,
            use_reference_policy=need_reference_policy(config),
            use_critic=need_critic(config),
        )
    except (AssertionError, ValueError) as error:
        raise InputError(f"verl refuses the configuration: {error}") from error


class InProcessRunner:
    """Stands for verl's TaskRunner actor: the same code, run in this process instead of one more.

    ``run_ppo`` asks for a class with ``remote()``, whose object has ``run.remote(config)``.
    """

    def __init__(self) -> None:
        self.run = _Call(plain_task_runner()().run)

    @classmethod
    def remote(cls) -> InProcessRunner:
        return cls()


class _Call:
    def __init__(self, function: Any) -> None:
        self.function = function

    def remote(self, *args: Any) -> Any:
        import ray

        return ray.put(self.function(*args))


def _start_private_ray(config: Any) -> None:
    """Start Ray while another thread imports verl: together they take no longer than the imports.

    Ray must start from the main thread: its processes end with the thread that started them.
    """
    import ray
    from omegaconf import OmegaConf

    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    imports = threading.Thread(target=_import_verl, name="import-verl")
    imports.start()
    try:
        ray.init(_temp_dir=os.environ["COBALT_RAY_DIR"], **settings)
    finally:
        imports.join()


def _import_verl() -> None:
    """Errors show again, and are reported, when the main thread imports the same."""
    with contextlib.suppress(Exception):
        importlib.import_module("verl.trainer.main_ppo")
        importlib.import_module("verl.trainer.ppo.v1")


def _refuse_busy_cluster() -> None:
    """Two trainings in one Ray cluster share one transfer queue and corrupt each other."""
    if "RAY_ADDRESS" not in os.environ:
        return
    import ray

    ray.init(namespace="cobalt", log_to_driver=False)
    try:
        ray.get_actor("TransferQueueController", namespace="transfer_queue")
    except ValueError:
        return
    finally:
        ray.shutdown()
    raise InputError(
        f"another training is running in the Ray cluster {os.environ['RAY_ADDRESS']}: wait for its end, or unset "
        "RAY_ADDRESS to start a cluster of your own"
    )


def _close_evaluators() -> None:
    from cobalt.training.scoring import close_evaluators

    counters = close_evaluators()
    (Path(os.environ["COBALT_RUN_DIR"]) / COUNTERS).write_text(json.dumps(counters))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
